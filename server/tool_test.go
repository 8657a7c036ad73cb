package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

type order struct {
	Item  string          `json:"item" jsonschema:"what to buy"`
	Count int             `json:"count,omitempty"`
	When  *time.Time      `json:"when,omitempty"`
	Extra json.RawMessage `json:"extra,omitempty"`
	Photo []byte          `json:"photo,omitempty"`
}

func orders(t *testing.T) (*harness, *[]order) {
	h := newHarness(t, nil)
	seen := &[]order{}
	server.AddTool(h.Server, server.Tool{Name: "order"},
		func(_ context.Context, _ *server.ToolCall, in order) (toolOutcome, error) {
			*seen = append(*seen, in)
			return server.Text("ordered " + in.Item), nil
		})
	return h, seen
}

// Integers that no decoder accepts do not reach raw tools, while other spellings do.
func TestIntegersOfRawTools(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "raw", InputSchema: json.RawMessage(`{
		"type":"object","properties":{"n":{"type":"integer"},"x":{"type":"number"}}}`)},
		says("ran"))
	for _, n := range []string{"1e400", "1e22", "-1e30", "1e999999999", "0.5",
		"5.0000000000000000001"} {
		h.call("raw", `{"n":`+n+`}`).failed("invalid arguments")
	}
	for _, doc := range []string{`{"n":5.0}`, `{"n":1e20}`, `{"n":123456789012345678901234}`,
		`{"n":-0e9}`, `{"x":1e400}`} {
		h.call("raw", doc).text("ran")
	}
}

func TestArguments(t *testing.T) {
	tests := []struct{ name, arguments, field string }{
		{"all is well", `{"item":"tea","count":2,"when":"2026-01-02T03:04:05Z","extra":{"a":[1]},"photo":"AAE="}`, ""},
		{"optional ones left out", `{"item":"tea"}`, ""},
		{"null for a pointer", `{"item":"tea","when":null}`, ""},
		{"absent", ``, "item"},
		{"wrong type", `{"item":5}`, "item"},
		{"null", `{"item":null}`, "item"},
		{"wrong case", `{"Item":"tea"}`, "tem"},
		{"unknown member", `{"item":"tea","sugar":true}`, "sugar"},
		{"fraction", `{"item":"tea","count":1.5}`, "count"},
		{"whole number spelled as a fraction", `{"item":"tea","count":2.0}`, ""},
		{"fraction beyond floats", `{"item":"tea","count":5.0000000000000000001}`, "count"},
		{"hostile exponent", `{"item":"tea","count":1e999999999}`, "exponent"},
		{"null for an optional one", `{"item":"tea","count":null}`, ""},
		{"too large for the field", `{"item":"tea","count":123456789012345678901234567890}`, "count"},
		{"not a time", `{"item":"tea","when":"soon"}`, "when"},
		{"not base64", `{"item":"tea","photo":"!"}`, "photo"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, seen := orders(t)
			r := h.call("order", tt.arguments)
			if tt.field == "" {
				r.text("ordered tea")
				wantEqual(t, "handler ran times", len(*seen), 1)
				return
			}
			r.failed("invalid arguments", tt.field)
			if len(*seen) != 0 {
				t.Errorf("handler ran on bad arguments: %+v", *seen)
			}
		})
	}
}

// Argument errors do not repeat values.
func TestArgumentErrorsKeepSecrets(t *testing.T) {
	h, _ := orders(t)
	for _, arguments := range []string{
		`{"item":["hunter2-secret"]}`, `{"item":"tea","count":"hunter2-secret"}`, `{"item":"tea","when":"hunter2-secret"}`, `{"item":"tea","photo":"hunter2-secret!"}`,
	} {
		r := h.call("order", arguments)
		r.failed("invalid arguments")
		wantNoPart(t, "the error repeats what was sent", r.raw, "hunter2")
	}
}

func TestInputTypes(t *testing.T) {
	h := newHarness(t, nil)
	server.AddTool(h.Server, server.Tool{Name: "any"},
		func(_ context.Context, c *server.ToolCall, in any) (toolOutcome, error) {
			return server.Structured(in)
		})
	server.AddTool(h.Server, server.Tool{Name: "map"},
		func(_ context.Context, c *server.ToolCall, in map[string]int) (toolOutcome, error) {
			return server.Structured(in)
		})
	server.AddTool(h.Server, server.Tool{Name: "pointer"},
		func(_ context.Context, c *server.ToolCall, in *count) (toolOutcome, error) {
			return server.Structured(in)
		})
	server.AddTool(h.Server, server.Tool{Name: "raw"},
		func(_ context.Context, c *server.ToolCall, in json.RawMessage) (toolOutcome, error) {
			return server.Structured(in)
		})
	h.tool("call", func(_ context.Context, c *server.ToolCall) (toolOutcome, error) {
		return server.Structured(c.Arguments)
	})
	for _, name := range []string{"any", "map", "pointer", "raw", "call"} {
		h.call(name, `{"n":1}`).text(`{"n":1}`)
	}
	for _, name := range []string{"any", "map", "raw", "call"} {
		h.call(name, "").text("{}")
	}
	r := h.send(protocol.MethodListTools, "")
	for _, tool := range r.result["tools"].([]any) {
		wantEqual(t, fmt.Sprint(at(tool, "name")), at(tool, "inputSchema", "type"), "object")
	}
}

