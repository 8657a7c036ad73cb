package oauth

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
)

const callbackPath = "/callback" // for clients that are not registered dynamically

// issuerPath returns the redirect path of clients that are registered dynamically.
func issuerPath(issuer string) string {
	sum := sha256.Sum256([]byte(issuer))
	return callbackPath + "/" + hex.EncodeToString(sum[:8])
}

// An Interaction logs users in. Calls of a [Source], its Receivers included, do not overlap.
type Interaction interface {
	// Open prepares a login. path is the path of the redirect URI: "/callback", or for dynamically
	// registered clients a path per issuer, so that no authorization server can get the code of
	// another by passing on its client id (RFC 9700, section 4.4.2.2). last is the redirect URI of
	// the last such registration at the issuer, or empty: with a different URI the client may be
	// registered again. An error ends the login. ctx ends with the login.
	Open(ctx context.Context, path, last string) (Receiver, error)
}

// A Receiver receives the authorization response of one login.
type Receiver interface {
	RedirectURI() string
	// Receive opens Login.URL for the user, and returns the callback URL. It calls check,
	// concurrently if need be, for each URL that comes back. If check returns [ErrCallback], it
	// must go on waiting. Receive is called once, and must return when ctx ends.
	Receive(ctx context.Context, l *Login, check func(callback *url.URL) error) (*url.URL, error)
	// Close releases the resources of Open. It is always called once. Its error is ignored.
	Close() error
}

// A Loopback is an [Interaction] for a user with a browser on this machine: it opens the browser,
// and listens on a loopback address for the authorization response (RFC 8252, section 7.3). If the
// browser is on another machine, as over SSH, the user pastes the URL of the page that the browser
// cannot load. The zero value opens the browser. The fields must not be changed after the first
// login. Several Sources may use a Loopback concurrently.
type Loopback struct {
	// Host of the redirect URI: "127.0.0.1" (default), "::1" or "localhost".
	Host string
	// Ports are tried in order, for authorization servers that compare ports. Nil: a free port.
	Ports []int
	// Browse opens a URL in the user's browser, without a shell, and need not wait. ctx ends with
	// the login. An error ends the login if Prompt is nil. Nil: the operating system's command.
	Browse func(ctx context.Context, url string) error
	// Prompt gets the URL as a line, unless nil. It must not be a stdio server's standard output.
	Prompt io.Writer
	// Paste gets the callback URL as a line. One goroutine reads it to its end. Nil: not used.
	Paste io.Reader

	mu    sync.Mutex
	lines chan string // of Paste; nil until a goroutine reads it
}

