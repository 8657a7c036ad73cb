package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// pushes are the calls that push, with their error dropped.
func pushes() map[string]func(ctx context.Context, call *server.ToolCall) error {
	message := &protocol.CreateMessage{MaxTokens: 1, Messages: []protocol.SamplingMessage{
		{Role: protocol.User, Content: []protocol.Content{&protocol.TextContent{Text: "?"}}}}}
	return map[string]func(ctx context.Context, call *server.ToolCall) error{
		"form": func(ctx context.Context, call *server.ToolCall) error {
			_, err := call.Elicit(ctx, &protocol.ElicitForm{Message: "?", Schema: reasonForm})
			return err
		},
		"url": func(ctx context.Context, call *server.ToolCall) error {
			_, err := call.ElicitURL(ctx, &protocol.ElicitURL{Message: "?", URL: "https://id.example"})
			return err
		},
		"message": func(ctx context.Context, call *server.ToolCall) error {
			_, err := call.CreateMessage(ctx, message)
			return err
		},
		"roots": func(ctx context.Context, call *server.ToolCall) error {
			_, err := call.ListRoots(ctx)
			return err
		},
		"another context": func(_ context.Context, call *server.ToolCall) error {
			_, err := call.ListRoots(context.Background())
			return err
		},
	}
}

// failedPushes returns the events of questions that nobody answered.
func failedPushes(seen *events) (list []roundtrip.PushFailed) {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for _, e := range seen.list {
		if failed, ok := e.(roundtrip.PushFailed); ok {
			list = append(list, failed)
		}
	}
	return list
}

// TestFailedPushesRefuse: a handler that drops the error of a question which
// could not be put does not get to say that it went on, in any era, for whatever
// reason, and the observer hears of it.
func TestFailedPushesRefuse(t *testing.T) {
	refuses := func(req *protocol.Request) *protocol.Response {
		return &protocol.Response{Error: protocol.Errorf(-32000, "not now")}
	}
	for name, push := range pushes() {
		for _, tc := range []struct {
			name    string
			version protocol.Version
			declare string
			answer  func(*protocol.Request) *protocol.Response
			want    string
		}{
			{"modern", protocol.V20260728, "", nil, "nobody could be asked: "},
			{"no capability", protocol.V20251125, "{}", nil, "the client does not support: "},
			{"client refuses", protocol.V20251125, allCapabilities, refuses, "the client could not answer: not now"},
		} {
			t.Run(name+" "+tc.name, func(t *testing.T) {
				h := newHarness(t, nil)
				var ended error
				server.AddRawTool(h.Server, server.Tool{Name: "delete"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
					if push(ctx, call) == nil {
						t.Error("somebody was asked")
					}
					ended = context.Cause(ctx)
					_ = push(ctx, call) // and nobody is asked again
					return server.Text("DELETED"), nil
				})
				asked, want := 0, 0
				if tc.version.Era() == protocol.Modern {
					h.call("delete", "{}").failed(tc.want)
				} else {
					c := h.enter(tc.version, tc.declare)
					c.answer = tc.answer
					if got := c.call("delete", "{}"); !strings.HasPrefix(got, "error: "+tc.want) {
						t.Errorf("got %q, want an error with %q", got, tc.want)
					}
					asked = len(c.asked())
				}
				if tc.answer != nil {
					want = 1
				}
				if asked != want {
					t.Errorf("%d questions, want %d", asked, want)
				}
				if ended == nil {
					t.Error("the handler's context goes on")
				}
				if list := failedPushes(h.events); len(list) != 1 || list[0].Tolerated || list[0].Err == nil {
					t.Errorf("events %+v", list)
				}
			})
		}
	}
}

