package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

func aMessage() *protocol.CreateMessage {
	return &protocol.CreateMessage{MaxTokens: 1, Messages: []protocol.SamplingMessage{
		{Role: protocol.User, Content: []protocol.Content{&protocol.TextContent{Text: "?"}}}}}
}

func pushes() map[string]func(ctx context.Context, call *server.ToolCall) error {
	push := func(q protocol.InputRequest) func(context.Context, *server.ToolCall) error {
		return func(ctx context.Context, call *server.ToolCall) error {
			_, err := call.Push(ctx, q)
			return err
		}
	}
	return map[string]func(ctx context.Context, call *server.ToolCall) error{
		"form":    push(&protocol.ElicitForm{Message: "?", Schema: reasonForm}),
		"url":     push(&protocol.ElicitURL{Message: "?", URL: "https://id.example"}),
		"message": push(aMessage()),
		"roots":   push(&protocol.ListRoots{}),
		"another context": func(_ context.Context, call *server.ToolCall) error {
			_, err := call.Push(context.Background(), &protocol.ListRoots{})
			return err
		},
	}
}

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

// A handler cannot proceed past a failed question by dropping its error, in any era.
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
				h.tool("delete",
					func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
						if push(ctx, call) == nil {
							t.Error("somebody was asked")
						}
						ended = context.Cause(ctx)
						_ = push(ctx, call) // and the client is not asked again
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
				wantEqual(t, "questions", asked, want)
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

// A handler that withdraws only its question continues, and may ask again.
func TestWithdrawnPushesEndNothing(t *testing.T) {
	h := newHarness(t, nil)
	var withdraw func()
	h.tool("t", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		short, cancel := context.WithCancel(ctx)
		withdraw = cancel
		if _, err := call.Push(short,
			&protocol.ElicitForm{Message: "?", Schema: reasonForm}); !errors.Is(err,
			context.Canceled) {
			t.Errorf("got %v", err)
		}
		answer, err := call.Push(ctx, &protocol.ElicitForm{Message: "?", Schema: reasonForm})
		if err != nil {
			return nil, err
		}
		return server.Text(string(answer)), nil
	})
	c := h.enter(protocol.V20251125, allCapabilities)
	c.answer = func(req *protocol.Request) *protocol.Response {
		if len(c.asked()) == 1 {
			withdraw()
			return nil
		}
		return answerAll(req)
	}
	wantEqual(t, "the result", c.call("t", "{}"), acceptedNow)
	if list := failedPushes(h.events); len(list) != 0 {
		t.Errorf("events %+v", list)
	}
}

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

func TestPush(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("push", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		var answers []string
		for _, q := range []protocol.InputRequest{
			&protocol.ElicitForm{Message: "?", Schema: reasonForm},
			&protocol.ElicitURL{Message: "?", URL: "https://id.example"},
			aMessage(), &protocol.ListRoots{}} {
			raw, err := call.Push(ctx, q)
			if err != nil {
				return nil, err
			}
			answers = append(answers, string(raw))
		}
		return server.Text(strings.Join(answers, "\n")), nil
	})
	c := h.enter(protocol.V20251125, allCapabilities)
	c.answer = answerAll
	want := strings.Join([]string{acceptedNow, `{"action":"accept"}`,
		`{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}`,
		`{"roots":[{"uri":"file:///src"}]}`}, "\n")
	wantEqual(t, "the result", c.call("push", "{}"), want)
	wantPart(t, "URL question without an id", string(c.asked()[1].Params), `"elicitationId":"`)
}

