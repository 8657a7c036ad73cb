//lint:file-ignore SA1019 sampling and roots are deprecated, but supported, so they are tested

package gosdk_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// observer collects events.
type observer struct {
	mu     sync.Mutex
	events []event.Event
}

func (o *observer) Observe(_ context.Context, e event.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

func (o *observer) all() []event.Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]event.Event(nil), o.events...)
}

func (o *observer) count(is func(event.Event) bool) (n int) {
	for _, e := range o.all() {
		if is(e) {
			n++
		}
	}
	return n
}

// sdkOver connects a client of the SDK in memory.
func sdkOver(t testing.TB, server *mcp.Server, who *person, revision string) peer {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	run(t, server, theirs)
	return dialSDK(t, who, false, revision, ours)
}

// sessionOver connects our client in a session over HTTP, recorded.
func sessionOver(t *testing.T, server *mcp.Server, who *person,
	mute bool) (peer, *wiretest.Recorder) {
	t.Helper()
	for _, r := range routes() {
		if r.name == "rondo/http/"+legacy {
			return r.open(t, server, who, mute)
		}
	}
	t.Fatal("no such route")
	return nil, nil
}

// Nothing of rounds is on the wire of a session, however many there are.
func TestSessionsSeeNoRounds(t *testing.T) {
	for _, s := range styles() {
		t.Run(s.name, func(t *testing.T) {
			who := newPerson(t, map[string]string{"Which region?": `{"name":"eu"}`,
				"How big in eu?": `{"cores":8}`, "Sure?": `{"reason":"because"}`})
			c, recorder := sessionOver(t, serverOf(t, s), who, false)
			if got, err := c.do(within(t), "wizard"); err != nil ||
				got != "8 cores in eu: because" {
				t.Errorf("got %q, %v", got, err)
			}
			who.wantAsked(1)
			calls := 0
			for _, m := range recorder.Messages() {
				for _, word := range []string{"inputRequests", "requestState", "resultType"} {
					if strings.Contains(string(m.Body), word) {
						t.Errorf("there is %s in %s", word, m.Body)
					}
				}
				if strings.Contains(string(m.Body), `"tools/call"`) {
					calls++
				}
			}
			if calls != 1 {
				t.Errorf("the tool was called %d times", calls)
			}
			conformsInSession(t, recorder)
		})
	}
}

// conformsInSession holds what the server says in a session against the schema.
func conformsInSession(t *testing.T, recorder *wiretest.Recorder) {
	t.Helper()
	for _, m := range recorder.Messages() {
		if m.From == wiretest.Server &&
			strings.Contains(string(m.Body), `"method":"elicitation/create"`) {
			wiretest.Validate(t, legacy, wiretest.Server, m.Body, "")
		}
	}
}

// A state alone is waited for in the process.
func TestStateAloneInASession(t *testing.T) {
	server := single(t, func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if req.Params.RequestState == "" {
			return &mcp.CallToolResult{RequestState: "1"}, nil
		}
		return toolText("state " + req.Params.RequestState), nil
	})
	if got, err := sdkOver(t, server, newPerson(t, nil), legacy).do(within(t), "t"); err != nil ||
		got != "state 1" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A visit in a session has an id, whoever asks for it.
func TestVisitsHaveIDs(t *testing.T) {
	for _, s := range styles() {
		t.Run(s.name, func(t *testing.T) {
			who := newPerson(t, map[string]string{"Sign in": "{}"})
			c, recorder := sessionOver(t, serverOf(t, s), who, false)
			if got, err := c.do(within(t), "sign_in"); err != nil || got != "visit accept" {
				t.Errorf("got %q, %v", got, err)
			}
			if s.name != "unmodified" { // the handler's own there
				conformsInSession(t, recorder)
			}
			found := false
			for _, m := range recorder.Messages() {
				found = found || strings.Contains(string(m.Body), `"elicitationId":"`)
			}
			if !found {
				t.Error("the visit has no id")
			}
		})
	}
}

// The SDK's handler without sessions cannot ask legacy clients: they are told.
func TestStatelessSessionsCannotAsk(t *testing.T) {
	server := serverOf(t, returnedStyle())
	endpoint, recorder := serve(t,
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
			&mcp.StreamableHTTPOptions{Stateless: true}))
	c := dialSDK(t, newPerson(t, nil), false, legacy,
		&mcp.StreamableClientTransport{Endpoint: endpoint,
			HTTPClient: &http.Client{Transport: recorder}})
	got, err := c.do(within(t), "deploy")
	if err != nil || !strings.HasPrefix(got, "error: ") {
		t.Errorf("got %q, %v, want a failed tool", got, err)
	}
}

// Exactly as the specification has it, in the author's order.
func TestExactWire(t *testing.T) {
	w := dialWire(t, serverOf(t, guarded(), withExactWire()))
	w.exact = true
	got := w.call("survey", "")
	got.wantAsks("confirm", "login", "summary", "dirs")
	if got.member("content") != nil {
		t.Errorf("there is content in %s", got.body)
	}
	order := strings.Index(string(got.body), `"confirm"`)
	if order > strings.Index(string(got.body), `"dirs"`) {
		t.Errorf("the order is not the author's: %s", got.body)
	}
	if got.member("_meta") == nil {
		t.Errorf("the SDK's _meta is missing: %s", got.body)
	}
}
