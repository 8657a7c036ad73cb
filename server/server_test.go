package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
)

func TestNew(t *testing.T) {
	for name, opts := range map[string]*server.Options{
		"no shared key":  {Roundtrip: roundtrip.Options{RequireSharedKey: true}},
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
		if at(r.result, "_meta", protocol.MetaServerInfo, "name") != "rondo" {
			t.Errorf("no serverInfo: %s", r.raw)
		}
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

func TestStateIsBound(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("ask", asksCount)
	h.tool("other", asksCount)
	answer := answers(`"n":{"action":"accept","content":{"n":1}}`)
	state := h.call("ask", `{"a":1}`).state()
	frozen := func(r reply) {
		t.Helper()
		r.refused(protocol.CodeInvalidParams, "Invalid or expired requestState")
	}
	frozen(h.call("other", `{"a":1}`, answer, state))
	frozen(h.call("ask", `{"a":2}`, answer, state))
	frozen(h.call("ask", `{"a":1}`, answer, state[:len(state)-1]+`A"`))
	frozen(h.call("ask", `{"a":1}`, answer, `"requestState":""`))
	frozen(h.raw(server.WithPrincipal(t.Context(), anonymous), protocol.MethodCallTool,
		"{"+goodMeta+`,"name":"ask","arguments":{"a":1},`+answer+","+state+"}"))
	// a handler may read them as other things
	for _, spelling := range []string{"1.0", "1e0", "1E0"} {
		frozen(h.call("ask", `{"a":`+spelling+`}`, answer, state))
	}
	h.call("ask", `{ "\u0061": 1 }`, answer, state).text(`{"n":1}`)

	other := newHarness(t, nil)
	addTool(other.Server, "ask", asksCount)
	frozen(other.call("ask", `{"a":1}`, answer, state))
}

// sharedRing returns a keyring as several processes may have it.
func sharedRing(t *testing.T) *keys.Keyring {
	t.Helper()
	key, err := keys.NewKey("k", make([]byte, 32))
	noError(t, err)
	ring, err := keys.NewKeyring(key)
	noError(t, err)
	return ring
}

// Two servers with one key are one service only when they have one name.
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

// A caller in the same process gets the cause instead of a response, as over a transport.
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

func TestConcurrentFlows(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("ask", asksCount)
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 20 {
				own := *h
				first := own.call("ask", "")
				own.call("ask", "", answers(`"n":{"action":"accept","content":{"n":3}}`), first.state()).text(`{"n":3}`)
			}
		})
	}
	done.Wait()
}
