package hophttp_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/replicas"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var noError = testkit.NoError

// newForwarder returns a replica with the key of the fleet.
func newForwarder(t testing.TB, name string, change ...func(*replicas.Options)) (
	f *hophttp.Forwarder) {
	t.Helper()
	o := replicas.Options{Name: name, Keys: servertest.NewKeyring("k1"), Locate: nowhere}
	for _, c := range change {
		c(&o)
	}
	f, err := hophttp.New(&o)
	noError(t, err)
	t.Cleanup(f.CloseIdle)
	return f
}

func nowhere(context.Context, string) (*url.URL, error) {
	return nil, replicas.ErrUnknown
}

func locatedAt(t testing.TB, text string) func(*replicas.Options) {
	t.Helper()
	u, err := url.Parse(text)
	noError(t, err)
	return func(o *replicas.Options) {
		o.Locate = func(context.Context, string) (*url.URL, error) { return u, nil }
	}
}

func serve(t testing.TB, h http.Handler) *httptest.Server {
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	return ts
}

// A pair is an owner and another replica in front of it.
type pair struct {
	a            *hophttp.Forwarder
	owner, other *httptest.Server
	passes       http.Handler // the handler of other
	id           string       // of a session
	outcomes     outcomes     // of hops
}

// startPair starts an owner, with next as handler, and another replica in front of it.
func startPair(t testing.TB, next http.HandlerFunc) *pair {
	t.Helper()
	return startPairBehind(t, next, func(_ *hophttp.Forwarder, h http.Handler) http.Handler {
		return h
	})
}

// startPairBehind is startPair with the handler front around the owner's.
func startPairBehind(t testing.TB, next http.HandlerFunc,
	front func(*hophttp.Forwarder, http.Handler) http.Handler) *pair {
	t.Helper()
	p := &pair{a: newForwarder(t, "a")}
	p.owner = serve(t, front(p.a, route(p.a, next)))
	p.passes = route(newForwarder(t, "b", locatedAt(t, p.owner.URL)), nil, &p.outcomes)
	p.other, p.id = serve(t, p.passes), p.a.SealSession("x")
	return p
}

func (p *pair) send(t testing.TB, method string, header ...string) (status int, body string) {
	t.Helper()
	return send(t, p.other, newRequest(t, method, p.other.URL, p.id, ping, header...))
}

// wantUnknown requires the response for an unknown outcome.
func wantUnknown(t testing.TB, status int, body string) {
	t.Helper()
	if status != http.StatusBadGateway || !strings.Contains(body, "outcome unknown") {
		t.Errorf("got status %d: %s", status, body)
	}
}

// route serves sessions of f with next and forwards others, reporting to o, like server/serverhttp.
func route(f *hophttp.Forwarder, next http.Handler, o ...*outcomes) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.AnswerChallenge(w, r) {
			return
		}
		received, refused := f.Receive(w, r)
		if refused {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || received != nil && !received.IsBody(body) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		owner, _ := f.FindOwner(r.Header.Get(hophttp.HeaderSession))
		switch {
		case owner == f.Self():
			next.ServeHTTP(w, r)
		case received != nil:
			w.WriteHeader(http.StatusLoopDetected)
		default:
			e, broken := f.Forward(w, r, owner, body, 0)
			for _, o := range o {
				o.add(e.Outcome)
			}
			if broken || e.Status == 0 {
				writeFailure(w, e.Outcome)
			}
		}
	})
}

func writeFailure(w http.ResponseWriter, outcome event.ForwardOutcome) {
	switch outcome {
	case words.ForwardGone:
		w.WriteHeader(http.StatusNotFound)
	case words.ForwardUnknown:
		http.Error(w, hophttp.ErrorOutcomeUnknown().Message, http.StatusBadGateway)
	case words.ForwardUnreachable:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		panic(http.ErrAbortHandler) // an empty response would mean success
	}
}

const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

// newRequest returns a request for a session. header has names and values in turn.
func newRequest(t testing.TB, method, url, id, body string, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	noError(t, err)
	r.Header.Set("Mcp-Session-Id", id)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func send(t testing.TB, ts *httptest.Server, r *http.Request) (status int, body string) {
	t.Helper()
	response, err := ts.Client().Do(r)
	noError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	noError(t, err)
	return response.StatusCode, string(text)
}

type outcomes struct {
	mu   sync.Mutex
	seen []event.ForwardOutcome
}

func (o *outcomes) want(t testing.TB, outcome event.ForwardOutcome) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.seen) != 1 || o.seen[0] != outcome {
		t.Errorf("reported as %v, want %s", o.seen, outcome)
	}
}

func (o *outcomes) add(outcome event.ForwardOutcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, outcome)
}
