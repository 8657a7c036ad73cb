package interop_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

// patience bounds operations of milliseconds, or of seconds if a process has to start. It is so
// long that only hangs exceed it, even on a busy machine.
const patience = 2 * time.Minute

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

type said func() []wiretest.Message

// listen serves a handler on loopback until the test ends, and records its messages.
func listen(t testing.TB, handler http.Handler) (endpoint string, _ said) {
	t.Helper()
	behind := httptest.NewUnstartedServer(handler)
	behind.Config.ErrorLog = log.New(io.Discard, "", 0) // other libraries' handlers may panic
	behind.Start()
	t.Cleanup(behind.Close)
	return record(t, behind.URL+"/mcp")
}

// newHTTPClient returns a client with its own connections. (A parallel test that closes an
// httptest.Server closes the connections of http.DefaultTransport.)
func newHTTPClient(t testing.TB) *http.Client {
	own := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(own.CloseIdleConnections)
	return &http.Client{Transport: own}
}

// record returns the endpoint of a proxy to target, which records the actual bytes.
func record(t testing.TB, target string) (endpoint string, _ said) {
	t.Helper()
	to, err := url.Parse(target)
	noError(t, err)
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.Proxy = nil
	t.Cleanup(own.CloseIdleConnections)
	recorder := &wiretest.Recorder{Base: own}
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: to.Scheme,
				Host: to.Host})
		},
		Transport:     recorder,
		FlushInterval: -1, // events pass at once
		// One end has hung up, so break the other.
		ErrorHandler: func(http.ResponseWriter, *http.Request,
			error) {
			panic(http.ErrAbortHandler)
		},
	})
	t.Cleanup(front.Close)
	return front.URL + to.Path, recorder.Messages
}

type line struct {
	r io.ReadCloser
	w io.WriteCloser
}

// stream returns both ends of a recorded stream.
func stream(t testing.TB) (client, server line, _ said) {
	var lines wiretest.Log
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	client = line{toClient, recorded{&oneByOne{w: lines.Lines(wiretest.Client, fromClient)},
		fromClient}}
	server = line{toServer, recorded{&oneByOne{w: lines.Lines(wiretest.Server, fromServer)},
		fromServer}}
	t.Cleanup(func() { // this unblocks writers, and ends readers
		_ = fromClient.Close()
		_ = fromServer.Close()
	})
	return client, server, lines.Messages
}

// serve serves one end of a stream until it ends. That must happen before the test ends.
func serve(t testing.TB, end line, f func(context.Context)) {
	served := make(chan struct{})
	go func() {
		defer close(served)
		// As after the end of a process, readers get EOF and writers an error.
		defer end.w.Close()
		defer end.r.Close()
		f(t.Context())
	}()
	t.Cleanup(func() { <-served })
}

// A oneByOne serializes writes, like a process's standard output: some servers write concurrently.
type oneByOne struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneByOne) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

type recorded struct {
	io.Writer
	io.Closer
}

// conform checks one side's messages against a revision's schema, and both sides' for members of
// the other era. It returns the number of server requests. A client of both eras is modern until it
// opens a session. leaks is the peer's allowed leak from the other era, in the words of apart.
func conform(t testing.TB, revision string, ours wiretest.From, messages []wiretest.Message,
	leaks string) (pushes int) {
	t.Helper()
	// The variable methods has the methods of requests, by sender and id.
	methods := map[wiretest.From]map[string]string{wiretest.Client: {}, wiretest.Server: {}}
	opened := revision == modern || legs(messages, protocol.MethodInitialize) == 0
	checked, leaked, exchange := 0, false, ""
	for _, message := range messages {
		isOurs := message.From == ours || ours == both
		if message.From == wiretest.Client {
			exchange = message.HTTP
		}
		if len(message.Body) == 0 || !isOurs && !json.Valid(message.Body) {
			continue
		}
		var head struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(message.Body, &head); err != nil {
			t.Errorf("%s said what is no message: %.200s", message.From, message.Body)
			continue
		}
		spoken := revision
		if opened = opened || head.Method == protocol.MethodInitialize; !opened {
			spoken = modern
		}
		answers := ""
		switch {
		case head.Method == "":
			answers = methods[other(message.From)][string(head.ID)]
		case head.ID != nil:
			methods[message.From][string(head.ID)] = head.Method
			if message.From == wiretest.Server {
				pushes++
				if ours != wiretest.Client && strings.HasPrefix(exchange, http.MethodGet) {
					t.Errorf("%s is not on the stream of the request it relates to", head.Method)
				}
			}
		}
		if err := apart(spoken, message.From, message.Body); err != nil && !isOurs &&
			err.Error() == leaks {
			leaked = true
		} else if err != nil {
			t.Errorf("%s, in %s: %v\n%.500s", message.From, spoken, err, message.Body)
		}
		if isOurs {
			checked++
			wiretest.Validate(t, spoken, message.From, message.Body, answers)
		}
	}
	if checked == 0 {
		t.Errorf("%s said nothing", ours)
	}
	if leaks != "" && !leaked {
		t.Errorf("the peer does not say any more what made this true: %s", leaks)
	}
	return pushes
}

func other(from wiretest.From) wiretest.From {
	if from == wiretest.Client {
		return wiretest.Server
	}
	return wiretest.Client
}

func legs(messages []wiretest.Message, method string) (n int) {
	for _, message := range messages {
		var head struct {
			Method string `json:"method"`
		}
		if json.Unmarshal(message.Body, &head) == nil && head.Method == method &&
			message.From == wiretest.Client {
			n++
		}
	}
	return n
}
