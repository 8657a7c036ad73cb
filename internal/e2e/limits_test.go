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
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
)

// wired is newWire with options.
func wired(t testing.TB, opts *server.Options, register func(*server.Server)) *wire {
	t.Helper()
	srv, watched := mustServe(t, opts)
	if register != nil {
		register(srv)
	}
	return &wire{t: t, url: listen(t, servertest.NewHandler(t, srv, nil)), watch: watched,
		client: &http.Client{Transport: transport(t), Timeout: patience}}
}

// addInsatiable registers handlers that never have enough, each with a new question, so that
// nothing is asked twice.
func addInsatiable(srv *server.Server) {
	next := func(ctx context.Context) *protocol.InputRequiredResult {
		return roundtrip.InputRequired(roundtrip.Elicit[entry](fmt.Sprint("q",
			roundtrip.RoundOf(ctx).Number), "More?"))
	}
	server.AddRawTool(srv, server.Tool{Name: "more"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			return next(ctx), nil
		})
	server.AddPrompt(srv, server.Prompt{Name: "more"},
		func(ctx context.Context, _ *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return next(ctx), nil
		})
	server.AddResource(srv, server.Resource{URI: "test:more", Name: "more"},
		func(ctx context.Context, _ *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return next(ctx), nil
		})
}

// TestRoundsEnd: a handler that never has enough is stopped by the server before an ordinary client
// gives up.
func TestRoundsEnd(t *testing.T) {
	srv, watched := mustServe(t, nil)
	addInsatiable(srv)
	url := listen(t, servertest.NewHandler(t, srv, nil))
	for name, call := range map[string]func(context.Context, *client.Client) (string, error){
		"tool": tool("more", ``), "prompt": prompt("more", nil), "resource": resource("test:more"),
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			c, said := dial(t, url, &client.Options{ElicitForm: func(context.Context,
				*client.FormQuestion) (*protocol.ElicitResult, error) {
				asked.Add(1)
				return client.Accept(entry{"more", 1})
			}})
			got, err := call(within(t, patience), c)
			ended, ok := protocol.AsError(err)
			switch {
			case name == "tool" && (err != nil ||
				!strings.HasPrefix(got, "error: gave up after 8 rounds")):
				t.Errorf("got %q, %v", got, err)
			case name != "tool" && (!ok || ended.Code != protocol.CodeFlowEnded):
				t.Errorf("got %q, %v", got, err)
			}
			if asked.Load() != 8 {
				t.Errorf("the person was asked %d times, want %d", asked.Load(),
					8)
			}
			wiretest.Conform(t, revision, said())
		})
	}
	for _, e := range seen[event.FlowEnded](watched) {
		if e.How != event.EndRounds || e.Legs != 8+1 {
			t.Errorf("got event %+v", e)
		}
	}
}

// TestExpiredStates: an answer that comes too late is refused, or, where the server says so, the
// flow begins again.
func TestExpiredStates(t *testing.T) {
	deploy, accept := leg{target: "deploy", args: `{"env":"prod"}`}, `{"confirm":{"action":"accept","content":{"reason":"because"}}}`
	for _, test := range []struct {
		name   string
		opts   roundtrip.Options
		reason event.Reason
	}{
		{"round", roundtrip.Options{RoundTTL: time.Nanosecond}, event.ReasonExpired},
		{"flow", roundtrip.Options{FlowTTL: time.Nanosecond}, event.ReasonFlowExpired},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := wired(t, &server.Options{Roundtrip: test.opts}, nil)
			w.answers(deploy, accept).frozen()
			if rejected := seen[event.StateRejected](w.watch); len(rejected) != 1 ||
				rejected[0].Reason != test.reason {
				t.Errorf("got events %+v", rejected)
			}
		})
		t.Run(test.name+", restarted", func(t *testing.T) {
			test.opts.RestartExpired = true
			w := wired(t, &server.Options{Roundtrip: test.opts}, nil)
			w.answers(deploy, accept).wantAsked("confirm")
			// and again: nothing is held against an honest client
			w.answers(deploy, accept).wantAsked("confirm")
			w.answers(deploy, accept).wantAsked("confirm")
		})
	}
}

