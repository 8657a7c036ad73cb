package oauth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/urlrule"
)

// callbackPath is where the browser comes back to.
const callbackPath = "/callback"

// An Interaction has a person log in. Logins of one Source do not overlap.
type Interaction interface {
	// Open prepares a login. hint is the redirect URI of the last one, which the client may be
	// registered with; empty: none. Another one may mean another registration.
	Open(ctx context.Context, hint string) (Receiver, error)
}

// A Receiver takes what the browser comes back with.
type Receiver interface {
	// RedirectURI is where the browser comes back to.
	RedirectURI() string
	// Receive sends the person to Login.URL and returns the URL that the browser came back
	// with. check says what is wrong with one: what is not the answer to this login, which is a
	// [*CallbackError], is ignored, and the wait goes on.
	Receive(ctx context.Context, l *Login, check func(callback *url.URL) error) (*url.URL, error)
	// Close releases what Open has taken. It is called once.
	Close() error
}

// A Loopback logs a person in who has a browser on this machine: it opens it, and listens on a
// loopback address until it comes back. Where the browser is on another machine, as over SSH, the
// person pastes the address of the page that the browser cannot load. The zero value prints
// nothing and reads nothing.
type Loopback struct {
	// Host is the loopback host of the redirect URI: "127.0.0.1", "::1" or "localhost". Empty:
	// 127.0.0.1.
	Host string
	// Ports are tried in this order, for authorization servers that know exact redirect URIs
	// alone. Nil: any that is free.
	Ports []int
	// Browse opens a URL in the person's browser. Nil: the command of the operating system.
	// It must not go through a shell. An error is not the end where there is a Prompt: the person
	// may open the URL. ctx ends with the login.
	Browse func(ctx context.Context, url string) error
	// Prompt is where the URL is shown to the person. Nil: nowhere. Not the standard output of a
	// server that speaks the protocol there.
	Prompt io.Writer
	// Paste is where the person may paste the URL that the browser was sent back to. Nil: nowhere.
	// A login that ends otherwise leaves a read of it behind, which takes the next line.
	Paste io.Reader
	// Timeout is how long the person may take. 0: five minutes, which is also the most.
	Timeout time.Duration

	mu    sync.Mutex
	lines chan string // of Paste, nil: nobody has read it
}

// Open implements [Interaction]: it listens.
func (b *Loopback) Open(ctx context.Context, hint string) (Receiver, error) {
	host := b.Host
	if host == "" {
		host = "127.0.0.1"
	}
	var failed error
	for _, port := range b.candidates(host, hint) {
		listeners, err := listenLoopback(ctx, host, port)
		if err == nil {
			return newReceiver(b, host, listeners), nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, fmt.Errorf("oauth: no port to come back to: %w", failed)
}

// candidates returns the ports to try: that of the last login first.
func (b *Loopback) candidates(host, hint string) []int {
	ports := b.Ports
	if len(ports) == 0 {
		ports = []int{0}
	}
	if u, err := url.Parse(hint); err == nil && u.Hostname() == host {
		if port, err := strconv.Atoi(u.Port()); err == nil && len(b.Ports) == 0 {
			ports = []int{port, 0}
		}
	}
	return ports
}

// listenLoopback listens on a port of a loopback host. localhost is two addresses: a browser may
// take either.
func listenLoopback(ctx context.Context, host string, port int) ([]net.Listener, error) {
	addresses := []string{host}
	if host == "localhost" {
		addresses = []string{"127.0.0.1", "::1"}
	}
	var all []net.Listener
	for i, address := range addresses {
		if ip := net.ParseIP(address); ip == nil || !ip.IsLoopback() {
			return nil, fmt.Errorf("%q is not a loopback host", host)
		}
		at := net.JoinHostPort(address, strconv.Itoa(port))
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
		if err != nil && i > 0 && len(all) > 0 {
			break // a machine without IPv6
		}
		if err != nil {
			return nil, err
		}
		all = append(all, l)
		port = l.Addr().(*net.TCPAddr).Port
	}
	return all, nil
}

// A loopbackReceiver serves one page, once.
type loopbackReceiver struct {
	b         *Loopback
	authority string
	server    *http.Server
	callbacks chan *url.URL

	mu    sync.Mutex
	check func(callback *url.URL) error // nil: no login has begun
	done  bool

	refused *CallbackError // the last callback that was not taken; nil: none
}

func newReceiver(b *Loopback, host string, listeners []net.Listener) *loopbackReceiver {
	port := listeners[0].Addr().(*net.TCPAddr).Port
	r := &loopbackReceiver{b: b, authority: net.JoinHostPort(host, strconv.Itoa(port)),
		callbacks: make(chan *url.URL, 1)}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10}
	for _, l := range listeners {
		go func() { _ = r.server.Serve(l) }() // until Close
	}
	return r
}

// RedirectURI implements [Receiver].
func (r *loopbackReceiver) RedirectURI() string { return "http://" + r.authority + callbackPath }

// Close implements [Receiver]. The browser still gets the page that it waits for.
func (r *loopbackReceiver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if r.server.Shutdown(ctx) != nil {
		return r.server.Close()
	}
	return nil
}

// ServeHTTP takes the callback. What is not that of the login gets 400, and the wait goes on.
func (r *loopbackReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case req.Method != http.MethodGet || req.URL.Path != callbackPath || req.Host != r.authority:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "This is not the page of a login.\n")
	case !r.take(req.URL):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "This does not belong to the login that is waited for.\n")
	default:
		_, _ = io.WriteString(w, "You may close this page and go back to your program.\n")
	}
}

