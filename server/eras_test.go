package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// Both has a choice that revisions encode differently, and defaults.
type Both struct {
	Region string `json:"region" enum:"eu,us" enumTitles:"Europe,America"`
	Size   int    `json:"size,omitempty" default:"3"`
}

// styles are the ways to write a handler. Each reports its answers.
func styles() map[string]rawTool {
	both := roundtrip.MustQuestion[Both]("both")
	return map[string]rawTool{
		"guard": func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			switch reply := both.Answer(ctx); reply.Outcome {
			case roundtrip.Accepted:
				return server.Text(fmt.Sprintf("%+v", reply.Content)), nil
			case roundtrip.Declined, roundtrip.Cancelled:
				return server.Text("left alone: " + reply.Outcome.String()), nil
			}
			return roundtrip.InputRequired(both.Elicit("Where?")), nil
		},
		"short guard": func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			if content, ok := both.AcceptedContent(ctx); ok {
				return server.Text(fmt.Sprintf("%+v", content)), nil
			}
			return roundtrip.InputRequired(both.Elicit("Where?")), nil
		},
		"two rounds": func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			first, ok := both.AcceptedContent(ctx)
			if !ok {
				return roundtrip.InputRequired(both.Elicit("Where?")), nil
			}
			second, ok := roundtrip.AcceptedContent[Both](ctx, "second")
			if !ok {
				return roundtrip.InputRequired(roundtrip.Elicit[Both]("second", "And then?"),
					roundtrip.WithState(first.Size)), nil
			}
			size, _ := roundtrip.State[int](ctx)
			return server.Text(fmt.Sprintf("%+v %+v %d", first, second, size)), nil
		},
		"raw form": func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			reply := roundtrip.RawAnswer(ctx, "raw")
			if reply.Outcome == roundtrip.Missing {
				return roundtrip.InputRequired(
					roundtrip.ElicitSchema("raw", "Where?", json.RawMessage(
						`{"type":"object","properties":{"region":{"type":"string"},"size":{"type":"integer","default":4}},"required":["region"]}`))), nil
			}
			return server.Text(reply.Outcome.String() + " " + string(reply.Content)), nil
		},
		"error value": func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			if content, ok := both.AcceptedContent(ctx); ok {
				return server.Text(fmt.Sprintf("%+v", content)), nil
			}
			return nil, fmt.Errorf("wrapped: %w",
				&server.InputRequiredError{Result: roundtrip.InputRequired(both.Elicit("Where?"))})
		},
		"sampling and roots": func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			message, ok := roundtrip.Sampled(ctx, "model")
			roots, also := roundtrip.Roots(ctx, "roots")
			if !ok || !also {
				return roundtrip.InputRequired(roundtrip.ListRoots("roots"),
					roundtrip.CreateMessage("model", &protocol.CreateMessage{
						MaxTokens: 1, Messages: []protocol.SamplingMessage{{Role: protocol.User,
							Content: []protocol.Content{&protocol.TextContent{Text: "?"}}}}})), nil
			}
			return server.Text(message.Model + " " + roots[0].URI), nil
		},
		"never satisfied": func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			return roundtrip.InputRequired(roundtrip.Elicit[Both](fmt.Sprint("q",
				roundtrip.RoundOf(ctx).Number), "?")), nil
		},
		"fails after": func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			if roundtrip.RoundOf(ctx).Number == 1 {
				return roundtrip.InputRequired(both.Elicit("Where?")), nil
			}
			return nil, errors.New("no such region")
		},
	}
}

func runModern(h *harness, tool string, answer func(method string) string) string {
	more := []string{}
	for {
		r := h.call(tool, `{}`, more...)
		if r.result["resultType"] != "input_required" {
			if r.err != nil {
				return fmt.Sprintf("code %d", r.err.Code)
			}
			if r.result["isError"] == true {
				return "error: " + r.firstText()
			}
			return r.firstText()
		}
		members := []string{}
		requests, _ := r.result["inputRequests"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(requests)) {
			method, _ := at(requests, key, "method").(string)
			members = append(members, fmt.Sprintf("%q:%s", key, answer(method)))
		}
		more = []string{answers(strings.Join(members, ",")), r.state()}
	}
}

// Every style of handler returns the same in both eras, for every decision.
func TestWriteOnce(t *testing.T) {
	people := map[string]string{
		"accepts":        `{"action":"accept","content":{"region":"eu","size":5}}`,
		"takes defaults": `{"action":"accept","content":{"region":"us"}}`,
		"declines":       `{"action":"decline"}`,
		"cancels":        `{"action":"cancel"}`,
		"is wrong":       `{"action":"accept","content":{"region":"mars"}}`,
		"says nothing":   `{"action":"accept"}`,
	}
	for style, handler := range styles() {
		for person, form := range people {
			t.Run(style+" "+person, func(t *testing.T) {
				h := newHarness(t, nil)
				h.tool("tool", handler)
				answer := func(method string) string {
					switch method {
					case protocol.MethodListRoots:
						return `{"roots":[{"uri":"file:///src"}]}`
					case protocol.MethodCreateMessage:
						return `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}`
					}
					return form
				}
				want := runModern(h, "tool", answer)
				for _, v := range []protocol.Version{protocol.V20250618, protocol.V20251125} {
					c := h.enter(v, allCapabilities)
					c.answer = func(req *protocol.Request) *protocol.Response {
						return &protocol.Response{Result: json.RawMessage(answer(req.Method))}
					}
					wantEqual(t, string(v)+" beside modern clients", c.call("tool", `{}`), want)
				}
			})
		}
	}
}