// Open implements [Interaction]: it listens on a port.
func (b *Loopback) Open(ctx context.Context, path, last string) (Receiver, error) {
	host := cmp.Or(b.Host, "127.0.0.1")
	var failed error
	for _, port := range b.candidatePorts(host, last) {
		listeners, err := listenLoopback(ctx, host, port)
		if err == nil {
			return newReceiver(b, host, path, listeners), nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, fmt.Errorf("oauth: no port to come back to: %w", failed)
}

// candidatePorts returns Ports. If nil, it returns hint's port and then 0, for any free port.
func (b *Loopback) candidatePorts(host, hint string) []int {
	if len(b.Ports) > 0 {
		return b.Ports
	}
	if u, err := url.Parse(hint); err == nil && u.Hostname() == host {
		if port, err := strconv.Atoi(u.Port()); err == nil {
			return []int{port, 0}
		}
	}
	return []int{0}
}

// listenLoopback listens on a port of a loopback host; 0 means any free port. For localhost it
// listens on both addresses, since a browser may use either. It fails if another program has the
// port on one address: that program would get the authorization response.
func listenLoopback(ctx context.Context, host string, port int) ([]net.Listener, error) {
	addresses := []string{host}
	if host == "localhost" {
		addresses = []string{"127.0.0.1"}
		if l, err := listenTCP(ctx, "::1", 0); err == nil { // this machine has IPv6
			_ = l.Close()
			addresses = append(addresses, "::1")
		}
	}
	var all []net.Listener
	for _, address := range addresses {
		l, err := listenTCP(ctx, address, port)
		if err != nil {
			for _, other := range all {
				_ = other.Close()
			}
			return nil, err
		}
		all = append(all, l)
		port = l.Addr().(*net.TCPAddr).Port // same port as the first
	}
	return all, nil
}

func listenTCP(ctx context.Context, address string, port int) (net.Listener, error) {
	if ip := net.ParseIP(address); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("%q is not a loopback host", address)
	}
	at := net.JoinHostPort(address, strconv.Itoa(port))
	return (&net.ListenConfig{}).Listen(ctx, "tcp", at)
}

// A loopbackReceiver is the [Receiver] of a Loopback. It serves the page of the redirect URI.
type loopbackReceiver struct {
	b         *Loopback
	authority string // host and port of the redirect URI
	path      string // of the redirect URI
	server    *http.Server
	callbacks chan *url.URL // buffers the accepted callback

	mu      sync.Mutex
	check   func(callback *url.URL) error // of Receive; nil before Receive
	done    bool                          // whether a callback was accepted
	refused error                         // last ErrCallback, or nil
}

func newReceiver(b *Loopback, host, path string, listeners []net.Listener) *loopbackReceiver {
	port := listeners[0].Addr().(*net.TCPAddr).Port
	r := &loopbackReceiver{b: b, authority: net.JoinHostPort(host, strconv.Itoa(port)),
		path: cmp.Or(path, callbackPath), callbacks: make(chan *url.URL, 1)}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10}
	for _, l := range listeners {
		go func() { _ = r.server.Serve(l) }() // until Close
	}
	return r
}

func (r *loopbackReceiver) RedirectURI() string { return "http://" + r.authority + r.path }

// Close waits up to a second while pages are served.
func (r *loopbackReceiver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if r.server.Shutdown(ctx) != nil {
		return r.server.Close()
	}
	return nil
}

// ServeHTTP accepts the login's callback. All other requests get 400.
func (r *loopbackReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case req.Method != http.MethodGet || req.URL.Path != r.path || req.Host != r.authority:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "This is not the page of a login.\n")
	case !r.acceptCallback(req.URL):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "This does not belong to the login that is waited for.\n")
	default:
		_, _ = io.WriteString(w, "You may close this page and go back to your program.\n")
	}
}

// acceptCallback passes the login's callback to Receive. False: a wrong URL, or a repetition.
func (r *loopbackReceiver) acceptCallback(callback *url.URL) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done || r.check == nil {
		return false
	}
	if err := r.check(callback); errors.Is(err, ErrCallback) {
		r.refused = err
		return false
	}
	r.done = true
	r.callbacks <- callback
	return true
}

// Receive ends after five minutes.
func (r *loopbackReceiver) Receive(ctx context.Context, l *Login,
	check func(callback *url.URL) error) (*url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
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
	go func() { browsed <- browse(ctx, l.URL) }() // some commands run as long as the browser
	return r.waitForCallback(ctx, browsed)
}

// waitForCallback returns the callback, from the page or from Paste. browsed gets Browse's error.
func (r *loopbackReceiver) waitForCallback(ctx context.Context, browsed <-chan error) (
	*url.URL, error) {
	lines := r.b.readPastedLines()
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
			if (err != nil || !r.acceptCallback(u)) && r.b.Prompt != nil {
				fmt.Fprintln(r.b.Prompt, "That is not where the browser was sent back to.")
			}
		case <-ctx.Done():
			select {
			case callback := <-r.callbacks: // the user has seen the success page
				return callback, nil
			default:
				return nil, r.timeoutError(context.Cause(ctx))
			}
		}
	}
}

func (r *loopbackReceiver) timeoutError(cause error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		return fmt.Errorf("oauth: login not completed: %w", cause)
	}
	return fmt.Errorf("oauth: login not completed: %w; %w", cause, r.refused)
}

// readPastedLines returns the lines of Paste, if any, read by one goroutine for all logins.
func (b *Loopback) readPastedLines() <-chan string {
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
// may be the browser itself, so it is not killed when the login ends.
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