func TestSchemasAreListed(t *testing.T) {
	h := newHarness(t, nil)
	input := `{ "type": "object", "x-order": [3, 1.0], "$schema": "https://json-schema.org/draft/2020-12/schema",
		"properties": {"n": {"type":"integer","minimum":1}} }`
	server.AddTool(h.Server, server.Tool{Name: "explicit", InputSchema: json.RawMessage(input),
		OutputSchema: json.RawMessage(`{"type":"array"}`)},
		func(context.Context, *server.ToolCall, count) (toolOutcome, error) {
			return server.Structured([]int{1})
		})
	server.AddToolOut(h.Server, server.Tool{Name: "inferred"},
		func(context.Context, *server.ToolCall, order) (count, error) { return count{1}, nil })
	r := h.send(protocol.MethodListTools, "")
	explicit := strings.Join(strings.Fields(input), "")
	wantPart(t, "schema is not relayed as it is", r.raw, `"inputSchema":`+explicit)
	for _, want := range []string{
		`"outputSchema":{"type":"array"}`, `"description":"what to buy"`, `"required":["item"]`,
		`"required":["n"]`, `"contentEncoding":"base64"`,
	} {
		wantPart(t, "list lacks", r.raw, want)
	}
	h.call("explicit", `{"n":0}`).failed("n")
	if got := h.call("explicit", `{"n":1}`).result["structuredContent"]; len(got.([]any)) != 1 {
		t.Errorf("structured content is %v", got)
	}
}

// Widely used clients refuse a list with the schema true.
func TestSchemasOfAnyValueAreObjects(t *testing.T) {
	type line struct {
		Any any `json:"any"`
	}
	type input struct {
		line
		Raw     json.RawMessage            `json:"raw"`
		Pointer *json.RawMessage           `json:"pointer"`
		List    []any                      `json:"list"`
		Map     map[string]json.RawMessage `json:"map"`
		Lines   []line                     `json:"lines"`
		Default bool                       `json:"default" default:"true"`
	}
	h := newHarness(t, nil)
	server.AddToolOut(h.Server, server.Tool{Name: "x"},
		func(_ context.Context, _ *server.ToolCall, in input) (input, error) { return in, nil })
	const lines = `{"any":{}},"required":["any"],"additionalProperties":false`
	r := h.send(protocol.MethodListTools, "")
	const want = `"properties":{"any":{},"raw":{},"pointer":{},"list":{"type":["null","array"],` +
		`"items":{}},"map":{"type":"object","additionalProperties":{}},"lines":{"type":["null",` +
		`"array"],"items":{"type":"object","properties":` + lines + `}},` +
		`"default":{"type":"boolean","default":true}}`
	wantEqual(t, "schemas with "+want+" in "+r.raw, strings.Count(r.raw, want), 2)
	const value = `{"any":1,"raw":[true],"pointer":{},"list":[null,"a"],"map":{"k":false},` +
		`"lines":[{"any":{}}],"default":true}`
	wantPart(t, "a call", h.call("x", value).raw, `"structuredContent":`+value)
}

func TestOutputIsChecked(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	tests := []struct {
		name   string
		result *protocol.CallToolResult
		good   bool
	}{
		{"good", &protocol.CallToolResult{StructuredContent: json.RawMessage(`{"n":1}`)}, true},
		{"wrong type",
			&protocol.CallToolResult{StructuredContent: json.RawMessage(`{"n":"x"}`)}, false},
		{"absent", &protocol.CallToolResult{}, false},
		{"not JSON", &protocol.CallToolResult{StructuredContent: json.RawMessage(`{"n":`)}, false},
		{"failed", &protocol.CallToolResult{IsError: true}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, nil)
			server.AddRawTool(h.Server, server.Tool{Name: "x", OutputSchema: schema},
				outcome(tt.result, nil))
			r := h.call("x", "")
			if tt.good {
				if r.err != nil || r.result["resultType"] != "complete" {
					t.Errorf("result is %s", r.raw)
				}
				return
			}
			r.refused(protocol.CodeInternalError)
			h.wantBug("structuredContent")
		})
	}
}