type Rate struct {
	Rate json.Number `json:"rate" minimum:"1" default:"7.50"`
}

// A json.Number is a number in schemas, defaults, questions, answers and results, in both eras.
func TestJSONNumbersAreNumbers(t *testing.T) {
	type in struct {
		N    json.Number  `json:"n" default:"2.50"`
		More *json.Number `json:"more,omitempty"`
	}
	type out struct {
		N    json.Number                 `json:"n"`
		Rate json.Number                 `json:"rate"`
		List []json.Number               `json:"list"`
		Any  any                         `json:"any"`
		Keys map[json.Number]json.Number `json:"keys"`
	}
	h := newHarness(t, nil)
	server.AddToolOut(h.Server, server.Tool{Name: "tool"},
		func(ctx context.Context, _ *server.ToolCall, in in) (out, error) {
			r, err := roundtrip.Ask[Rate](ctx, "rate", "Which rate?")
			return out{in.N, r.Rate, []json.Number{in.N}, in.N,
				map[json.Number]json.Number{"1": in.N}}, err
		})
	tools := h.send(protocol.MethodListTools, "").result["tools"]
	listed, err := json.Marshal(at(tools.([]any)[0], "inputSchema", "properties"))
	noError(t, err)
	want := `{"more":{"type":["null","number"]},"n":{"default":2.50,"type":"number"}}`
	if got := string(listed); got != want && got != strings.Replace(want, "2.50", "2.5", 1) {
		t.Errorf("listed %s, want %s", got, want)
	}
	for content, want := range map[string]string{
		`{"rate":1.10}`: `{"n":2.50,"rate":1.10,"list":[2.50],"any":2.50,"keys":{"1":2.50}}`,
		`{}`:            `{"n":2.50,"rate":7.50,"list":[2.50],"any":2.50,"keys":{"1":2.50}}`,
	} {
		answer := `{"action":"accept","content":` + content + `}`
		if got := runModern(h, "tool", func(string) string { return answer }); got != want {
			t.Errorf("2026-07-28: got %s, want %s", got, want)
		}
		c := h.enter(protocol.V20251125, allCapabilities)
		c.answer = answering(answer)
		wantEqual(t, "2025-11-25", c.call("tool", `{}`), want)
		schema := string(c.asked()[0].Params)
		wantPart(t, "asked", schema, `"rate":{"type":"number","minimum":1,"default":7.50}`)
	}
	h.call("tool", `{"n":"2.50"}`).failed(`field "n"`, "must be a number, got string")
}

// A json.Number is encoded as a number in any value.
func TestJSONNumbersInAnyValue(t *testing.T) {
	value := map[string]any{"n": json.Number("1.50")}
	meta, err := protocol.Meta(nil).With("example.com/n", value)
	noError(t, err)
	h := newHarness(t, nil)
	h.tool("tool", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		kept, err := roundtrip.Memo(ctx, "memo",
			func(context.Context) (map[string]json.Number, error) {
				return map[string]json.Number{"n": "1.50"}, nil
			})
		if err != nil {
			return nil, err
		}
		if _, ok := roundtrip.AcceptedContent[Rate](ctx, "rate"); !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[Rate]("rate", "?"),
				roundtrip.WithState(value)), nil
		}
		state, _ := roundtrip.State[json.RawMessage](ctx)
		result, err := server.Structured([]any{kept, state, value})
		if err == nil {
			result.Meta = meta
		}
		return result, err
	})
	h.tool("fails", func(context.Context, *server.ToolCall) (toolOutcome, error) {
		return nil, protocol.Errorf(-32050, "no").WithData(value)
	})
	const want = `[{"n":1.50},{"n":1.50},{"n":1.50}]`
	answer := `{"action":"accept"}`
	if got := runModern(h, "tool", func(string) string { return answer }); got != want {
		t.Errorf("2026-07-28: got %s, want %s", got, want)
	}
	if e := h.call("fails", "{}").err; e == nil || string(e.Data) != `{"n":1.50}` {
		t.Errorf("2026-07-28: error %v with %s", e, e.Data)
	}
	c := h.enter(protocol.V20251125, allCapabilities)
	c.answer = answering(answer)
	raw := string(c.request(protocol.MethodCallTool, `{"name":"tool","arguments":{}}`).Result)
	for _, part := range []string{strings.ReplaceAll(want, `"`, `\"`),
		`"example.com/n":{"n":1.50}`} {
		wantPart(t, "2025-11-25", raw, part)
	}
	failed := c.request(protocol.MethodCallTool, `{"name":"fails","arguments":{}}`)
	if e := failed.Error; e == nil || string(e.Data) != `{"n":1.50}` {
		t.Errorf("2025-11-25: got %+v", failed)
	}
}
