package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
)

func TestNew(t *testing.T) {
	for name, opts := range map[string]*server.Options{
		"no name":        {Roundtrip: roundtrip.Options{Sealer: sharedRing(t)}},
		"nil middleware": {Middleware: []server.Middleware{nil}},
		"extension no JSON": {Capabilities: protocol.ServerCapabilities{
			Extensions: map[string]json.RawMessage{"x": json.RawMessage(`{`)}}},
	} {
		if _, err := server.New(opts); err == nil {
			t.Errorf("%s: no error", name)
		} else if !strings.HasPrefix(err.Error(), "server: ") {
			t.Errorf("%s: error %q does not name the package", name, err)
		}
	}
	if _, err := server.New(nil); err != nil {
		t.Errorf("New(nil): %v", err)
	}
}

func TestServerInfoOnEveryResult(t *testing.T) {
	h := askers(t, roundtrip.InputRequired(roundtrip.ListRoots("r")))
	for _, l := range lists {
		l.add(h.Server, "listed")
	}
	shared := &protocol.CallToolResult{Meta: protocol.Meta(`{"mine":1}`)}
	h.tool("meta", outcome(shared, nil))
	h.tool("empty meta", outcome(&protocol.CallToolResult{Meta: protocol.Meta(`{}`)}, nil))
	own := protocol.Meta(`{"` + protocol.MetaServerInfo + `":{"name":"gateway","version":"1"}}`)
	h.tool("own", outcome(&protocol.CallToolResult{Meta: own}, nil))
	h.tool("bad", outcome(&protocol.CallToolResult{Meta: protocol.Meta(`{"a":`)}, nil))
	replies := []reply{h.send(protocol.MethodDiscover, ""), h.call("meta", ""), h.call("meta", ""),
		h.call("empty meta", ""), h.call("listed", "")}
	for _, l := range lists {
		replies = append(replies, h.send(l.method, ""))
	}
	for _, send := range askingMethods {
		replies = append(replies, send(h))
	}
	for _, r := range replies {
		wantEqual(t, "name", at(r.result, "_meta", protocol.MetaServerInfo, "name"), "rondo")
	}
	if at(replies[2].result, "_meta", "mine") != 1.0 || string(shared.Meta) != `{"mine":1}` {
		t.Errorf("the author's _meta was not kept: %s, %s", replies[2].raw, shared.Meta)
	}
	if r := h.call("own", ""); at(r.result, "_meta", protocol.MetaServerInfo, "name") != "gateway" {
		t.Errorf("the author's serverInfo was not kept: %s", r.raw)
	}
	h.call("bad", "").refused(protocol.CodeInternalError)
	h.wantBug("_meta")
}

func (h *harness) callAs(user protocol.Principal, name string, more ...string) reply {
	h.Helper()
	members := append([]string{fmt.Sprintf(`"name":%q,"_meta":{%q:"2026-07-28",%q:%s}`, name,
		protocol.MetaProtocolVersion, protocol.MetaClientCapabilities, h.capabilities)}, more...)
	return h.raw(server.WithPrincipal(context.Background(), user), protocol.MethodCallTool,
		"{"+strings.Join(members, ",")+"}")
}

