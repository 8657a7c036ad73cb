//go:build node && proxy

package interop_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

// A front sits between clients and a proxy. It records the traffic, and can break connections.
type front struct {
	url       string
	transport *http.Transport
	listening chan struct{} // closed when a GET stream is open

	mu       sync.Mutex
	passages []*passage
}

// A passage is one request and its response. The front's lock guards it.
type passage struct {
	method, lastEventID, body string
	cancel                    context.CancelFunc // breaks both sides' connections
	status                    int
	session                   string
	answer                    bytes.Buffer
}

// newFront starts a front for the address of a proxy or server.
func newFront(t *testing.T, address string) *front {
	t.Helper()
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.Proxy = nil
	own.DisableKeepAlives = true // else the proxy could close an idle connection
	f := &front{transport: own, listening: make(chan struct{})}
	web := httptest.NewServer(servertest.FullDuplex(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address})
		},
		Transport: f, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // one end has hung up, so break the other
		},
	}))
	f.url = web.URL + "/mcp"
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		own.CloseIdleConnections()
	})
	return f
}

func (f *front) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	p := &passage{method: r.Method, lastEventID: r.Header.Get("Last-Event-ID"), cancel: cancel}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			cancel()
			return nil, err
		}
		p.body = string(body)
		r = r.Clone(ctx)
		r.Body = io.NopCloser(bytes.NewReader(body))
	} else {
		r = r.Clone(ctx)
	}
	f.mu.Lock()
	f.passages = append(f.passages, p)
	f.mu.Unlock()
	resp, err := f.transport.RoundTrip(r)
	if err != nil {
		cancel()
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p.status, p.session = resp.StatusCode, resp.Header.Get("Mcp-Session-Id")
	if r.Method == http.MethodGet && p.lastEventID == "" && resp.StatusCode == http.StatusOK {
		select {
		case <-f.listening:
		default:
			close(f.listening)
		}
	}
	resp.Body = &copiedBody{ReadCloser: resp.Body, front: f, passage: p}
	return resp, nil
}

type copiedBody struct {
	io.ReadCloser
	front   *front
	passage *passage
}

func (b *copiedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.front.mu.Lock()
	defer b.front.mu.Unlock()
	b.passage.answer.Write(p[:n])
	return n, err
}

func (b *copiedBody) Close() error {
	b.passage.cancel()
	return b.ReadCloser.Close()
}

func (f *front) find(fits func(*passage) bool) *passage {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.passages) - 1; i >= 0; i-- {
		if fits(f.passages[i]) {
			return f.passages[i]
		}
	}
	return nil
}

func (f *front) count(fits func(*passage) bool) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.passages {
		if fits(p) {
			n++
		}
	}
	return n
}

func (f *front) session() (id string) {
	f.find(func(p *passage) bool {
		id = p.session
		return id != "" && isInitialize(p)
	})
	return id
}

func (f *front) breakCall(t *testing.T, tool string) {
	t.Helper()
	p := f.find(isCall(tool))
	if p == nil {
		t.Fatalf("%s was not called", tool)
	}
	p.cancel()
}

func (f *front) breakAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.passages {
		p.cancel()
	}
}

var eventID = regexp.MustCompile(`(?m)^id: ?(.+?)\r?$`)

// lastEventID returns the last event id in the response to a tool's newest call.
func (f *front) lastEventID(tool string) (id string) {
	f.find(func(p *passage) bool {
		if !isCall(tool)(p) {
			return false
		}
		if ids := eventID.FindAllStringSubmatch(p.answer.String(), -1); ids != nil {
			id = ids[len(ids)-1][1]
		}
		return true
	})
	return id
}

func isInitialize(p *passage) bool { return strings.Contains(p.body, `"initialize"`) }

func isResumption(p *passage) bool { return p.lastEventID != "" }

func isCall(tool string) func(*passage) bool {
	return func(p *passage) bool {
		return p.method == http.MethodPost && strings.Contains(p.body, `"tools/call"`) &&
			strings.Contains(p.body, `"`+tool+`"`)
	}
}

// send sends one request to the front or a replica. session may be empty.
func send(t *testing.T, method, endpoint, session, lastEventID, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t, patience), method, endpoint,
		strings.NewReader(body))
	noError(t, err)
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	if session != "" {
		req.Header.Set("Mcp-Protocol-Version", v20251125)
		req.Header.Set("Mcp-Session-Id", session)
	}
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
		req.Header.Set("Accept", "text/event-stream")
	}
	direct := &http.Transport{DisableKeepAlives: true}
	resp, err := direct.RoundTrip(req)
	noError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	noError(t, err)
	return resp.StatusCode, string(answer)
}