// take hands a callback over if it is the answer to the login, and the first.
func (r *loopbackReceiver) take(callback *url.URL) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done || r.check == nil {
		return false
	}
	if wrong := (*CallbackError)(nil); errors.As(r.check(callback), &wrong) {
		r.refused = wrong
		return false
	}
	r.done = true
	r.callbacks <- callback
	return true
}

// Receive implements [Receiver].
func (r *loopbackReceiver) Receive(ctx context.Context, l *Login,
	check func(callback *url.URL) error) (*url.URL, error) {
	timeout := r.b.Timeout
	if timeout <= 0 || timeout > loginTime {
		timeout = loginTime
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r.mu.Lock()
	r.check = check
	r.mu.Unlock()
	if _, err := urlrule.Check(l.URL); err != nil {
		return nil, fmt.Errorf("oauth: the page of the login: %w", err)
	}
	if r.b.Prompt != nil {
		fmt.Fprintf(r.b.Prompt, "Open this page to log in:\n%s\n", l.URL)
	}
	browse := r.b.Browse
	if browse == nil {
		browse = openBrowser
	}
	browsed := make(chan error, 1)
	go func() { browsed <- browse(ctx, l.URL) }() // some commands end with the browser
	return r.wait(ctx, browsed)
}

func (r *loopbackReceiver) wait(ctx context.Context, browsed <-chan error) (*url.URL, error) {
	lines := r.b.pasted()
	for {
		select {
		case callback := <-r.callbacks:
			return callback, nil
		case err := <-browsed:
			if err != nil && r.b.Prompt == nil {
				return nil, fmt.Errorf("oauth: the browser cannot be opened: %w", err)
			}
		case line, ok := <-lines:
			if !ok {
				lines = nil
				continue
			}
			u, err := url.Parse(strings.TrimSpace(line))
			if (err != nil || !r.take(u)) && r.b.Prompt != nil {
				fmt.Fprintln(r.b.Prompt, "That is not where the browser was sent back to.")
			}
		case <-ctx.Done():
			select {
			case callback := <-r.callbacks: // the browser has been told that it was taken
				return callback, nil
			default:
				return nil, r.timeoutError(context.Cause(ctx))
			}
		}
	}
}

// timeoutError says what the wait was for, and why the last callback was not it.
func (r *loopbackReceiver) timeoutError(cause error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		return fmt.Errorf("oauth: nobody has logged in: %w", cause)
	}
	return fmt.Errorf("oauth: nobody has logged in: %w; %w", cause, r.refused)
}

// pasted returns the lines of Paste, which are read by one goroutine for all logins.
func (b *Loopback) pasted() <-chan string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Paste == nil || b.lines != nil {
		return b.lines
	}
	lines := make(chan string)
	b.lines = lines
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(b.Paste)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	return lines
}

// openBrowser opens a URL with the command of the operating system, as one argument. The command
// may be the browser: it is not ended with the login.
func openBrowser(ctx context.Context, page string) error {
	command := []string{"xdg-open", page}
	switch runtime.GOOS {
	case "darwin":
		command[0] = "open"
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", page}
	}
	return exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...).Run()
}