// A foreign or changed state is refused. The client gets a reference, the observer the reason.
func TestStateIsBound(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "ask"}, asksCount)
	server.AddRawTool(h.Server, server.Tool{Name: "other"}, asksCount)
	server.AddPrompt(h.Server, server.Prompt{Name: "ask"},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return &protocol.GetPromptResult{}, nil
		})
	answer := answers(`"n":{"action":"accept","content":{"n":1}}`)
	state := h.call("ask", `{"a":1}`).state()
	frozen := func(h *harness, r reply, reason event.Reason) {
		t.Helper()
		r.refused(protocol.CodeInvalidParams, "Invalid or expired requestState")
		rejected, ok := h.events.list[len(h.events.list)-1].(event.StateRejected)
		want := `{"reason":"invalid_request_state","reference":"` + rejected.Reference + `"}`
		if !ok || rejected.Reason != reason || rejected.Reference == "" ||
			string(r.err.Data) != want {
			t.Errorf("got %s and event %+v, want reason %s", r.raw, rejected, reason)
		}
	}
	frozen(h, h.call("other", `{"a":1}`, answer, state), words.ReasonTarget)
	frozen(h, h.call("ask", `{"a":2}`, answer, state), words.ReasonArguments)
	frozen(h, h.send(protocol.MethodGetPrompt, `"name":"ask",`+answer+","+state),
		words.ReasonMethod)
	const start = len(`"requestState":"`)
	flip := func(at int) string {
		other := "A"
		if state[at] == 'A' {
			other = "B"
		}
		return state[:at] + other + state[at+1:]
	}
	for _, tampered := range []string{flip(start + len(state[start:])/2),
		state[:len(state)-1] + `A"`} {
		frozen(h, h.call("ask", `{"a":1}`, answer, tampered), words.ReasonTampered)
	}
	for _, malformed := range []string{`"`, `!` + state[start+1:], ` ` + state[start:]} {
		frozen(h, h.call("ask", `{"a":1}`, answer, state[:start]+malformed), words.ReasonMalformed)
	}
	// handlers may distinguish them
	for _, spelling := range []string{"1.0", "1e0", "1E0"} {
		frozen(h, h.call("ask", `{"a":`+spelling+`}`, answer, state), words.ReasonArguments)
	}
	h.call("ask", `{ "\u0061": 1 }`, answer, state).text(`{"n":1}`)

	other := newHarness(t, nil)
	server.AddRawTool(other.Server, server.Tool{Name: "ask"}, asksCount)
	frozen(other, other.call("ask", `{"a":1}`, answer, state), words.ReasonForeignEphemeral)

	// Subjects differ between issuers; concatenated pairs must not collide either.
	users := []protocol.Principal{anonymous, {Issuer: "a", Subject: "ann"},
		{Issuer: "a", Subject: "bob"}, {Issuer: "b", Subject: "ann"}, {Issuer: "aa", Subject: "nn"},
		{Subject: "ann"}, {Issuer: "ann", Subject: "a"}, {Issuer: "a", Subject: "Ann"},
		{Subject: "local"}, protocol.LocalPrincipal()}
	for _, owner := range users {
		state := h.callAs(owner, "ask").state()
		for _, thief := range users {
			if got := h.callAs(thief, "ask", answer, state); thief == owner {
				got.text(`{"n":1}`)
			} else {
				frozen(h, got, words.ReasonPrincipal)
			}
		}
	}
}

func sharedRing(t *testing.T) *keys.Keyring {
	t.Helper()
	key, err := keys.NewKey("k", make([]byte, 32))
	noError(t, err)
	ring, err := keys.NewKeyring(key)
	noError(t, err)
	return ring
}

// Two servers share states only with the same key and name.
func TestAudienceIsTheName(t *testing.T) {
	ring := sharedRing(t)
	named := func(name string) *harness {
		h := newHarness(t, &server.Options{Info: protocol.Implementation{Name: name},
			Roundtrip: roundtrip.Options{Sealer: ring}})
		h.tool("ask", asksCount)
		return h
	}
	state := named("shop").call("ask", "").state()
	answer := answers(`"n":{"action":"accept","content":{"n":1}}`)
	named("shop").call("ask", "", answer, state).text(`{"n":1}`)
	named("bank").call("ask", "", answer, state).refused(protocol.CodeInvalidParams)
}

func waits(h *harness) {
	h.tool("wait", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Minute):
			return server.Text("waited"), nil
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		waits(h)
		var done sync.WaitGroup
		done.Go(func() { h.call("wait", "").failed(server.ErrClosed.Error()) })
		synctest.Wait()
		noError(t, h.Close())
		done.Wait()
		h.call("wait", "").refused(protocol.CodeBusy, "closing")
		noError(t, h.Shutdown(t.Context()))
	})
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		waits(h)
		var done sync.WaitGroup
		done.Go(func() { h.call("wait", "").text("waited") })
		synctest.Wait()
		began := time.Now()
		done.Go(func() {
			if err := h.Shutdown(t.Context()); err != nil || time.Since(began) < time.Minute {
				t.Errorf("Shutdown after %v: %v; want it to wait a minute", time.Since(began), err)
			}
		})
		synctest.Wait()
		req := messageOf(9, protocol.MethodDiscover, "")
		if r, _ := h.Handle(t.Context(), req, nil); r.Error == nil ||
			r.Error.Code != protocol.CodeBusy ||
			r.Error.Message != "the server is closing, call again" ||
			string(r.Error.Data) != `{"retryAfterMs":1000}` {
			t.Errorf("a request while shutting down: %+v", r)
		}
		done.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		waits(h)
		var done sync.WaitGroup
		done.Go(func() { h.call("wait", "").failed(server.ErrClosed.Error()) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantIs(t, "Shutdown", h.Shutdown(ctx), context.DeadlineExceeded)
		done.Wait()
	})
}

func TestCancelledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		waits(h)
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			req := messageOf(1, protocol.MethodCallTool, "{"+goodMeta+`,"name":"wait"}`)
			h.read(req, h.serveDelivered(ctx, req, nil)).failed(context.Canceled.Error())
		})
		synctest.Wait()
		cancel()
		done.Wait()
	})
}

// An in-process caller gets the cause instead of a response.
func TestAbandonedRequestHasNoResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		waits(h)
		ctx, cancel := context.WithCancelCause(t.Context())
		var done sync.WaitGroup
		hungUp := errors.New("hung up")
		done.Go(func() {
			response, err := h.Handle(ctx, messageOf(1, protocol.MethodCallTool,
				"{"+goodMeta+`,"name":"wait"}`), nil)
			if response != nil || !errors.Is(err, hungUp) {
				t.Errorf("Handle = %v, %v; want the cause alone", response, err)
			}
		})
		synctest.Wait()
		cancel(hungUp)
		done.Wait()
	})
}

type back []*protocol.Notification

func (b *back) Notify(_ context.Context, n *protocol.Notification) error {
	*b = append(*b, n)
	return nil
}

func TestNotify(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("x", func(ctx context.Context, c *server.ToolCall) (toolOutcome, error) {
		return server.Text("x"), c.Notify(ctx, &protocol.Notification{Method: "x/y"})
	})
	var way back
	req := messageOf(1, protocol.MethodCallTool, "{"+goodMeta+`,"name":"x"}`)
	if _, err := h.Handle(t.Context(), req, &way); err != nil || len(way) != 1 ||
		way[0].Method != "x/y" {
		t.Errorf("notifications are %v, %v", way, err)
	}
	if err := h.Server.Notify(t.Context(),
		&protocol.Notification{Method: protocol.NotifyCancelled}); err != nil {
		t.Errorf("Notify: %v", err)
	}
}

// Many users run flows of the same tool at once, distinguished only by principal and state.
func TestConcurrentFlows(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "add"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			first, ok := roundtrip.AcceptedContent[count](ctx, "first")
			if !ok {
				return roundtrip.InputRequired(roundtrip.Elicit[count]("first", "How many?"),
					roundtrip.WithState(call.Principal.Subject)), nil
			}
			second, ok := roundtrip.AcceptedContent[count](ctx, "second")
			if !ok {
				return roundtrip.InputRequired(roundtrip.Elicit[count]("second", "And?")), nil
			}
			began, _ := roundtrip.State[string](ctx)
			return server.Text(fmt.Sprint(began, " ", call.Principal.Subject, " ", first.N, " ",
				second.N)), nil
		})
	const clients, users, flows = 64, 16, 8
	var done sync.WaitGroup
	for n := range clients * flows {
		done.Go(func() {
			own, name := *h, fmt.Sprint("user-", n%users)
			user := protocol.Principal{Issuer: "i", Subject: name}
			next := own.callAs(user, "add")
			for _, key := range []string{"first", "second"} {
				next = own.callAs(user, "add", next.state(), answers(
					fmt.Sprintf(`%q:{"action":"accept","content":{"n":%d}}`, key, n)))
			}
			next.text(fmt.Sprintf("%s %s %d %d", name, name, n, n))
		})
	}
	done.Wait()
	ended := 0
	for _, e := range h.events.list {
		switch e := e.(type) {
		case event.StateRejected:
			t.Errorf("a state was refused: %+v", e)
		case event.FlowEnded:
			ended++
		}
	}
	wantEqual(t, "flows that came to an end", ended, clients*flows)
}