// TestTriedPushesDegrade: who says so goes on without an answer.
func TestTriedPushesDegrade(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "t"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		_, form := call.TryElicit(ctx, &protocol.ElicitForm{Message: "?", Schema: reasonForm})
		_, url := call.TryElicitURL(ctx, &protocol.ElicitURL{Message: "?", URL: "https://id.example"})
		_, sample := call.TryCreateMessage(ctx, &protocol.CreateMessage{MaxTokens: 1, Messages: []protocol.SamplingMessage{
			{Role: protocol.User, Content: []protocol.Content{&protocol.TextContent{Text: "?"}}}}})
		_, roots := call.TryListRoots(ctx)
		for _, err := range []error{form, url, sample, roots} {
			if _, ok := errors.AsType[*roundtrip.PushError](err); !ok {
				t.Errorf("got %v, want a PushError", err)
			}
		}
		for _, kind := range []protocol.InputKind{protocol.KindElicitForm, protocol.KindElicitURL, protocol.KindCreateMessage, protocol.KindListRoots, "new"} {
			if call.CanPush(kind) {
				t.Errorf("%s can be pushed", kind)
			}
		}
		return server.Text("without"), nil
	})
	h.call("t", "{}").text("without")
	if got := h.enter(protocol.V20251125, "{}").call("t", "{}"); got != "without" {
		t.Errorf("got %q", got)
	}
	list := failedPushes(h.events)
	for _, e := range list {
		if !e.Tolerated {
			t.Errorf("%+v was not tolerated", e)
		}
	}
	if len(list) != 8 {
		t.Errorf("%d events, want 8", len(list))
	}
}

// TestCanPush agrees with what a push does, in every older revision.
func TestCanPush(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "t"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		form, url := call.CanPush(protocol.KindElicitForm), call.CanPush(protocol.KindElicitURL)
		_, formErr := call.TryElicit(ctx, &protocol.ElicitForm{Message: "?", Schema: reasonForm})
		_, urlErr := call.TryElicitURL(ctx, &protocol.ElicitURL{Message: "?", URL: "https://id.example"})
		if form != (formErr == nil) || url != (urlErr == nil) {
			t.Errorf("%s: %v, %v beside %v, %v", call.Version, form, url, formErr, urlErr)
		}
		if form != roundtrip.CanAsk(ctx, protocol.KindElicitForm) {
			t.Errorf("%s: CanAsk differs", call.Version)
		}
		return server.Text("done"), nil
	})
	for _, v := range legacyVersions {
		c := h.enter(v, allCapabilities)
		c.answer = answerAll
		if got := c.call("t", "{}"); got != "done" {
			t.Errorf("%s: got %q", v, got)
		}
	}
}

// TestInvalidPushedAnswers: a handler that ignores that the answer does not fit
// does not complete; one that asks again does.
func TestInvalidPushedAnswers(t *testing.T) {
	for _, again := range []bool{false, true} {
		h := newHarness(t, nil)
		server.AddRawTool(h.Server, server.Tool{Name: "t"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			q := &protocol.ElicitForm{Message: "?", Schema: reasonForm}
			if _, err := call.Elicit(ctx, q); err == nil {
				t.Error("the answer fits")
			}
			if again {
				if _, err := call.Elicit(ctx, q); err != nil {
					return nil, err
				}
			}
			return server.Text("done"), nil
		})
		c := h.enter(protocol.V20251125, allCapabilities)
		n := 0
		c.answer = func(req *protocol.Request) *protocol.Response {
			n++
			if n == 1 {
				return &protocol.Response{Result: json.RawMessage(`{"action":"accept","content":{"reason":5}}`)}
			}
			return answerAll(req)
		}
		want := "error: the answer does not fit the question: "
		if again {
			want = "done"
		}
		if got := c.call("t", "{}"); !strings.HasPrefix(got, want) {
			t.Errorf("again %v: got %q, want %q", again, got, want)
		}
	}
}

