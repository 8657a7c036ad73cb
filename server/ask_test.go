package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
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
			_, err := call.ElicitURL(ctx,
				&protocol.ElicitURL{Message: "?", URL: "https://id.example"})
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
func failedPushes(seen *events) (list []event.PushFailed) {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for _, e := range seen.list {
		if failed, ok := e.(event.PushFailed); ok {
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
			{"client refuses", protocol.V20251125, allCapabilities, refuses,
				"the client could not answer: not now"},
		} {
			t.Run(name+" "+tc.name, func(t *testing.T) {
				h := newHarness(t, nil)
				var ended error
				server.AddRawTool(h.Server, server.Tool{Name: "delete"},
					func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome,
						error) {
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
				if list := failedPushes(h.events); len(list) != 1 || list[0].Tolerated ||
					list[0].Err == nil {
					t.Errorf("events %+v", list)
				}
			})
		}
	}
}

// TestTriedPushesDegrade: who says so goes on without an answer.
func TestTriedPushesDegrade(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "t"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			_, form := call.TryElicit(ctx, &protocol.ElicitForm{Message: "?", Schema: reasonForm})
			_, url := call.TryElicitURL(ctx,
				&protocol.ElicitURL{Message: "?", URL: "https://id.example"})
			_, sample := call.TryCreateMessage(ctx,
				&protocol.CreateMessage{MaxTokens: 1, Messages: []protocol.SamplingMessage{
					{Role: protocol.User,
						Content: []protocol.Content{&protocol.TextContent{Text: "?"}}}}})
			_, roots := call.TryListRoots(ctx)
			for _, err := range []error{form, url, sample, roots} {
				if _, ok := errors.AsType[*roundtrip.PushError](err); !ok {
					t.Errorf("got %v, want a PushError", err)
				}
			}
			for _, kind := range []protocol.InputKind{protocol.KindElicitForm,
				protocol.KindElicitURL,
				protocol.KindCreateMessage, protocol.KindListRoots, "new"} {
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
	server.AddRawTool(h.Server, server.Tool{Name: "t"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			form, url := call.CanPush(protocol.KindElicitForm), call.CanPush(protocol.KindElicitURL)
			_, formErr := call.TryElicit(ctx,
				&protocol.ElicitForm{Message: "?", Schema: reasonForm})
			_, urlErr := call.TryElicitURL(ctx,
				&protocol.ElicitURL{Message: "?", URL: "https://id.example"})
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
		server.AddRawTool(h.Server, server.Tool{Name: "t"},
			func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
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
	server.AddRawTool(h.Server, server.Tool{Name: "t"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			short, cancel := context.WithCancel(ctx)
			withdraw = cancel
			if _, err := call.Elicit(short,
				&protocol.ElicitForm{Message: "?", Schema: reasonForm}); !errors.Is(err,
				context.Canceled) {
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

// TestUndecodablePushedAnswers: what is no answer at all is no answer that fits.
func TestUndecodablePushedAnswers(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "t"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			_, err := call.ElicitURL(ctx,
				&protocol.ElicitURL{Message: "?", URL: "https://id.example"})
			if _, ok := errors.AsType[*roundtrip.AnswerError](err); !ok {
				t.Errorf("got %v, want an AnswerError", err)
			}
			return server.Text("DELETED"), nil
		})
	c := h.visit(protocol.V20251125)
	c.initialize("2025-11-25", allCapabilities)
	// what such a client says is no message of the protocol
	c.answer = func(req *protocol.Request) *protocol.Response {
		go c.session.Deliver(&protocol.Response{ID: req.ID,
			Result: json.RawMessage(`{"action":5}`)})
		return nil
	}
	if got := c.call("t", "{}"); !strings.HasPrefix(got,
		"error: the answer does not fit the question") {
		t.Errorf("got %q", got)
	}
}

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
	server.AddRawTool(h.Server, server.Tool{Name: "push"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			form, err := call.Elicit(ctx, &protocol.ElicitForm{Message: "?", Schema: reasonForm})
			if err != nil {
				return nil, err
			}
			visit, err := call.ElicitURL(ctx,
				&protocol.ElicitURL{Message: "?", URL: "https://id.example"})
			if err != nil {
				return nil, err
			}
			message, err := call.CreateMessage(ctx,
				&protocol.CreateMessage{MaxTokens: 1, Messages: []protocol.SamplingMessage{
					{Role: protocol.User,
						Content: []protocol.Content{&protocol.TextContent{Text: "?"}}}}})
			if err != nil {
				return nil, err
			}
			roots, err := call.ListRoots(ctx)
			if err != nil {
				return nil, err
			}
			return server.Text(fmt.Sprintf("%s %s %s %s", form.Content, visit.Action, message.Model,
				roots.Roots[0].URI)), nil
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
			server.AddRawTool(h.Server, server.Tool{Name: "push"},
				func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
					r, err := call.Elicit(ctx, &protocol.ElicitForm{Message: "?",
						Schema: reasonForm})
					if err != nil {
						return nil, err
					}
					return server.Text(fmt.Sprintf("%s %s", r.Action, r.Content)), nil
				})
			c := h.visit(protocol.V20251125)
			c.initialize("2025-11-25", `{"elicitation":{}}`)
			c.answer = answering(tc.answer)
			// what such a client says is no message of the protocol
			if strings.Contains(tc.answer, "5") {
				c.answer = func(req *protocol.Request) *protocol.Response {
					go c.session.Deliver(&protocol.Response{ID: req.ID,
						Result: json.RawMessage(tc.answer)})
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
	server.AddRawTool(h.Server, server.Tool{Name: "push"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			_, failure = call.Elicit(ctx, &protocol.ElicitForm{Message: "?", Schema: reasonForm})
			return server.Text("went on"), nil
		})
	check := func(name, words string) {
		t.Helper()
		if _, ok := errors.AsType[*roundtrip.PushError](failure); !ok ||
			!strings.Contains(failure.Error(), words) {
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
	in := c.admitWith(protocol.MethodCallTool, `{"name":"push"}`, server.Delivery{})
	c.serve(in)
	check("no way back", "cannot carry")
	var nowhere server.Call
	if _, err := nowhere.ListRoots(t.Context()); err == nil {
		t.Error("a call from nowhere asked")
	}
}

func TestPushedRequestsFail(t *testing.T) {
	h := newHarness(t, nil)
	var failures []error
	server.AddRawTool(h.Server, server.Tool{Name: "x"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			_, form := call.Elicit(ctx, &protocol.ElicitForm{})
			_, url := call.ElicitURL(ctx, &protocol.ElicitURL{})
			_, sample := call.CreateMessage(ctx, &protocol.CreateMessage{})
			_, roots := call.ListRoots(ctx)
			failures = []error{form, url, sample, roots}
			return server.Text("deleted"), nil
		})
	h.call("x", "").failed("nobody could be asked")
	for i, err := range failures {
		if _, ok := errors.AsType[*roundtrip.PushError](err); !ok {
			t.Errorf("push %d: error is %v, want a *roundtrip.PushError", i, err)
		}
	}
}
