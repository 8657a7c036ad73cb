package oauthtest

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// An Endpoint is a part of a server or a resource that is counted by itself.
type Endpoint string

// The endpoints of a [Server] and, from ResourceMetadata on, of a [Resource].
const (
	Metadata   Endpoint = "metadata" // any well-known address, also where nothing lies
	Authorize  Endpoint = "authorize"
	Token      Endpoint = "token"   // every grant except refresh_token
	Refresh    Endpoint = "refresh" // the token endpoint with grant_type refresh_token
	Register   Endpoint = "register"
	Introspect Endpoint = "introspect"
	Revoke     Endpoint = "revoke"
	JWKS       Endpoint = "jwks"
	Other      Endpoint = "other" // what the server does not serve

	ResourceMetadata Endpoint = "resource metadata" // any well-known address
	Call             Endpoint = "call"              // the resource itself
)

// A Request is what an endpoint has received.
type Request struct {
	Endpoint Endpoint
	Method   string
	URL      url.URL
	Host     string
	Header   http.Header
	Form     url.Values // parameters of the body or, without a form in the body, of the URL
	Body     []byte
	Time     time.Time
}

// A Gate keeps requests for an endpoint waiting. See [Server.Hold].
type Gate struct {
	// Arrived has an element for each request that waits or has waited.
	Arrived chan struct{}

	open chan struct{}
	once sync.Once
}

// Release lets the requests pass that wait, and all later ones.
func (g *Gate) Release() { g.once.Do(func() { close(g.open) }) }

// maxArrived is how many requests a gate counts; more than any test has in flight.
const maxArrived = 1 << 14

// A recorder keeps what endpoints have received and how they misbehave.
type recorder struct {
	mu      sync.Mutex
	all     []Request
	gates   map[Endpoint]*Gate
	edits   map[Endpoint][]func(*Document)
	replies map[Endpoint]*Reply
}

// record keeps a request, and waits where a gate says so. It reports false when the client has gone
// away meanwhile.
func (l *recorder) record(ctx context.Context, r Request) bool {
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

func (l *recorder) requests(e Endpoint) []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []Request
	for _, r := range l.all {
		if r.Endpoint == e {
			found = append(found, r)
		}
	}
	return found
}

func (l *recorder) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = nil
}

func (l *recorder) hold(e Endpoint) *Gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gates == nil {
		l.gates = make(map[Endpoint]*Gate)
	}
	gate := &Gate{Arrived: make(chan struct{}, maxArrived), open: make(chan struct{})}
	l.gates[e] = gate
	return gate
}

// releaseAll opens all gates, so that a server can be closed.
func (l *recorder) releaseAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, gate := range l.gates {
		gate.Release()
	}
}

func (l *recorder) edit(e Endpoint, f func(*Document)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.edits == nil {
		l.edits = make(map[Endpoint][]func(*Document))
	}
	l.edits[e] = append(l.edits[e], f)
}

// apply edits what an endpoint is about to answer.
func (l *recorder) apply(e Endpoint, d *Document) {
	l.mu.Lock()
	edits := slices.Clone(l.edits[e])
	l.mu.Unlock()
	for _, edit := range edits {
		edit(d)
	}
}

func (l *recorder) answer(e Endpoint, reply Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.replies == nil {
		l.replies = make(map[Endpoint]*Reply)
	}
	l.replies[e] = &reply
}

// replyFor returns what an endpoint answers instead of its own answer, if anything.
func (l *recorder) replyFor(e Endpoint) (Reply, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	reply := l.replies[e]
	if reply == nil {
		return Reply{}, false
	}
	if reply.Times > 0 {
		if reply.Times--; reply.Times == 0 {
			delete(l.replies, e)
		}
	}
	return *reply, true
}

func (l *recorder) behave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.edits, l.replies = nil, nil
}
