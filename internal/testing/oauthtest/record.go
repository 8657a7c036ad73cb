package oauthtest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

type Endpoint string

// The first endpoints belong to a [Server], those from ResourceMetadata on to a [Resource].
const (
	Metadata  Endpoint = "metadata" // any well-known address, even one without metadata
	Authorize Endpoint = "authorize"
	Token     Endpoint = "token"   // every grant except refresh_token
	Refresh   Endpoint = "refresh" // the token endpoint, for grant_type refresh_token
	Register  Endpoint = "register"
	Revoke    Endpoint = "revoke"
	Keys      Endpoint = "keys"
	Other     Endpoint = "other" // any other path

	ResourceMetadata Endpoint = "resource metadata" // any well-known address
	Call             Endpoint = "call"              // the resource itself
)

// Elsewhere is a path for redirects. Its metadata catches clients that follow a redirect.
const Elsewhere = "/elsewhere"

type Request struct {
	*http.Request
	Endpoint Endpoint
	Body     []byte
}

// A Next returns the answer to a request.
type Next = func() *Answer

// A Rewrite changes how an endpoint answers. next returns the right answer to r, which may be
// changed first. Nil closes the connection. Authorize's document has the redirect's parameters.
type Rewrite func(r *Request, next Next) *Answer

type recorder struct {
	mu       sync.Mutex
	all      []Request
	rewrites map[Endpoint][]Rewrite
}

func (l *recorder) Count(e Endpoint) int { return len(l.Requests(e)) }

// Requests returns the requests to an endpoint, oldest first.
func (l *recorder) Requests(e Endpoint) []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(r Request) bool { return r.Endpoint != e })
}

// Rewrite adds a rewrite to an endpoint, after earlier ones.
func (l *recorder) Rewrite(e Endpoint, f Rewrite) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rewrites == nil {
		l.rewrites = map[Endpoint][]Rewrite{}
	}
	l.rewrites[e] = append(l.rewrites[e], f)
}

// Edit changes each answer of an endpoint.
func (l *recorder) Edit(e Endpoint, f func(*Answer)) {
	l.Rewrite(e, func(_ *Request, next Next) *Answer {
		a := next()
		f(a)
		return a
	})
}

// Behave undoes Rewrite, Edit and Hold.
func (l *recorder) Behave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rewrites = nil
}

// A Gate blocks requests to an endpoint.
type Gate struct {
	// Arrived gets an element for each request that arrives.
	Arrived chan struct{}
	open    chan struct{}
}

// Release lets all requests pass, both waiting and later ones.
func (g *Gate) Release() { close(g.open) }

const maxArrived = 1 << 14

// Hold blocks requests until the gate is released.
func (l *recorder) Hold(e Endpoint) *Gate {
	g := &Gate{make(chan struct{}, maxArrived), make(chan struct{})}
	l.Rewrite(e, func(r *Request, next Next) *Answer {
		g.Arrived <- struct{}{}
		select {
		case <-g.open:
			return next()
		case <-r.Context().Done(): // the client is gone
			return nil
		}
	})
	return g
}

// listen answers requests until the test ends. Before the first one it calls begin with the origin.
func listen(t testing.TB, l *recorder, endpointOf func(*Request) Endpoint,
	answer func(*Request) *Answer, begin func(origin string)) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, plain *http.Request) {
			body, err := io.ReadAll(io.LimitReader(plain.Body, 16<<20))
			if err != nil {
				return // the client is gone
			}
			plain.Body = io.NopCloser(bytes.NewReader(body))
			_ = plain.ParseForm() // malformed parameters count as absent
			plain.Body = io.NopCloser(bytes.NewReader(body))
			r := &Request{Request: plain, Body: body}
			r.Endpoint = endpointOf(r)
			a := l.record(r, func() *Answer { return answer(r) })()
			if a == nil {
				panic(http.ErrAbortHandler) // net/http closes the connection and logs nothing
			}
			a.writeTo(w, r)
		}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	begin("http://" + server.Listener.Addr().String())
	server.Start()
}

func (l *recorder) record(r *Request, next Next) Next {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, Request{r.Clone(r.Context()), r.Endpoint, r.Body})
	for _, f := range l.rewrites[r.Endpoint] {
		inner := next
		next = func() *Answer { return f(r, inner) }
	}
	return next
}
