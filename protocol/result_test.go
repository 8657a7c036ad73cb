package protocol_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// Embedding satisfies the sealed interface; the encoder must refuse it.
type (
	forgedTool  struct{ *protocol.CallToolResult }
	forgedInput struct{ *protocol.InputRequiredResult }
	forgedMix   struct {
		*protocol.CallToolResult
		Questions *protocol.InputRequiredResult
	}
	forgedBlock struct{ *protocol.TextContent }
)

var _ protocol.CallToolOutcome = forgedTool{}

func TestEncodeResultRefuses(t *testing.T) {
	asks := &protocol.InputRequiredResult{RequestState: protocol.StateText("s")}
	for _, test := range []struct {
		name, method string
		result       protocol.Result
	}{
		{"nil", protocol.MethodCallTool, nil},
		{"nil tool result", protocol.MethodCallTool, (*protocol.CallToolResult)(nil)},
		{"nil prompt result", protocol.MethodGetPrompt, (*protocol.GetPromptResult)(nil)},
		{"nil resource result", protocol.MethodReadResource, (*protocol.ReadResourceResult)(nil)},
		{"nil input required", protocol.MethodCallTool, (*protocol.InputRequiredResult)(nil)},
		{"nil tool list", protocol.MethodListTools, (*protocol.ListToolsResult)(nil)},
		{"nil prompt list", protocol.MethodListPrompts, (*protocol.ListPromptsResult)(nil)},
		{"nil resource list", protocol.MethodListResources, (*protocol.ListResourcesResult)(nil)},
		{"nil template list", protocol.MethodListResourceTemplates,
			(*protocol.ListResourceTemplatesResult)(nil)},
		{"nil discover", protocol.MethodDiscover, (*protocol.DiscoverResult)(nil)},
		{"nil completion", protocol.MethodComplete, (*protocol.CompleteResult)(nil)},
		{"nil listen", protocol.MethodListen, (*protocol.ListenResult)(nil)},
		{"nil empty", protocol.MethodPing, (*protocol.EmptyResult)(nil)},
		{"forged tool result", protocol.MethodCallTool, forgedTool{&protocol.CallToolResult{}}},
		{"forged input required", protocol.MethodCallTool, forgedInput{asks}},
		{"forged mixture", protocol.MethodCallTool, forgedMix{&protocol.CallToolResult{}, asks}},
		{"pointer to a forged one", protocol.MethodCallTool,
			&forgedTool{&protocol.CallToolResult{}}},
		{"prompt to a tool call", protocol.MethodCallTool, &protocol.GetPromptResult{}},
		{"tool to a prompt", protocol.MethodGetPrompt, &protocol.CallToolResult{}},
		{"tool to a resource", protocol.MethodReadResource, &protocol.CallToolResult{}},
		{"empty to a tool call", protocol.MethodCallTool, &protocol.EmptyResult{}},
		{"input required to tools/list", protocol.MethodListTools, asks},
		{"input required to discover", protocol.MethodDiscover, asks},
		{"input required to completion", protocol.MethodComplete, asks},
		{"input required to ping", protocol.MethodPing, asks},
		{"tool list to prompts/list", protocol.MethodListPrompts, &protocol.ListToolsResult{}},
		{"nil block", protocol.MethodCallTool,
			&protocol.CallToolResult{Content: []protocol.Content{nil}}},
		{"typed nil block", protocol.MethodCallTool,
			&protocol.CallToolResult{Content: []protocol.Content{(*protocol.TextContent)(nil)}}},
		{"forged block", protocol.MethodCallTool,
			&protocol.CallToolResult{
				Content: []protocol.Content{forgedBlock{&protocol.TextContent{}}}}},
		{"raw block that is no object", protocol.MethodCallTool,
			&protocol.CallToolResult{
				Content: []protocol.Content{&protocol.OtherContent{Raw: json.RawMessage(`1`)}}}},
		{"link with a type of its own", protocol.MethodCallTool,
			&protocol.CallToolResult{Content: []protocol.Content{&protocol.ResourceLink{
				Resource: protocol.Resource{URI: "u", Name: "n",
					Extra: map[string]json.RawMessage{"type": json.RawMessage(`"text"`)}},
			}}}},
		{"structured content cut short", protocol.MethodCallTool,
			&protocol.CallToolResult{StructuredContent: json.RawMessage(`{"a":`)}},
		{"structured content empty", protocol.MethodCallTool,
			&protocol.CallToolResult{StructuredContent: json.RawMessage{}}},
		{"structured content with duplicates", protocol.MethodCallTool,
			&protocol.CallToolResult{StructuredContent: json.RawMessage(`{"a":1,"a":2}`)}},
		{"meta that is no object", protocol.MethodCallTool,
			&protocol.CallToolResult{Meta: protocol.Meta(`[]`)}},
		{"message without a role", protocol.MethodGetPrompt,
			&protocol.GetPromptResult{
				Messages: []protocol.PromptMessage{{Content: &protocol.TextContent{}}}}},
		{"message without content", protocol.MethodGetPrompt,
			&protocol.GetPromptResult{Messages: []protocol.PromptMessage{{Role: protocol.User}}}},
		{"tool without a schema", protocol.MethodListTools,
			&protocol.ListToolsResult{Tools: []protocol.Tool{{Name: "a"}}}},
		{"tool with a null schema", protocol.MethodListTools,
			&protocol.ListToolsResult{
				Tools: []protocol.Tool{{Name: "a", InputSchema: json.RawMessage(`null`)}}}},
		{"tool without a name", protocol.MethodListTools,
			&protocol.ListToolsResult{
				Tools: []protocol.Tool{{InputSchema: json.RawMessage(`{}`)}}}},
		{"tool with an extra name", protocol.MethodListTools,
			&protocol.ListToolsResult{Tools: []protocol.Tool{{
				Name: "a", InputSchema: json.RawMessage(`{}`),
				Extra: map[string]json.RawMessage{"name": json.RawMessage(`"b"`)},
			}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := protocol.AppendResult([]byte("before"), protocol.Latest, test.method,
				test.result, nil); err == nil || string(got) != "before" {
				t.Errorf("appended: %s, %v", got, err)
			}
			if data, err := protocol.EncodeResult(protocol.Latest, test.method,
				test.result); err == nil {
				t.Errorf("encoded as %s", data)
			}
		})
	}
}

func TestLegacySpelling(t *testing.T) {
	for _, v := range legacyVersions() {
		for _, s := range samples() {
			data, err := protocol.EncodeResult(v, s.method, s.result)
			if s.definition == "InputRequiredResult" {
				refused(t, err, "input_required")
				if data != nil {
					t.Errorf("%s %s: an error, and yet %s", v, s.name, data)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s %s: %v", v, s.name, err)
				continue
			}
			members, _ := value(t, data).(map[string]any)
			for _, name := range []string{"resultType", "ttlMs", "cacheScope", "inputRequests",
				"requestState"} {
				if _, ok := members[name]; ok {
					t.Errorf("%s %s: has %s: %s", v, s.name, name, data)
				}
			}
		}
	}
}

func TestModernSpelling(t *testing.T) {
	for _, test := range []struct {
		name, method string
		result       protocol.Result
		want         string
	}{
		{"content nil", protocol.MethodCallTool, &protocol.CallToolResult{}, `{"resultType":"complete","content":[]}`},
		{"messages nil", protocol.MethodGetPrompt, &protocol.GetPromptResult{}, `{"resultType":"complete","messages":[]}`},
		{"contents nil", protocol.MethodReadResource, &protocol.ReadResourceResult{}, `{"resultType":"complete","contents":[],"ttlMs":0,"cacheScope":"private"}`},
		{"tools nil", protocol.MethodListTools, &protocol.ListToolsResult{}, `{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`},
		{"values nil", protocol.MethodComplete, &protocol.CompleteResult{}, `{"resultType":"complete","completion":{"values":[]}}`},
		{"negative ttl", protocol.MethodListTools,
			&protocol.ListToolsResult{Cache: protocol.CacheHints{TTLMillis: -1}},
			`{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`},
		{"tool use without input", protocol.MethodCallTool,
			&protocol.CallToolResult{Content: []protocol.Content{&protocol.ToolUse{ID: "1",
				Name: "t"}}},
			`{"resultType":"complete","content":[{"type":"tool_use","id":"1","name":"t","input":{}}]}`},
		{"empty text with annotations", protocol.MethodCallTool,
			&protocol.CallToolResult{Content: []protocol.Content{
				&protocol.TextContent{Annotations: &protocol.Annotations{}}}},
			`{"resultType":"complete","content":[{"type":"text","text":"","annotations":{}}]}`},
		{"structured null", protocol.MethodCallTool,
			&protocol.CallToolResult{StructuredContent: json.RawMessage(`null`)},
			`{"resultType":"complete","content":[],"structuredContent":null}`},
		{"state empty", protocol.MethodCallTool, &protocol.InputRequiredResult{RequestState: protocol.StateText("")}, `{"resultType":"input_required","requestState":""}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := encoded(t, protocol.Latest, test.method, test.result); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestLegacyStructuredContent(t *testing.T) {
	for raw, want := range map[string]string{
		`[1]`:     `{"content":[]}`,
		`null`:    `{"content":[]}`,
		`{"a":1}`: `{"content":[],"structuredContent":{"a":1}}`,
	} {
		r := &protocol.CallToolResult{StructuredContent: json.RawMessage(raw)}
		if got := encoded(t, protocol.V20251125, protocol.MethodCallTool, r); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

func TestAppendResultKeepsWhatWasThere(t *testing.T) {
	got, err := protocol.AppendResult([]byte("{"), protocol.Latest, protocol.MethodCallTool,
		&protocol.CallToolResult{}, nil)
	if want := `{{"resultType":"complete","content":[]}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestResultType(t *testing.T) {
	const asks = `"inputRequests":{"r":{"method":"roots/list"}}`
	for _, test := range []struct {
		name    string
		version protocol.Version
		raw     string
		want    string // type; empty for an error
	}{
		{"absent", protocol.Latest, `{"content":[]}`, "CallTool"},
		{"complete", protocol.Latest, `{"resultType":"complete","content":[]}`, "CallTool"},
		{"complete with questions", protocol.Latest, `{"resultType":"complete","content":[],` + asks + `}`, "CallTool"},
		{"absent with questions", protocol.Latest, `{"content":[],` + asks + `}`, "CallTool"},
		{"input required", protocol.Latest, `{"resultType":"input_required",` + asks + `}`,
			"InputRequired"},
		{"input required with content", protocol.Latest, `{"resultType":"input_required","content":[{"type":"text","text":"x"}],` + asks + `}`, "InputRequired"},
		{"legacy ignores it", protocol.V20251125, `{"resultType":"input_required","content":[],` + asks + `}`, "CallTool"},
		{"legacy ignores its kind", protocol.V20250618, `{"resultType":7,"content":[]}`,
			"CallTool"},
		{"later revision", "2027-01-01", `{"resultType":"input_required",` + asks + `}`,
			"InputRequired"},
		{"unknown", protocol.Latest, `{"resultType":"task","content":[]}`, ""},
		{"wrong case", protocol.Latest, `{"resultType":"Complete","content":[]}`, ""},
		{"twice", protocol.Latest, `{"resultType":"complete","content":[],"resultType":"complete"}`, ""},
		{"no object", protocol.Latest, `[]`, ""},
		{"nothing", protocol.Latest, ``, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := protocol.DecodeResult(test.version, protocol.MethodCallTool, []byte(test.raw))
			switch {
			case test.want == "" && (err == nil || r != nil):
				t.Errorf("got %#v, %v; want an error", r, err)
			case test.want != "" && err != nil:
				t.Error(err)
			case test.want != "" && fmt.Sprintf("%T", r) != "*protocol."+test.want+"Result":
				t.Errorf("got %T, want %s", r, test.want)
			}
		})
	}
}

func TestUnknownResultTypeIsAnError(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, method := range []string{protocol.MethodCallTool, protocol.MethodListTools,
		protocol.MethodPing} {
		_, err := protocol.DecodeResult(protocol.Latest, method,
			[]byte(`{"resultType":"`+long+`"}`))
		if err == nil || !strings.Contains(err.Error(), `unknown resultType "xxx`) {
			t.Errorf("%s: error %v, want one of the type", method, err)
		} else if len(err.Error()) > 200 {
			t.Errorf("%s: the error repeats %d bytes", method, len(err.Error()))
		}
	}
}

func TestInputRequiredElsewhere(t *testing.T) {
	methods := []string{
		protocol.MethodListTools, protocol.MethodListPrompts, protocol.MethodListResources,
		protocol.MethodListResourceTemplates,
		protocol.MethodDiscover, protocol.MethodComplete, protocol.MethodListen,
		protocol.MethodPing, "example/unknown",
	}
	for _, method := range methods {
		_, err := protocol.DecodeResult(protocol.Latest, method, []byte(`{"resultType":"input_required","requestState":"s"}`))
		refused(t, err, "input_required")
	}
}

func TestMalformedResults(t *testing.T) {
	for _, test := range []struct{ method, raw string }{
		{protocol.MethodCallTool, `{"content":{}}`},
		{protocol.MethodCallTool, `{"content":[null]}`},
		{protocol.MethodCallTool, `{"content":[{}]}`},
		{protocol.MethodCallTool, `{"content":[{"type":null}]}`},
		{protocol.MethodCallTool, `{"content":[{"type":"image","data":"not base64!","mimeType":"x"}]}`},
		{protocol.MethodCallTool, `{"content":[{"type":"image","data":"aGk","mimeType":"x"}]}`},
		{protocol.MethodCallTool, `{"content":[{"type":"resource"}]}`},
		{protocol.MethodCallTool, `{"content":[{"type":"resource","resource":null}]}`},
		{protocol.MethodCallTool, `{"content":[{"type":"resource","resource":{"uri":"u"}}]}`},
		{protocol.MethodCallTool, `{"content":[{"type":"resource_link"}]}`},
		{protocol.MethodCallTool, `{"content":[{"type":"tool_use","id":"1","name":"t","input":null}]}`},
		{protocol.MethodCallTool, `{"content":[],"isError":"true"}`},
		{protocol.MethodCallTool, `{"content":[],"structuredContent":{"a":1,"a":2}}`},
		{protocol.MethodGetPrompt, `{}`},
		{protocol.MethodGetPrompt, `{"messages":null}`},
		{protocol.MethodGetPrompt, `{"messages":[null]}`},
		{protocol.MethodGetPrompt, `{"messages":[{"role":"user"}]}`},
		{protocol.MethodGetPrompt, `{"messages":[{"content":{"type":"text","text":"x"}}]}`},
		{protocol.MethodGetPrompt, `{"messages":[{"role":"system","content":{"type":"text","text":"x"}}]}`},
		{protocol.MethodGetPrompt, `{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`},
		{protocol.MethodReadResource, `{}`},
		{protocol.MethodReadResource, `{"contents":null}`},
		{protocol.MethodReadResource, `{"contents":[null]}`},
		{protocol.MethodReadResource, `{"contents":[{"uri":"u"}]}`},
		{protocol.MethodReadResource, `{"contents":[{"uri":"u","text":"a","blob":""}]}`},
		{protocol.MethodReadResource, `{"contents":[{"uri":"u","blob":null}]}`},
		{protocol.MethodReadResource, `{"contents":[{"uri":"u","text":null}]}`},
		{protocol.MethodListTools, `{}`},
		{protocol.MethodListTools, `{"tools":{}}`},
		{protocol.MethodListTools, `{"tools":[],"nextCursor":5}`},
		{protocol.MethodDiscover, `{"capabilities":{}}`},
		{protocol.MethodDiscover, `{"supportedVersions":[],"capabilities":{}}`},
		{protocol.MethodDiscover, `{"supportedVersions":"2026-07-28","capabilities":{}}`},
		{protocol.MethodDiscover, `{"supportedVersions":[5],"capabilities":{}}`},
		{protocol.MethodDiscover, `{"supportedVersions":["2026-07-28"],"capabilities":[]}`},
		{protocol.MethodComplete, `{}`},
		{protocol.MethodComplete, `{"completion":[]}`},
		{protocol.MethodComplete, `{"completion":{"values":["a",5]}}`},
		{protocol.MethodListen, `{"_meta":5}`},
		{protocol.MethodPing, `{"_meta":[]}`},
	} {
		t.Run(test.method+test.raw, func(t *testing.T) {
			if r, err := protocol.DecodeResult(protocol.Latest, test.method,
				[]byte(test.raw)); err == nil || r != nil {
				t.Errorf("decoded as %#v, error %v", r, err)
			}
		})
	}
}

func TestInvalidCacheHintsAreNone(t *testing.T) {
	for raw, want := range map[string]protocol.CacheHints{
		`"ttlMs":5,"cacheScope":"public"`:    {TTLMillis: 5, Public: true},
		`"ttlMs":-5,"cacheScope":"public"`:   {TTLMillis: 0, Public: true},
		`"ttlMs":"5","cacheScope":null`:      {TTLMillis: 0},
		`"ttlMs":1e99,"cacheScope":"Public"`: {},
		`"ttlMs":5`:                          {TTLMillis: 5},
	} {
		r := result(t, protocol.Latest, protocol.MethodListTools, `{"tools":[],`+raw+`}`)
		if got := r.(*protocol.ListToolsResult).Cache; got != want {
			t.Errorf("%s: got %+v, want %+v", raw, got, want)
		}
	}
}

func TestResultsRoundTrip(t *testing.T) {
	for _, s := range samples() {
		t.Run(s.method+"/"+s.name, func(t *testing.T) {
			want := encoded(t, protocol.Latest, s.method, s.result)
			got := encoded(t, protocol.Latest, s.method, result(t, protocol.Latest, s.method, want))
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestOtherContentIsKept(t *testing.T) {
	const raw = `{"resultType":"complete","content":[{"type":"hologram","beams":[1.0,2],"\u0061":"\u00e9"}]}`
	r := result(t, protocol.Latest, protocol.MethodCallTool, raw)
	if got := encoded(t, protocol.Latest, protocol.MethodCallTool, r); got != raw {
		t.Errorf("got  %s\nwant %s", got, raw)
	}
}

func TestVersions(t *testing.T) {
	if all := protocol.Versions(); !slices.IsSortedFunc(all,
		func(a, b protocol.Version) int { return -strings.Compare(string(a), string(b)) }) ||
		all[0] != protocol.Latest {
		t.Errorf("not newest first: %v", all)
	}
	for v, want := range map[protocol.Version]protocol.Era{
		"": protocol.Legacy, "2024-11-05": protocol.Legacy, "2025-11-25": protocol.Legacy,
		"2026-07-27": protocol.Legacy,
		"2026-07-28": protocol.Modern, "2026-07-29": protocol.Modern, "2031-01-01": protocol.Modern,
	} {
		if got := v.Era(); got != want {
			t.Errorf("%q: %s, want %s", v, got, want)
		}
		if known := v == "2024-11-05" || v == "2025-11-25" ||
			v == "2026-07-28"; v.Known() != known {
			t.Errorf("%q: Known is %v", v, v.Known())
		}
	}
	for _, v := range protocol.Versions() {
		if !v.Known() {
			t.Errorf("%s is not known", v)
		}
	}
}

// spread adds white space to all JSON text in v and returns the number of places.
func spread(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n = spread(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += spread(v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				n += spread(v.Index(i))
			}
			break
		}
		var wide bytes.Buffer
		if v.CanSet() && v.Len() > 0 && json.Indent(&wide, v.Bytes(), "\r", "\n\t") == nil {
			v.SetBytes(append(wide.Bytes(), '\n'))
			n = 1
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if raw, ok := v.MapIndex(key).Interface().(json.RawMessage); ok {
				v.SetMapIndex(key, reflect.ValueOf(append(append(json.RawMessage("\n "), raw...),
					'\n')))
				n++
			}
		}
	}
	return n
}

// Results are on one line without white space for any input, because transports send them as is.
func TestResultsAreCompact(t *testing.T) {
	spreadInto := 0
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			spreadInto += spread(reflect.ValueOf(s.result))
			got, err := protocol.EncodeResult(protocol.Latest, s.method, s.result)
			noError(t, err)
			if want := jsonx.AppendCompact(nil, got); !bytes.Equal(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	if spreadInto < 20 {
		t.Errorf("put white space into %d texts, want many", spreadInto)
	}
}