// TestSingleUse: with a guard, of many identical retries at once one runs the handler, and those
// that come after it get its result again; the same state with other answers is refused.
func TestSingleUse(t *testing.T) {
	testkit.CheckLeaks(t)
	var ran atomic.Int64
	w := wired(t, &server.Options{Roundtrip: roundtrip.Options{Guard: store.NewMemoryGuard(0)}},
		func(srv *server.Server) {
			server.AddRawTool(srv, server.Tool{Name: "pay"},
				func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
					e, ok := roundtrip.AcceptedContent[entry](ctx, "pay")
					if !ok {
						return roundtrip.InputRequired(roundtrip.Elicit[entry]("pay", "Pay?")), nil
					}
					return server.Text(fmt.Sprintf("payment %d: %s", ran.Add(1), e.Word)), nil
				})
		})
	asked := w.send(leg{target: "pay"}).wantAsked("pay")
	retry := leg{target: "pay", more: asked.answered(`{"pay":{"action":"accept","content":{"word":"all","turn":1}}}`)}
	var paid atomic.Int64
	var wait sync.WaitGroup
	for n := range 16 {
		one := *w
		one.nextID = n
		wait.Go(func() {
			r := one.send(retry)
			switch {
			case r.err == nil:
				r.wantText("payment 1: all")
				paid.Add(1)
			case r.err.Code == protocol.CodeBusy: // it came while the first was running
			default:
				r.frozen()
			}
		})
	}
	wait.Wait()
	if ran.Load() != 1 || paid.Load() == 0 {
		t.Errorf("the handler ran %d times, %d were told that it did", ran.Load(), paid.Load())
	}
	w.send(retry).wantText("payment 1: all")
	retry.more = asked.answered(`{"pay":{"action":"accept","content":{"word":"half","turn":1}}}`)
	w.send(retry).frozen()
	retry.more = asked.answered(`{"pay":{"action":"decline"}}`)
	w.send(retry).frozen()
	// Another flow of the same call is another state.
	w.answers(leg{target: "pay"}, `{"pay":{"action":"accept","content":{"word":"again","turn":1}}}`).wantText("payment 2: again")
	if ran.Load() != 2 {
		t.Errorf("the handler ran %d times, want 2", ran.Load())
	}
}

// TestStateCap: what does not fit into a state is the server's mistake, and is named to it, not to
// the client.
func TestStateCap(t *testing.T) {
	eachStyle(t, asking(roundtrip.WithState(strings.Repeat("x", 20<<10)), roundtrip.ListRoots("q")),
		func(t *testing.T, w *wire, l leg) {
			w.wantBug(w.send(l), "WithState")
		})
	t.Run("an answer", func(t *testing.T) {
		// The person, too, can say more than fits. Nothing of it is lost in silence.
		w := newWire(t, func(srv *server.Server) {
			server.AddRawTool(srv, server.Tool{Name: "essay"},
				func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
					if _, ok := roundtrip.AcceptedContent[entry](ctx, "essay"); !ok {
						return roundtrip.InputRequired(roundtrip.Elicit[entry]("essay", "Write!")),
							nil
					}
					return roundtrip.InputRequired(roundtrip.ListRoots("where")), nil
				})
		})
		w.wantBug(w.answers(leg{target: "essay"}, `{"essay":{"action":"accept","content":{"word":"`+strings.Repeat("x", 20<<10)+`","turn":1}}}`), `answer "essay"`)
	})
}

// TestMiddlewareSeesEveryLeg, refusals included, so that limits and authorization hold for retries
// as well.
func TestMiddlewareSeesEveryLeg(t *testing.T) {
	var mu sync.Mutex
	var legs []string
	w := wired(t,
		&server.Options{Middleware: []server.Middleware{func(next server.Handler) server.Handler {
			return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
				result, err := next(ctx, request)
				mu.Lock()
				defer mu.Unlock()
				kind := "error"
				if err == nil {
					kind = result.ResultType()
				}
				legs = append(legs, request.Target+" "+kind)
				return result, err
			}
		}}}, nil)
	w.answers(leg{target: "deploy", args: `{"env":"x"}`},
		`{"confirm":{"action":"cancel"}}`).wantText("left x alone: cancelled")
	w.send(leg{target: "deploy", more: `"requestState":"x"`}).frozen()
	w.send(leg{target: "deploy", more: `"requestState":1`}).wantError(http.StatusBadRequest,
		protocol.CodeInvalidParams)
	w.send(leg{target: "unknown"}).wantError(http.StatusOK, protocol.CodeInvalidParams)
	// What cannot be read has no target.
	want := "deploy input_required, deploy complete, deploy error,  error, unknown error"
	if got := strings.Join(legs, ", "); got != want {
		t.Errorf("the middleware saw %s, want %s", got, want)
	}
}

