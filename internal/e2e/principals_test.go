package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// userHeader names the user of a request, and issuerHeader who vouches for them, in place of a
// token.
const (
	userHeader   = "X-User"
	issuerHeader = "X-Issuer"
)

func authenticate(r *http.Request) (protocol.Principal, error) {
	user := r.Header.Get(userHeader)
	if user == "" {
		return protocol.Principal{}, &serverhttp.AuthError{Status: http.StatusUnauthorized}
	}
	return protocol.Principal{Issuer: r.Header.Get(issuerHeader), Subject: user}, nil
}

type entry struct {
	Word string `json:"word"`
	Turn int    `json:"turn"`
}

// addDiary registers a tool that asks twice and then repeats what it was told, and by whom.
func addDiary(srv *server.Server) {
	server.AddRawTool(srv, server.Tool{Name: "diary"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			who := call.Principal.Subject
			first, ok := roundtrip.AcceptedContent[entry](ctx, "first")
			if !ok {
				return roundtrip.InputRequired(roundtrip.Elicit[entry]("first", "Well, "+who+"?"),
					roundtrip.WithState(who)), nil
			}
			second, ok := roundtrip.AcceptedContent[entry](ctx, "second")
			if !ok {
				return roundtrip.InputRequired(roundtrip.Elicit[entry]("second", "And, "+who+"?")),
					nil
			}
			began, _ := roundtrip.State[string](ctx)
			return server.Text(fmt.Sprintf("%s, %s: %s %d, %s %d", began, who, first.Word,
				first.Turn,
				second.Word, second.Turn)), nil
		})
}

// A diarist is one client of one user.
type diarist struct {
	user   string
	client *client.Client
}

type entryKey struct{}

func newDiarist(t *testing.T, url, user string, via *http.Client,
	progress func(context.Context, *protocol.Progress)) *diarist {
	d := &diarist{user: user}
	d.client = connect(t, url, &clienthttp.Options{HTTPClient: via,
		Header: http.Header{userHeader: {user}}}, &client.Options{
		Progress: progress,
		ElicitForm: func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			e := ctx.Value(entryKey{}).(entry)
			if !strings.HasSuffix(q.Message, ", "+user+"?") {
				return nil, fmt.Errorf("%s is asked %q", user, q.Message)
			}
			e.Word = q.Key + " " + e.Word
			return client.Accept(e)
		},
	})
	return d
}