func TestErrorsOfTools(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("plain", outcome(nil, errors.New("out of tea")))
	h.tool("protocol", outcome(nil, protocol.Errorf(1234, "no tea")))
	server.AddToolOut(h.Server, server.Tool{Name: "typed"},
		func(context.Context, *server.ToolCall, none) (count, error) {
			return count{}, errors.New("out of tea")
		})
	h.call("plain", "").failed("out of tea")
	h.call("typed", "").failed("out of tea")
	h.call("protocol", "").refused(1234, "no tea")
	h.call("nowhere", "").refused(protocol.CodeInvalidParams, "unknown tool", "nowhere")
	h.call("Plain", "").refused(protocol.CodeInvalidParams, "unknown tool")
	if r := h.call(strings.Repeat("ü", 5000), ""); len(r.raw) > 500 {
		t.Errorf("an error repeats a long name: %d bytes", len(r.raw))
	}
}

func TestNeeds(t *testing.T) {
	h := newHarness(t, nil)
	ran := false
	server.AddRawTool(h.Server, server.Tool{Name: "x", Needs: protocol.ClientCapabilities{
		Roots: &protocol.RootsCapability{}, Elicitation: &protocol.ElicitationCapability{URL: true},
	}}, func(context.Context, *server.ToolCall) (toolOutcome, error) {
		ran = true
		return server.Text("x"), nil
	})
	h.capabilities = `{"elicitation":{}}`
	r := h.call("x", "")
	r.refused(protocol.CodeMissingRequiredClientCapability, "roots", "elicitation.url")
	if r.err != nil && string(r.err.Data) != `{"requiredCapabilities":{"elicitation":{"url":{}},"roots":{}}}` {
		t.Errorf("data is %s", r.err.Data)
	}
	if ran {
		t.Error("the handler ran")
	}
	h.capabilities = allCapabilities
	h.call("x", "").text("x")
}

func TestToolCall(t *testing.T) {
	h := newHarness(t, nil)
	var got *server.ToolCall
	h.tool("x", func(ctx context.Context, c *server.ToolCall) (toolOutcome, error) {
		got = c
		noError(t, c.Notify(ctx, &protocol.Notification{Method: "x/y"}))
		return server.Text(""), nil
	})
	alice := protocol.Principal{Issuer: "i", Subject: "alice"}
	h.raw(server.WithPrincipal(t.Context(), alice), protocol.MethodCallTool,
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},`+
			`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"traceparent":"00-x"},"name":"x","arguments":{"a":1}}`)
	trace, _ := got.Meta.Extra.Get(protocol.MetaTraceParent)
	if got.Name != "x" || string(got.Arguments) != `{"a":1}` || got.Version != protocol.V20260728 ||
		got.Principal != alice || got.Capabilities().Roots == nil ||
		got.ClientInfo().Name != "c" || string(trace) != `"00-x"` {
		t.Errorf("call is %+v", got)
	}
	h.call("x", "")
	if got.ClientInfo().Name != "" || got.Principal != protocol.LocalPrincipal() {
		t.Errorf("call is %+v", got)
	}
}

func TestBadTools(t *testing.T) {
	s := newHarness(t, nil).Server
	raw := says("x")
	wantPanic(t, "name", func() { server.AddRawTool(s, server.Tool{}, raw) })
	wantPanic(t, "name", func() { addTool(s, "\xff", raw) })
	wantPanic(t, "handler", func() { addTool(s, "x", nil) })
	wantPanic(t, "handler", func() { server.AddTool[count](s, server.Tool{Name: "x"}, nil) })
	wantPanic(t, "handler", func() {
		server.AddToolOut[count, count](s, server.Tool{Name: "x"}, nil)
	})
	for schema, word := range map[string]string{
		`{"type":"string"}`: "object", `{}`: "object", `{"type":["object","null"]}`: "object",
		`[]`: "input schema", `true`: "object",
		`{"type":"object"`: "input schema", `{"type":"object","properties":5}`: "input schema", `{"type":"object","$ref":"https://example.com/x"}`: "input schema",
	} {
		wantPanic(t, word, func() {
			server.AddRawTool(s, server.Tool{Name: "x", InputSchema: json.RawMessage(schema)}, raw)
		})
	}
	wantPanic(t, "output schema", func() {
		server.AddRawTool(s,
			server.Tool{Name: "x", OutputSchema: json.RawMessage(`{"type":"nonsense"}`)}, raw)
	})
	wantPanic(t, "input schema", func() {
		server.AddTool(s, server.Tool{Name: "x"},
			func(context.Context, *server.ToolCall, struct{ F func() }) (toolOutcome, error) {
				return nil, nil
			})
	})
	wantPanic(t, "object", func() {
		server.AddTool(s, server.Tool{Name: "x"},
			func(context.Context, *server.ToolCall, []int) (toolOutcome, error) {
				return nil, nil
			})
	})
	wantPanic(t, `"x"`, func() {
		server.AddRawTool(s, server.Tool{Name: "x", Meta: protocol.Meta(`[]`)}, raw)
	})
	addTool(s, "x", raw)
	wantPanic(t, "registered already", func() { addTool(s, "x", raw) })
}

// Arguments from middleware must be strict JSON, like those in messages.
func TestRewrittenArguments(t *testing.T) {
	const schema = `{"type":"object","properties":{"n":{"type":"integer"},"on":{"type":"boolean"}},"additionalProperties":false}`
	type input struct {
		N  int  `json:"n"`
		On bool `json:"on"`
	}
	var arguments json.RawMessage
	h := newHarness(t,
		&server.Options{Middleware: []server.Middleware{func(next server.Handler) server.Handler {
			return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
				request.Params.(*protocol.CallToolParams).Arguments = arguments
				return next(ctx, request)
			}
		}}})
	server.AddTool(h.Server, server.Tool{Name: "typed", InputSchema: json.RawMessage(schema)},
		func(_ context.Context, _ *server.ToolCall, in input) (toolOutcome, error) {
			return server.Text(fmt.Sprint(in.N, in.On)), nil
		})
	server.AddRawTool(h.Server, server.Tool{Name: "raw", InputSchema: json.RawMessage(schema)},
		func(_ context.Context, call *server.ToolCall) (toolOutcome, error) {
			return server.Text(string(call.Arguments)), nil
		})
	for _, tt := range []struct {
		name, arguments string
		typed, raw      string // empty: refused
	}{
		{"valid", `{"n":2,"on":true}`, "2 true", `{"n":2,"on":true}`},
		{"none", ``, "0 false", `{}`},
		{"a member twice", `{"n":1,"n":2}`, "", ""},
		{"no literal", `{"on":trash}`, "", ""},
		{"no number", `{"n":01}`, "", ""},
		{"no UTF-8", "{\"\xff\":1}", "", ""},
		{"cut short", `{"n":1`, "", ""},
		{"against the schema", `{"n":"1"}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h.T = t
			arguments = json.RawMessage(tt.arguments)
			for tool, want := range map[string]string{"typed": tt.typed, "raw": tt.raw} {
				if got := h.call(tool, `{"n":1}`); want == "" {
					got.failed("invalid arguments")
				} else {
					got.text(want)
				}
			}
		})
	}
}