// Content is checked and completed, or asked for again, as with returned questions.
func TestPushOutcomes(t *testing.T) {
	const required = `{"type":"object","properties":{"region":{"type":"string",` +
		`"enum":["eu","us"]},"size":{"type":"integer","default":3}},"required":["region"]}`
	const invalid = `error: not asking again: 3 answers to "push-1" were not valid`
	for _, tc := range []struct {
		name, answer, want string
		asked              int
	}{
		{"default", `{"action":"accept","content":{}}`,
			`{"action":"accept","content":{"reason":"none"}}`, 1},
		{"no content", `{"action":"accept"}`, `{"action":"accept","content":{"reason":"none"}}`, 1},
		{"declined", `{"action":"decline"}`, `{"action":"decline"}`, 1},
		{"cancelled", `{"action":"cancel"}`, `{"action":"cancel"}`, 1},
		{"wrong", `{"action":"accept","content":{"reason":5}}`, invalid, 3},
		{"garbled", `{"action":5}`,
			"error: the client keeps sending answers that cannot be used", 2},
		{"no answer", `{}`, "error: the client keeps sending answers that cannot be used", 2},
		{"required", `{"action":"accept","content":{"region":"eu"}}`,
			`{"action":"accept","content":{"region":"eu","size":3}}`, 1},
		{"required, not a choice", `{"action":"accept","content":{"region":"mars"}}`, invalid, 3},
		{"required, no content", `{"action":"accept"}`, invalid, 3},
	} {
		for _, v := range []protocol.Version{protocol.V20250618, protocol.V20251125} {
			t.Run(string(v)+" "+tc.name, func(t *testing.T) {
				h, schema := newHarness(t, nil), reasonForm
				if strings.HasPrefix(tc.name, "required") {
					schema = json.RawMessage(required)
				}
				h.tool("push",
					func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
						raw, err := call.Push(ctx,
							&protocol.ElicitForm{Message: "?", Schema: schema})
						if err != nil {
							return nil, err
						}
						return server.Text(string(raw)), nil
					})
				c := h.visit(v)
				c.initialize(string(v), `{"elicitation":{}}`)
				c.answer = answering(tc.answer)
				// such a client does not speak the protocol
				if strings.Contains(tc.answer, "5") || tc.answer == "{}" {
					c.answer = func(req *protocol.Request) *protocol.Response {
						go c.session.Deliver(&protocol.Response{ID: req.ID,
							Result: json.RawMessage(tc.answer)})
						return nil
					}
				}
				got := c.call("push", "{}")
				if !strings.HasPrefix(got, tc.want) {
					t.Errorf("got %q, want %q", got, tc.want)
				}
				if tc.want == invalid && strings.HasPrefix(tc.name, "required") {
					wantPart(t, "the reason", got, "Region")
				}
				wantEqual(t, "questions", len(c.asked()), tc.asked)
			})
		}
	}
}

// The error is typed and precedes any traffic.
func TestPushCannot(t *testing.T) {
	h := newHarness(t, nil)
	var question protocol.InputRequest = &protocol.ElicitForm{Message: "?", Schema: reasonForm}
	var failure error
	h.tool("push", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		_, failure = call.Push(ctx, question)
		return server.Text("went on"), nil
	})
	check := func(name, words string) {
		t.Helper()
		e, ok := errors.AsType[*roundtrip.PushError](failure)
		if !ok || e.Method != protocol.MethodElicit || !strings.Contains(failure.Error(), words) ||
			e.Missing.IsZero() != (name != "no capability") {
			t.Errorf("%s: got %#v, want a PushError that says %q", name, failure, words)
		}
		failure = nil
	}
	h.call("push", "{}").failed("nobody could be asked")
	check("modern", "InputRequired")
	for _, tc := range []struct {
		name, words, capabilities string
		v                         protocol.Version
		question                  protocol.InputRequest
	}{
		{"no capability", "elicitation", `{"roots":{}}`, protocol.V20251125, question},
		{"no elicitation", "2025-03-26", allCapabilities, protocol.V20250326, question},
		{"no URLs", "URL", allCapabilities, protocol.V20250618,
			&protocol.ElicitURL{URL: "https://id.example"}},
	} {
		c := h.enter(tc.v, tc.capabilities)
		question = tc.question
		c.call("push", "{}")
		check(tc.name, tc.words)
		wantEqual(t, tc.name+": questions", len(c.asked()), 0)
	}
	for _, question = range []protocol.InputRequest{nil, (*protocol.ElicitForm)(nil),
		&protocol.ElicitForm{Schema: json.RawMessage(`[]`)}} {
		c := h.enter(protocol.V20251125, allCapabilities)
		c.request(protocol.MethodCallTool, `{"name":"push"}`)
		if failure == nil || len(c.asked()) != 0 {
			t.Errorf("question %#v was asked", question)
		}
		failure = nil
	}
	question = &protocol.ElicitForm{Message: "?", Schema: reasonForm}
	c := h.enter(protocol.V20251125, allCapabilities)
	c.serve(c.admitWith(protocol.MethodCallTool, `{"name":"push"}`, server.Delivery{}))
	cause := failure
	check("no way back", "cannot carry")
	wantPart(t, "no way back", cause.Error(), "InputRequired")
	var nowhere server.Call
	if _, err := nowhere.Push(t.Context(), &protocol.ListRoots{}); err == nil {
		t.Error("a call from nowhere asked")
	}
}
