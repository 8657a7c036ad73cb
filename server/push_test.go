package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rondo-mcp/rondo/internal/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// reasonForm asks for a Reason.
var reasonForm = json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string","default":"none"}}}`)

// answerAll answers every kind of question.
func answerAll(req *protocol.Request) *protocol.Response {
	result := acceptedNow
	switch {
	case req.Method == protocol.MethodCreateMessage:
		result = `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}`
	case req.Method == protocol.MethodListRoots:
		result = `{"roots":[{"uri":"file:///src"}]}`
	case strings.Contains(string(req.Params), `"mode":"url"`):
		result = `{"action":"accept"}`
	}
	return &protocol.Response{Result: json.RawMessage(result)}
}

// TestPushAPI asks from within a handler, on the stream of its request.
func TestPushAPI(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "push"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		form, err := call.Elicit(ctx, &protocol.ElicitForm{Message: "?", Schema: reasonForm})
		if err != nil {
			return nil, err
		}
		visit, err := call.ElicitURL(ctx, &protocol.ElicitURL{Message: "?", URL: "https://id.example"})
		if err != nil {
			return nil, err
		}
		message, err := call.CreateMessage(ctx, &protocol.CreateMessage{MaxTokens: 1, Messages: []protocol.SamplingMessage{
			{Role: protocol.User, Content: []protocol.Content{&protocol.TextContent{Text: "?"}}}}})
		if err != nil {
			return nil, err
		}
		roots, err := call.ListRoots(ctx)
		if err != nil {
			return nil, err
		}
		return server.Text(fmt.Sprintf("%s %s %s %s", form.Content, visit.Action, message.Model, roots.Roots[0].URI)), nil
	})
	c := h.enter(protocol.V20251125, allCapabilities)
	c.answer = answerAll
	if got, want := c.call("push", "{}"), `{"reason":"now"} accept m file:///src`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if url := string(c.asked()[1].Params); !strings.Contains(url, `"elicitationId":"`) {
		t.Errorf("URL question without an id: %s", url)
	}
}

// TestPushAPIOutcomes are those of returned questions.
func TestPushAPIOutcomes(t *testing.T) {
	for _, tc := range []struct{ name, answer, want string }{
		{"default", `{"action":"accept","content":{}}`, `accept {"reason":"none"}`},
		{"no content", `{"action":"accept"}`, `accept {"reason":"none"}`},
		{"declined", `{"action":"decline"}`, `decline `},
		{"cancelled", `{"action":"cancel"}`, `cancel `},
		{"wrong", `{"action":"accept","content":{"reason":5}}`, "error: the answer does not fit the question: form: field \"reason\": "},
		{"garbled", `{"action":5}`, "error: the answer does not fit the question: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t, nil)
			server.AddRawTool(h.Server, server.Tool{Name: "push"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
				r, err := call.Elicit(ctx, &protocol.ElicitForm{Message: "?", Schema: reasonForm})
				if err != nil {
					return nil, err
				}
				return server.Text(fmt.Sprintf("%s %s", r.Action, r.Content)), nil
			})
			c := h.visit(protocol.V20251125)
			c.initialize("2025-11-25", `{"elicitation":{}}`)
			c.answer = answering(tc.answer)
			if strings.Contains(tc.answer, "5") { // what such a client says is no message of the protocol
				c.answer = func(req *protocol.Request) *protocol.Response {
					go c.session.Deliver(&protocol.Response{ID: req.ID, Result: json.RawMessage(tc.answer)})
					return nil
				}
			}
			if got := c.call("push", "{}"); !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestPushAPICannot fails typed and before any traffic.
func TestPushAPICannot(t *testing.T) {
	h := newHarness(t, nil)
	var failure error
	server.AddRawTool(h.Server, server.Tool{Name: "push"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		_, failure = call.Elicit(ctx, &protocol.ElicitForm{Message: "?", Schema: reasonForm})
		return server.Text("went on"), nil
	})
	check := func(name, words string) {
		t.Helper()
		if _, ok := errors.AsType[*roundtrip.PushError](failure); !ok || !strings.Contains(failure.Error(), words) {
			t.Errorf("%s: got %v, want a PushError that says %q", name, failure, words)
		}
		failure = nil
	}
	h.call("push", "{}").failed("nobody could be asked")
	check("modern", "InputRequired")
	c := h.enter(protocol.V20251125, `{"roots":{}}`)
	c.call("push", "{}")
	check("no capability", "elicitation")
	c = h.enter(protocol.V20250326, allCapabilities)
	c.call("push", "{}")
	check("no elicitation", "2025-03-26")
	if n := len(c.asked()); n != 0 {
		t.Errorf("%d questions", n)
	}
	c = h.enter(protocol.V20251125, allCapabilities)
	in := c.admit(protocol.MethodCallTool, `{"name":"push"}`)
	in.Back = nil
	c.serve(in)
	check("no way back", "cannot carry")
	var nowhere server.Call
	if _, err := nowhere.ListRoots(t.Context()); err == nil {
		t.Error("a call from nowhere asked")
	}
}

// TestPushesAreBounded: the table holds so many, and no more.
func TestPushesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		failed := make(chan error, server.MaxPendingPushes+1)
		server.AddRawTool(h.Server, server.Tool{Name: "push"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			for range server.MaxPendingPushes + 1 {
				go func() {
					_, err := call.TryListRoots(ctx) // the first that fails would end the others
					failed <- err
				}()
			}
			synctest.Wait() // for all to be on their way, or refused: what was never sent is not withdrawn
			return server.Text((<-failed).Error()), nil
		})
		c := h.enter(protocol.V20251125, allCapabilities)
		if got := c.call("push", "{}"); !strings.Contains(got, "too many questions") {
			t.Errorf("got %q", got)
		}
		// What the handler left behind is withdrawn before the answer goes out.
		for range server.MaxPendingPushes {
			if err := <-failed; err == nil {
				t.Error("a question of an answered request was answered")
			}
		}
		if n := len(c.noted(protocol.NotifyCancelled)); n != server.MaxPendingPushes {
			t.Errorf("%d withdrawn, want %d", n, server.MaxPendingPushes)
		}
	})
}

