package protocol_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

// Null is read as absent by a server.
func TestNullInParamsIsAbsent(t *testing.T) {
	const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
	for _, test := range []struct{ method, null, absent string }{
		{protocol.MethodCallTool, `{"name":"t","arguments":null,"_meta":null}`, `{"name":"t"}`},
		{protocol.MethodGetPrompt, `{"name":"p","arguments":null}`, `{"name":"p"}`},
		{protocol.MethodListTools, `{"cursor":null}`, `{}`},
		{protocol.MethodListTools, `{"cursor":null,` + modern + `}`, `{` + modern + `}`},
		{protocol.MethodInitialize, `{"protocolVersion":"2025-11-25","capabilities":null,` +
			`"clientInfo":null}`, `{"protocolVersion":"2025-11-25"}`},
		{protocol.MethodInitialize, `{"protocolVersion":"2025-11-25","capabilities":{"roots":null},` +
			`"clientInfo":{"name":"c","version":"1","title":null,"icons":null,"websiteUrl":null}}`,
			`{"protocolVersion":"2025-11-25","capabilities":{},` +
				`"clientInfo":{"name":"c","version":"1"}}`},
		{protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"p","uri":null},` +
			`"argument":{"name":"a","value":"v"},"context":null}`,
			`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}`},
		{protocol.MethodListen, `{"notifications":null}`, `{}`},
	} {
		got, err := protocol.DecodeParams(test.method, json.RawMessage(test.null))
		want, wantErr := protocol.DecodeParams(test.method, json.RawMessage(test.absent))
		if err != nil || wantErr != nil {
			t.Errorf("%s%s: %v, %v", test.method, test.null, err, wantErr)
			continue
		}
		got.RequestMetadata().Extra, want.RequestMetadata().Extra = nil, nil // as received
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s%s: got %+v, want %+v", test.method, test.null, got, want)
		}
	}
	p, err := protocol.DecodeParams(protocol.MethodListTools,
		[]byte(`{"_meta":{"progressToken":null,"x":null,"io.modelcontextprotocol/clientInfo":null}}`))
	if err != nil || !p.RequestMetadata().ProgressToken.IsZero() {
		t.Errorf("got %+v, %v", p, err)
	}
}

// Null is read as absent by a client.
func TestNullInResultsIsAbsent(t *testing.T) {
	for _, test := range []struct{ method, null, absent string }{
		{protocol.MethodListTools, `{"tools":[{"name":"a","title":null,"icons":null,"inputSchema":{},` +
			`"outputSchema":null,"annotations":null,"_meta":null}],"nextCursor":null,"_meta":null}`,
			`{"tools":[{"name":"a","inputSchema":{}}]}`},
		{protocol.MethodListTools, `{"tools":null}`, `{"tools":[]}`},
		{protocol.MethodListResources,
			`{"resources":[{"uri":"u","name":"n","size":5.0,"mimeType":null}]}`,
			`{"resources":[{"uri":"u","name":"n","size":5}]}`},
		{protocol.MethodCallTool, `{"content":[{"type":"text","text":"x","annotations":null,` +
			`"_meta":null}],"isError":null,"_meta":null}`, `{"content":[{"type":"text","text":"x"}]}`},
		{protocol.MethodCallTool, `{"content":[{"type":"image","data":"aGk=","mimeType":"i",` +
			`"annotations":null,"_meta":null}]}`,
			`{"content":[{"type":"image","data":"aGk=","mimeType":"i"}]}`},
		{protocol.MethodReadResource,
			`{"contents":[{"uri":"u","text":"x","blob":null,"mimeType":null,"_meta":null}]}`,
			`{"contents":[{"uri":"u","text":"x"}]}`},
		{protocol.MethodGetPrompt, `{"description":null,"messages":[]}`, `{"messages":[]}`},
		{protocol.MethodInitialize, `{"protocolVersion":"2025-11-25","instructions":null,` +
			`"capabilities":{"tools":null,"experimental":{"x":true},"logging":null},` +
			`"serverInfo":{"name":"s","version":"1","title":null}}`,
			`{"protocolVersion":"2025-11-25","capabilities":{"experimental":{}},` +
				`"serverInfo":{"name":"s","version":"1"}}`},
		{protocol.MethodDiscover, `{"supportedVersions":["2026-07-28"],"capabilities":null,` +
			`"instructions":null}`, `{"supportedVersions":["2026-07-28"]}`},
		{protocol.MethodComplete, `{"completion":{"values":["a"],"total":5.0,"hasMore":null}}`,
			`{"completion":{"values":["a"],"total":5}}`},
	} {
		got, err := protocol.DecodeResult(protocol.Latest, test.method, []byte(test.null))
		want, wantErr := protocol.DecodeResult(protocol.Latest, test.method, []byte(test.absent))
		if err != nil || wantErr != nil {
			t.Errorf("%s%s: %v, %v", test.method, test.null, err, wantErr)
			continue
		}
		gotText, _ := json.Marshal(got)
		wantText, _ := json.Marshal(want)
		if string(gotText) != string(wantText) {
			t.Errorf("%s%s: got %s, want %s", test.method, test.null, gotText, wantText)
		}
	}
}

func TestNullInMessagesIsAbsent(t *testing.T) {
	for _, null := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized","params":null}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":null}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""},"result":null}`,
	} {
		absent := null[:strings.LastIndex(null, `,"`)] + "}"
		got, err := protocol.DecodeMessage([]byte(null))
		want, wantErr := protocol.DecodeMessage([]byte(absent))
		if err != nil || wantErr != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v; want %+v, %v", null, got, err, want, wantErr)
		}
	}
}

