package oauthtest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// An Endpoint is a part of a server or a resource that is counted by itself.
type Endpoint string

// The endpoints of a [Server] and, from ResourceMetadata on, of a [Resource].
const (
	Metadata  Endpoint = "metadata" // any well-known address, also where nothing lies
	Authorize Endpoint = "authorize"
	Token     Endpoint = "token"   // every grant except refresh_token
	Refresh   Endpoint = "refresh" // the token endpoint with grant_type refresh_token
	Register  Endpoint = "register"
	Revoke    Endpoint = "revoke"
	JWKS      Endpoint = "jwks"
	Other     Endpoint = "other" // any other path

	ResourceMetadata Endpoint = "resource metadata" // any well-known address
	Call             Endpoint = "call"              // the resource itself
)

// A Request is a request to an endpoint.
type Request struct {
	Endpoint Endpoint
	Method   string
	URL      url.URL
	Header   http.Header
	Form     url.Values // parameters of the body or, without a form in the body, of the URL
	Body     []byte
}

// A Gate keeps requests for an endpoint waiting. See Hold.
type Gate struct {
	// Arrived has an element for each request that waits or has waited.
	Arrived chan struct{}

	open chan struct{}
	once sync.Once
}

// Release lets the requests pass that wait, and all later ones.
func (g *Gate) Release() { g.once.Do(func() { close(g.open) }) }

// maxArrived bounds the requests that a gate counts; no test has as many in flight.
const maxArrived = 1 << 14

// A recorder keeps the requests of endpoints, and what is wrong with their responses.
type recorder struct {
	mu      sync.Mutex
	all     []Request
	gates   map[Endpoint]*Gate
	edits   map[Endpoint][]func(*Document)
	replies map[Endpoint]Reply
}

func newRecorder() *recorder {
	l := &recorder{gates: make(map[Endpoint]*Gate)}
	l.Behave()
	return l
}

// Count returns the number of requests to an endpoint.
func (l *recorder) Count(e Endpoint) int { return len(l.Requests(e)) }

// Requests returns the requests to an endpoint, oldest first.
func (l *recorder) Requests(e Endpoint) []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(r Request) bool { return r.Endpoint != e })
}

// Hold keeps requests for an endpoint waiting, after they were recorded and before they are looked
// at, until the gate is released.
func (l *recorder) Hold(e Endpoint) *Gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gates[e] = &Gate{Arrived: make(chan struct{}, maxArrived), open: make(chan struct{})}
	return l.gates[e]
}

// releaseAll opens all gates, so that a server can be closed.
func (l *recorder) releaseAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, gate := range l.gates {
		gate.Release()
	}
}

// Edit has f change each response of an endpoint, after earlier edits. For Authorize the
// members are the parameters of the redirect. f must not call the server.
func (l *recorder) Edit(e Endpoint, f func(*Document)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.edits[e] = append(l.edits[e], f)
}

// Reply has all requests to an endpoint get a reply in the place of a response.
func (l *recorder) Reply(e Endpoint, r Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replies[e] = r
}

// Behave undoes Edit and Reply. Gates stay.
func (l *recorder) Behave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.edits, l.replies = make(map[Endpoint][]func(*Document)), make(map[Endpoint]Reply)
}

// receiveRequest records a request and waits for its gate. Then answer is called, or the Reply is
// sent.
func (l *recorder) receiveRequest(w http.ResponseWriter, r *http.Request,
	endpointOf func(Request) Endpoint, answer func(http.ResponseWriter, Request)) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		return // the client is gone
	}
	request := Request{Method: r.Method, URL: *r.URL, Header: r.Header.Clone(), Body: body,
		Form: r.URL.Query()}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		request.Form, _ = url.ParseQuery(string(body)) // malformed parameters are missing
	}
	request.Endpoint = endpointOf(request)
	if !l.recordRequest(r.Context(), request) {
		return
	}
	switch reply, replaced := l.replyFor(request.Endpoint); {
	case !replaced:
		answer(w, request)
	case reply.Lost:
		answer(httptest.NewRecorder(), request)
		panic(http.ErrAbortHandler) // net/http closes the connection and logs nothing
	case reply.Hangs:
		<-r.Context().Done()
	default:
		reply.writeTo(w)
	}
}

// recordRequest keeps a request, and waits for its gate. It reports false when the client has gone
// away meanwhile.
func (l *recorder) recordRequest(ctx context.Context, r Request) bool {
	l.mu.Lock()
	l.all = append(l.all, r)
	gate := l.gates[r.Endpoint]
	l.mu.Unlock()
	if gate == nil {
		return true
	}
	select {
	case gate.Arrived <- struct{}{}:
	default: // full: nobody counts that far
	}
	select {
	case <-gate.open:
		return true
	case <-ctx.Done():
		return false
	}
}

// replyFor returns the Reply of an endpoint, if it has one. A response is lost once.
func (l *recorder) replyFor(e Endpoint) (Reply, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.replies[e]
	if found.Lost {
		delete(l.replies, e)
	}
	return found, ok
}

// applyEdits edits the response of an endpoint.
func (l *recorder) applyEdits(e Endpoint, d *Document) {
	l.mu.Lock()
	edits := slices.Clone(l.edits[e])
	l.mu.Unlock()
	for _, edit := range edits {
		edit(d)
	}
}

// sendDocument writes the document as the answer of an endpoint, after the edits.
func (l *recorder) sendDocument(w http.ResponseWriter, e Endpoint, status int, d Document) {
	l.applyEdits(e, &d)
	Reply{Status: status, Body: string(d.encodeJSON())}.writeTo(w)
}