// TestPushAfterTheEnd asks nobody.
func TestPushAfterTheEnd(t *testing.T) {
	h := newHarness(t, nil)
	kept := make(chan *server.ToolCall, 1)
	server.AddRawTool(h.Server, server.Tool{Name: "keep"}, func(_ context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		kept <- call
		return server.Text("done"), nil
	})
	c := h.enter(protocol.V20251125, allCapabilities)
	c.call("keep", "{}")
	call := <-kept
	if _, err := call.ListRoots(t.Context()); !errors.Is(err, server.ErrEnded) || len(c.asked()) != 0 {
		t.Errorf("got %v after %d questions", err, len(c.asked()))
	}
}

// TestElicitationComplete goes to one session, in the one revision that has it,
// and after the request, too.
func TestElicitationComplete(t *testing.T) {
	h := newHarness(t, nil)
	calls := make(chan *server.ToolCall, 1)
	server.AddRawTool(h.Server, server.Tool{Name: "visit"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		calls <- call
		return server.Text("done"), call.ElicitationComplete(ctx, "id-1")
	})
	other := h.enter(protocol.V20251125, allCapabilities)
	for _, v := range append([]protocol.Version{protocol.V20260728}, legacyVersions...) {
		var c *visitor
		if v.Era() == protocol.Modern {
			h.call("visit", "{}").text("done")
		} else {
			c = h.enter(v, allCapabilities)
			if got := c.call("visit", "{}"); got != "done" {
				t.Errorf("%s: got %q", v, got)
			}
		}
		call := <-calls
		if err := call.ElicitationComplete(t.Context(), "id-2"); err != nil {
			t.Errorf("%s: %v", v, err)
		}
		if c == nil {
			continue
		}
		during, after := c.noted(protocol.NotifyElicitationCompleted), len(c.news)
		if v != protocol.V20251125 {
			if len(during)+after != 0 {
				t.Errorf("%s: %d notifications, want none", v, len(during)+after)
			}
			continue
		}
		if len(during) != 1 || during[0] != `{"elicitationId":"id-1"}` || after != 1 {
			t.Errorf("got %q and %d after, want one each", during, after)
		}
		if call.ElicitationComplete(t.Context(), "") == nil {
			t.Error("an empty id was sent")
		}
		c.session.Close()
		if err := call.ElicitationComplete(t.Context(), "id-3"); !errors.Is(err, server.ErrSessionClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if len(other.news) != 0 || len(other.noted(protocol.NotifyElicitationCompleted)) != 0 {
		t.Error("another session was told")
	}
}

// TestBatchAnswers writes what a batch is answered with.
func TestBatchAnswers(t *testing.T) {
	ok := &protocol.Response{ID: protocol.IntID(1), Result: json.RawMessage(`{}`)}
	for _, tc := range []struct {
		list []*protocol.Response
		want string
	}{
		{nil, ""}, {[]*protocol.Response{nil, nil}, ""},
		{[]*protocol.Response{nil, ok, nil, {Error: protocol.Errorf(-32600, "m")}}, `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","error":{"code":-32600,"message":"m"}}]`},
		{[]*protocol.Response{{ID: protocol.IntID(2), Result: json.RawMessage(`5`)}}, `[{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"internal error"}}]`},
	} {
		if got := string(server.AppendBatch(nil, tc.list)); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
	wiretest.Validate(t, "2025-03-26", wiretest.Server, server.AppendBatch(nil, []*protocol.Response{ok}), protocol.MethodPing)
}