// TestClosing: a server that closes tells running handlers, and answers what comes later.
func TestClosing(t *testing.T) {
	testkit.CheckLeaks(t)
	srv, watched := mustServe(t, nil)
	started := make(chan struct{})
	server.AddRawTool(srv, server.Tool{Name: "slow"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			close(started)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
	w := &wire{t: t, url: listen(t, servertest.NewHandler(t, srv, nil)),
		client: &http.Client{Transport: transport(t), Timeout: patience}, watch: watched}
	replies := make(chan *reply, 1)
	go func() { replies <- w.send(leg{target: "slow"}) }()
	<-started
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if r := <-replies; r.err != nil || !strings.Contains(string(r.body), server.ErrClosed.Error()) {
		t.Errorf("got %s", r.body)
	}
	if r := w.send(leg{target: "plain"}); r.err == nil || r.err.Code != protocol.CodeBusy {
		t.Errorf("got %s", r.body)
	}
}

// TestNamesTravelInHeaders: whatever a tool, a prompt or a resource is called, its name passes
// through a header and back.
func TestNamesTravelInHeaders(t *testing.T) {
	names := []string{"größe", "日本語", "a b", " padded ", "=?base64?SGVsbG8=?=", "=?base64?",
		"tab\tbed", "new\nline", "quo\"te", "%20",
		"😀", "comma,semi;colon", strings.Repeat("long", 200)}
	srv, _ := mustServe(t, nil)
	for _, name := range names {
		server.AddRawTool(srv, server.Tool{Name: name},
			func(_ context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
				return server.Text(call.Name), nil
			})
		server.AddPrompt(srv, server.Prompt{Name: name},
			func(_ context.Context, call *server.PromptCall) (protocol.GetPromptOutcome, error) {
				return &protocol.GetPromptResult{
					Messages: []protocol.PromptMessage{server.UserText(call.Name)}}, nil
			})
		server.AddResource(srv, server.Resource{URI: "test:" + name, Name: "x"},
			func(_ context.Context, call *server.ResourceCall) (protocol.ReadResourceOutcome,
				error) {
				return &protocol.ReadResourceResult{
					Contents: []protocol.ResourceContents{{Text: call.URI}}}, nil
			})
	}
	c, _ := dial(t, listen(t, servertest.NewHandler(t, srv, nil)), nil)
	for _, name := range names {
		ctx := within(t, patience)
		if got, err := tool(name, ``)(ctx, c); err != nil || got != name {
			t.Errorf("tool %q: got %q, %v", name, got, err)
		}
		if got, err := prompt(name, nil)(ctx, c); err != nil || got != "user: "+name {
			t.Errorf("prompt %q: got %q, %v", name, got, err)
		}
		if got, err := resource("test:"+name)(ctx, c); err != nil || got != "test:"+name+" test:"+
			name {
			t.Errorf("resource %q: got %q, %v", name, got, err)
		}
	}
}

// TestArgumentsTravelInHeaders: a client that has never seen the tool's schema learns it when it is
// told, in the middle of nothing, and each leg of the flow then carries the header.
func TestArgumentsTravelInHeaders(t *testing.T) {
	srv, _ := mustServe(t, nil)
	server.AddRawTool(srv, server.Tool{
		Name:        "place",
		InputSchema: raw(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`),
	}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		var in struct {
			Region string `json:"region"`
		}
		if err := json.Unmarshal(call.Arguments, &in); err != nil {
			return nil, err
		}
		if _, ok := roundtrip.AcceptedContent[entry](ctx, "q"); !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[entry]("q", "Sure?")), nil
		}
		return server.Text(in.Region), nil
	})
	for _, region := range []string{"eu", "ñandú", " x ", "=?base64?"} {
		t.Run(region, func(t *testing.T) {
			c, said := dial(t, listen(t, servertest.NewHandler(t, srv, nil)),
				person{"q": `{"word":"yes","turn":1}`}.options())
			got, err := tool("place", `{"region":`+quote(region)+`}`)(within(t, patience), c)
			if err != nil || got != region {
				t.Errorf("got %q, %v, want %q", got, err, region)
			}
			messages := said()
			wiretest.Conform(t, revision, messages)
			header := "Mcp-Param-Region: " + protocol.EncodeHeaderValue(region)
			carried := 0
			for _, m := range messages {
				if m.From == wiretest.Client &&
					strings.Contains(strings.Join(m.Header, "\n"), header) {
					carried++
				}
			}
			if want := 2; carried != want {
				t.Errorf("%d requests carry %s, want %d", carried, header, want)
			}
		})
	}
}