// An unreadable entry is left out and reported.
func TestBadEntriesOfListsAreLeftOut(t *testing.T) {
	for _, test := range []struct {
		method, raw, report string
		left                int
	}{
		{protocol.MethodListTools, `{"tools":[{"name":"a","inputSchema":{}},{"name":"b"},` +
			`{"name":"c","inputSchema":{}},null,7,{"inputSchema":{}},` +
			`{"name":"d","inputSchema":{},"outputSchema":7}]}`,
			"tools: 5 entries are left out; the first is [1]: inputSchema: must be an object", 2},
		{protocol.MethodListPrompts, `{"prompts":[{},{"name":"p"}]}`,
			"prompts: 1 entries are left out; the first is [0]: name: must be present", 1},
		{protocol.MethodListResources, `{"resources":[{"uri":"u","name":"n","size":1.5},` +
			`{"uri":"u","name":"n"}]}`,
			"resources: 1 entries are left out; the first is [0]: size: json: number \"1.5\" is not an integer", 1},
		{protocol.MethodListResourceTemplates, `{"resourceTemplates":[{"name":"n"}]}`,
			"resourceTemplates: 1 entries are left out; the first is [0]: " +
				"uriTemplate: must be present", 0},
		{protocol.MethodCallTool, `{"content":[{"type":"text"},{"type":"text","text":"x"}]}`,
			"content: a block of text without text is read as empty", 2},
		{protocol.MethodCallTool, `{"content":[{"type":"image","data":"?"},` +
			`{"type":"image","data":"aGVs\nbG8=\r\n","mimeType":"i"},{}]}`,
			"content: 2 entries are left out; the first is [0]: data: " +
				"illegal base64 data at input byte 0", 1},
		{protocol.MethodReadResource, `{"contents":[{"uri":"u"},{"uri":"u","blob":"aGVs\nbG8="}]}`,
			"contents: 1 entries are left out; the first is [0]: resource contents: " +
				"exactly one of text and blob must be present", 1},
	} {
		var reports []string
		r, err := protocol.DecodeResult(protocol.Latest, test.method, []byte(test.raw),
			func(err error) { reports = append(reports, err.Error()) })
		if err != nil || len(reports) != 1 || reports[0] != test.report {
			t.Errorf("%s: got %v, reports %q, want %q", test.raw, err, reports, test.report)
			continue
		}
		n := 0
		switch r := r.(type) {
		case *protocol.ListToolsResult:
			n = len(r.Tools)
		case *protocol.ListPromptsResult:
			n = len(r.Prompts)
		case *protocol.ListResourcesResult:
			n = len(r.Resources)
		case *protocol.CallToolResult:
			n = len(r.Content)
		case *protocol.ReadResourceResult:
			n = len(r.Contents)
		}
		if n != test.left {
			t.Errorf("%s: %d entries are left, want %d", test.raw, n, test.left)
		}
	}
}