// TestWithdrawnPushesEndNothing: a handler that gives a question up, and not the
// call, goes on and may ask again.
func TestWithdrawnPushesEndNothing(t *testing.T) {
	h := newHarness(t, nil)
	var withdraw func()
	server.AddRawTool(h.Server, server.Tool{Name: "t"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		short, cancel := context.WithCancel(ctx)
		withdraw = cancel
		if _, err := call.Elicit(short, &protocol.ElicitForm{Message: "?", Schema: reasonForm}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		answer, err := call.Elicit(ctx, &protocol.ElicitForm{Message: "?", Schema: reasonForm})
		if err != nil {
			return nil, err
		}
		return server.Text(string(answer.Action)), nil
	})
	c := h.enter(protocol.V20251125, allCapabilities)
	c.answer = func(req *protocol.Request) *protocol.Response {
		if len(c.asked()) == 1 {
			withdraw()
			return nil
		}
		return answerAll(req)
	}
	if got := c.call("t", "{}"); got != "accept" {
		t.Errorf("got %q", got)
	}
	if list := failedPushes(h.events); len(list) != 0 {
		t.Errorf("events %+v", list)
	}
}

// TestIfPossible: in flow style the same question ends the call, or is done
// without, in every era; CanAsk says before which it will be.
func TestIfPossible(t *testing.T) {
	for _, optional := range []bool{false, true} {
		h := newHarness(t, nil)
		var can bool
		server.AddRawTool(h.Server, server.Tool{Name: "t"}, func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			can = roundtrip.CanAsk(ctx, protocol.KindElicitForm)
			var opts []roundtrip.AskOption
			if optional {
				opts = append(opts, roundtrip.IfPossible())
			}
			answer, err := roundtrip.Ask[Reason](ctx, "sure", "Sure?", opts...)
			if _, cannot := errors.AsType[*roundtrip.PushError](err); cannot && optional {
				return server.Text("without"), nil
			}
			if err != nil {
				return nil, err
			}
			return server.Text("because " + answer.Reason), nil
		})
		unable := h.enter(protocol.V20251125, "{}").call("t", "{}")
		if can || optional && unable != "without" || !optional && !strings.Contains(unable, "the client does not support: elicitation") {
			t.Errorf("optional %v, legacy, unable: got %q, can %v", optional, unable, can)
		}
		c := h.enter(protocol.V20251125, allCapabilities)
		c.answer = answerAll
		if got := c.call("t", "{}"); got != "because now" || !can {
			t.Errorf("optional %v, legacy: got %q, can %v", optional, got, can)
		}
		h.call("t", "{}").asks("sure")
		h.capabilities = "{}"
		if r := h.call("t", "{}"); optional {
			r.text("without")
		} else {
			r.refused(protocol.CodeMissingRequiredClientCapability)
		}
		if n := len(failedPushes(h.events)); optional && n != 2 || !optional && n != 0 {
			t.Errorf("optional %v: %d events", optional, n)
		}
	}
	if roundtrip.CanAsk(t.Context(), protocol.KindElicitForm) {
		t.Error("somebody can be asked outside of a handler")
	}
}

// TestUndecodablePushedAnswers: what is no answer at all is no answer that fits.
func TestUndecodablePushedAnswers(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "t"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		_, err := call.ElicitURL(ctx, &protocol.ElicitURL{Message: "?", URL: "https://id.example"})
		if _, ok := errors.AsType[*roundtrip.AnswerError](err); !ok {
			t.Errorf("got %v, want an AnswerError", err)
		}
		return server.Text("DELETED"), nil
	})
	c := h.visit(protocol.V20251125)
	c.initialize("2025-11-25", allCapabilities)
	c.answer = func(req *protocol.Request) *protocol.Response { // what such a client says is no message of the protocol
		go c.session.Deliver(&protocol.Response{ID: req.ID, Result: json.RawMessage(`{"action":5}`)})
		return nil
	}
	if got := c.call("t", "{}"); !strings.HasPrefix(got, "error: the answer does not fit the question") {
		t.Errorf("got %q", got)
	}
}