// write goes through one flow and checks that what comes of it is of this flow.
func (d *diarist) write(ctx context.Context, e entry) error {
	r, err := d.client.CallTool(context.WithValue(ctx, entryKey{}, e), "diary", nil)
	if err != nil {
		return err
	}
	want := fmt.Sprintf("%s, %s: first %s %d, second %s %d", d.user, d.user, e.Word, e.Turn, e.Word,
		e.Turn)
	if got := textOf(r.Content); got != want || r.IsError {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}

// TestUsersSideBySide has many users, several clients each, go through many flows of the same tool
// with the same arguments at once. All that tells them apart is who sends a request and the state
// that it carries.
func TestUsersSideBySide(t *testing.T) {
	for name, middleware := range map[string][]server.Middleware{"json": nil,
		"events": {reportProgress}} {
		t.Run(name, func(t *testing.T) { sideBySide(t, middleware) })
	}
}

func sideBySide(t *testing.T, middleware []server.Middleware) {
	const clients, users, flows = 64, 16, 8
	testkit.CheckLeaks(t)
	srv, watched := mustServe(t, &server.Options{Middleware: middleware})
	addDiary(srv)
	url := listen(t, servertest.NewHandler(t, srv, &serverhttp.Options{Authenticate: authenticate}))
	via := &http.Client{Transport: transport(t)}
	var reports atomic.Int64
	var progress func(context.Context, *protocol.Progress)
	if middleware != nil {
		progress = func(context.Context, *protocol.Progress) { reports.Add(1) }
	}
	ctx := within(t, 12*patience)
	var wait sync.WaitGroup
	for n := range clients {
		d := newDiarist(t, url, fmt.Sprintf("user-%d", n%users), via, progress)
		for turn := range flows {
			// All flows of a client run at once, too.
			wait.Go(func() {
				if err := d.write(ctx, entry{fmt.Sprintf("of client %d", n), turn}); err != nil {
					t.Errorf("client %d, flow %d: %v", n, turn, err)
				}
			})
		}
	}
	wait.Wait()
	if rejected := seen[event.StateRejected](watched); len(rejected) != 0 {
		t.Errorf("%d states were refused, such as %+v", len(rejected), rejected[0])
	}
	if ended := seen[event.FlowEnded](watched); len(ended) != clients*flows {
		t.Errorf("%d flows came to an end, want %d", len(ended), clients*flows)
	}
	if want := int64(clients * flows * 3 * 2); middleware != nil && reports.Load() != want {
		t.Errorf("%d reports of progress came, want %d", reports.Load(), want)
	}
}

// as returns a wire on which requests are sent by a user.
func (w *wire) as(user, issuer string) *wire {
	c := *w
	c.client = &http.Client{Transport: &posing{w.client.Transport, user, issuer}, Timeout: patience}
	return &c
}

type posing struct {
	base         http.RoundTripper
	user, issuer string
}

func (p *posing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(userHeader, p.user)
	r.Header.Set(issuerHeader, p.issuer)
	return p.base.RoundTrip(r)
}

// frozen holds the reply against the error that every refused state gets.
func (r *reply) frozen() (reference string) {
	r.t.Helper()
	r.wantError(http.StatusOK, protocol.CodeInvalidParams)
	if r.err == nil {
		return ""
	}
	return checkFrozen(r.t, &protocol.Error{Code: r.err.Code, Message: r.err.Message,
		Data: r.err.Data})
}

// TestStolenStates: each user presents the states of all. Only their own is good, and the theft
// does it no harm.
func TestStolenStates(t *testing.T) {
	srv, watched := mustServe(t, nil)
	addDiary(srv)
	base := &wire{t: t, url: listen(t,
		servertest.NewHandler(t, srv, &serverhttp.Options{Authenticate: authenticate})),
		client: &http.Client{Transport: transport(t)}, watch: watched}
	// A subject is another one with another issuer; no two of these pairs may run together into the
	// same text either.
	users := [][2]string{{"ann", "a"}, {"bob", "a"}, {"ann", "b"}, {"nn", "aa"}, {"ann", ""},
		{"a", "ann"}, {"Ann", "a"}, {"local", ""}}
	states := make([]json.RawMessage, len(users))
	for i, u := range users {
		asked := base.as(u[0], u[1]).send(leg{target: "diary"}).wantAsked("first")
		states[i] = asked.result["requestState"]
	}
	answers := `"inputResponses":{"first":{"action":"accept","content":{"word":"x","turn":1}}},"requestState":`
	for i, thief := range users {
		for j := range users {
			r := base.as(thief[0], thief[1]).send(leg{target: "diary",
				more: answers + string(states[j])})
			if i == j {
				r.wantAsked("second")
				continue
			}
			reference := r.frozen()
			rejected := seen[event.StateRejected](watched)
			if len(rejected) == 0 {
				t.Fatalf("%q presents the state of %q, and it is taken", thief, users[j])
			}
			if last := rejected[len(rejected)-1]; last.Reason != event.ReasonPrincipal ||
				last.Reference != reference {
				t.Errorf("%q presents the state of %q: got event %+v", thief, users[j], last)
			}
		}
	}
	if r := base.as("", "").exchange(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, "tools/call", "diary"); r.status != http.StatusUnauthorized {
		t.Errorf("nobody got status %d: %s", r.status, r.body)
	}
}

// TestStatesAreBound presents a state where it does not belong, or changed.
func TestStatesAreBound(t *testing.T) {
	origin := leg{target: "deploy", args: `{"env":"prod"}`}
	accept := `{"confirm":{"action":"accept","content":{"reason":"because"}}}`
	change := func(f func(string) string) func(string) string { return f }
	for _, test := range []struct {
		name   string
		leg    leg
		change func(string) string
		reason event.Reason // empty: it is good
	}{
		{"as it is", origin, nil, ""},
		{"arguments written otherwise",
			leg{target: "deploy", args: ` { "\u0065nv" : "pr\u006fd" } `}, nil, ""},
		{"other arguments", leg{target: "deploy", args: `{"env":"test"}`}, nil,
			event.ReasonArguments},
		{"other tool", leg{target: "fail", args: `{"env":"prod"}`}, nil, event.ReasonTarget},
		{"resource", leg{method: "resources/read", target: "vault://codes"}, nil,
			event.ReasonMethod},
		{"first byte", origin, change(func(s string) string { return "!" + s[1:] }),
			event.ReasonMalformed},
		{"middle byte", origin, change(func(s string) string { return flip(s, len(s)/2) }),
			event.ReasonTampered},
		{"white space before", origin, change(func(s string) string { return " " + s }),
			event.ReasonMalformed},
		{"empty", origin, change(func(string) string { return "" }), event.ReasonMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWire(t, nil)
			state := unquote(t, w.send(origin).wantAsked("confirm").result["requestState"])
			if test.change != nil {
				state = test.change(state)
			}
			test.leg.more = `"inputResponses":` + accept + `,"requestState":` + quote(state)
			r := w.send(test.leg)
			if test.reason == "" {
				r.wantText("deployed to prod: because")
				return
			}
			reference := r.frozen()
			rejected := seen[event.StateRejected](w.watch)
			if len(rejected) != 1 || rejected[0].Reference != reference ||
				(test.reason != "" && rejected[0].Reason != test.reason) {
				t.Errorf("got events %+v, want reason %s", rejected, test.reason)
			}
			if strings.Contains(string(r.body), string(test.reason)) && test.reason != "" {
				t.Errorf("the client learns the reason: %s", r.body)
			}
		})
	}
	t.Run("other server", func(t *testing.T) {
		state := newWire(t, nil).send(origin).result["requestState"]
		w := newWire(t, nil)
		w.send(leg{target: "deploy", args: origin.args,
			more: `"inputResponses":` + accept + `,"requestState":` + string(state)}).frozen()
		if rejected := seen[event.StateRejected](w.watch); len(rejected) != 1 ||
			rejected[0].Reason != event.ReasonForeignEphemeral {
			t.Errorf("got events %+v", rejected)
		}
	})
}

// flip changes one byte of a token for another of its alphabet.
func flip(s string, at int) string {
	other := "A"
	if s[at] == 'A' {
		other = "B"
	}
	return s[:at] + other + s[at+1:]
}

func unquote(t testing.TB, text json.RawMessage) (s string) {
	t.Helper()
	if err := json.Unmarshal(text, &s); err != nil {
		t.Errorf("not a string: %.100q: %v", text, err)
	}
	return s
}