// Members that safety depends on are read strictly, in both directions.
func TestStrictMembers(t *testing.T) {
	var deep []string
	for _, level := range []string{`[|]`, `{"a":|}`, `[1,|]`, `[|,1]`, `{"a":1,"b":|}`, "[ |\n]",
		`{"":|}`, `[{"a":|}]`, `{"a":[|]}`, `[[],|]`} {
		open, end, _ := strings.Cut(level, "|")
		deep = append(deep, strings.Repeat(open, 100)+`{}`+strings.Repeat(end, 100))
	}
	notText := []string{`null`, `5`, `5.0`, `true`, `false`, `[]`, `["s"]`, `{}`, `{"s":"s"}`, `-0`}
	notObject := []string{`null`, `5`, `"x"`, `true`, `false`, `[]`, `[{}]`, `""`, `0.0`, `"{}"`}
	notAction := []string{`null`, `""`, `"ACCEPT"`, `"accepted"`, `" accept"`, `"yes"`, `true`, `1`,
		`["accept"]`, `{"action":"accept"}`}
	twice := []string{`"a":1,"a":2`, `"a":1,"a":1`, `"a":null,"a":1`, `"a":1,"a":null`,
		`"a":null,"a":null`, `"a":1,"\u0061":2`, `"\u0061":1,"a":2`, `"a":{},"a":[]`,
		`"a":1,"b":2,"a":3`, `"x":{"a":1,"a":2}`}
	notUTF8 := []string{"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "a\x80", `\ud800`,
		`\udc00`, `\ud800a`, `\ud800\ud800`, "\xe2\x82"}
	tool, result := readParamsOf(protocol.MethodCallTool), readResultOf(protocol.MethodCallTool)
	answer := func(raw string) error {
		_, err := protocol.DecodeElicitResult([]byte(raw))
		return err
	}
	const meta = `io.modelcontextprotocol/`
	for _, test := range []struct {
		name, around string
		read         func(raw string) error
		values       []string
	}{
		{"requestState, server", `{"name":"t","requestState":%s}`, tool, notText},
		{"requestState beside answers", `{"name":"t","inputResponses":{},"requestState":%s}`, tool,
			notText},
		{"inputResponses", `{"name":"t","inputResponses":%s}`, tool, notObject},
		{"revision", `{"name":"t","_meta":{"` + meta + `protocolVersion":%s}}`, tool, notText},
		{"capabilities", `{"name":"t","_meta":{"` + meta + `clientCapabilities":%s}}`, tool,
			notObject},
		{"name of the tool", `{"name":%s}`, tool, notText},
		{"action", `{"action":%s}`, answer, notAction},
		{"answer", `%s`, answer, notObject},
		{"members twice, server", `{%s}`, tool, twice},
		{"members twice, answer", `{"action":"accept","content":{%s}}`, answer, twice},
		{"members twice, client", `{"content":[],%s}`, result, twice},
		{"UTF-8, server", `{"name":"%s"}`, tool, notUTF8},
		{"UTF-8, client", `{"content":[{"type":"text","text":"%s"}]}`, result, notUTF8},
		{"UTF-8, answer", `{"action":"accept","content":{"a":"%s"}}`, answer, notUTF8},
		{"depth, server", `{"name":"t","arguments":{"a":%s}}`, tool, deep},
		{"depth, answer", `{"action":"accept","content":{"a":%s}}`, answer, deep},
		{"depth, client", `{"content":[],"structuredContent":%s}`, result, deep},
		{"requestState, client", `{"resultType":"input_required","requestState":%s}`, result,
			notText},
		{"inputRequests", `{"resultType":"input_required","inputRequests":%s}`, result, notObject},
		{"resultType", `{"content":[],"resultType":%s}`, result, notText},
		{"a question", `{"resultType":"input_required","inputRequests":{"a":%s}}`, result, notObject},
		{"content", `{"content":[%s]}`, result, notObject},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, value := range test.values {
				if raw := fmt.Sprintf(test.around, value); test.read(raw) == nil {
					t.Errorf("%s is taken", raw)
				}
			}
		})
	}
}

func readParamsOf(method string) func(raw string) error {
	return func(raw string) error {
		m, err := protocol.DecodeMessage([]byte(
			`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + raw + `}`))
		if err != nil {
			return err
		}
		_, err = protocol.DecodeParams(method, m.(*protocol.Request).Params)
		return err
	}
}

func readResultOf(method string) func(raw string) error {
	return func(raw string) error {
		_, err := protocol.DecodeResult(protocol.Latest, method, []byte(raw))
		return err
	}
}