// null for an optional argument means absent, with its default, for both kinds of tools.
func TestNullArguments(t *testing.T) {
	h := newHarness(t, nil)
	server.AddTool(h.Server, server.Tool{Name: "typed"},
		func(_ context.Context, c *server.ToolCall, in struct {
			Must string `json:"must"`
			May  int    `json:"may,omitempty" default:"3"`
			In   struct {
				May string `json:"may,omitempty"`
			} `json:"in,omitzero"`
		}) (toolOutcome, error) {
			return server.Text(fmt.Sprintf("%s %+v", c.Arguments, in)), nil
		})
	raw := func(_ context.Context, c *server.ToolCall) (toolOutcome, error) {
		return server.Text(string(c.Arguments)), nil
	}
	server.AddRawTool(h.Server, server.Tool{Name: "raw", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"may":{"type":"string"},"named":{"type":["string","null"]}}}`),
	}, raw)
	h.tool("bare", raw)
	h.call("typed", `{"must":"x","may":null,"in":{"may":null}}`).text(
		`{"must":"x","in":{}} {Must:x May:3 In:{May:}}`)
	h.call("typed", `{"must":null}`).failed("must")
	h.call("raw", `{"may":null,"named":null}`).text(`{"named":null}`)
	h.call("bare", `{"may":null}`).text(`{"may":null}`)
	h.call("bare", ``).text(`{}`)
}

// A retry is bound to the original arguments.
func TestNullArgumentsBind(t *testing.T) {
	h := newHarness(t, nil)
	sure := roundtrip.MustQuestion[struct {
		Sure bool `json:"sure"`
	}]("sure")
	ran := ""
	server.AddRawTool(h.Server, server.Tool{Name: "ask", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"may":{"type":"string"}}}`)},
		func(ctx context.Context, c *server.ToolCall) (toolOutcome, error) {
			ran = string(c.Arguments)
			if _, ok := sure.AcceptedContent(ctx); !ok {
				return roundtrip.InputRequired(sure.Elicit("Sure?")), nil
			}
			return server.Text("done"), nil
		})
	const given = `{"may":null}`
	asked := h.call("ask", given)
	asked.asks("sure")
	yes := answers(`"sure":{"action":"accept","content":{"sure":true}}`)
	ran = ""
	h.call("ask", `{}`, yes, asked.state()).refused(protocol.CodeInvalidParams)
	wantEqual(t, "the handler ran with", ran, "")
	h.call("ask", given, yes, asked.state()).text("done")
	wantEqual(t, "the handler", ran, `{}`)
}
