package protocol_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

type definitions struct {
	compiler *jsonschema.Compiler
	prefix   string
}

func definitionsOf(t testing.TB, v protocol.Version) definitions {
	t.Helper()
	wiretest.Need(t)
	raw, ok := wiretest.SchemaOf(string(v))
	if !ok {
		t.Fatalf("no schema for revision %s", v)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	noError(t, err)
	c := jsonschema.NewCompiler()
	noError(t, c.AddResource("mcp.json", doc))
	prefix := "mcp.json#/$defs/"
	if _, ok := doc.(map[string]any)["$defs"]; !ok {
		prefix = "mcp.json#/definitions/"
	}
	return definitions{c, prefix}
}

func (d definitions) validate(name string, raw []byte) error {
	schema, err := d.compiler.Compile(d.prefix + name)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

func (d definitions) check(t *testing.T, name string, raw []byte) {
	t.Helper()
	if err := d.validate(name, raw); err != nil {
		t.Errorf("not a valid %s: %v\n%s", name, err, raw)
	}
}

// This guards the other tests here.
func TestSchemaRefuses(t *testing.T) {
	d := definitionsOf(t, protocol.Latest)
	for name, raw := range map[string]string{
		"CallToolResult":      `{"resultType":"complete","content":null}`,
		"InputRequiredResult": `{"resultType":"input_required","inputRequests":{"a":{}}}`,
		"ListToolsResult":     `{"resultType":"complete","tools":[{"name":"a","inputSchema":null}],"ttlMs":0,"cacheScope":"private"}`,
		"ElicitResult":        `{"action":"bogus"}`,
	} {
		if d.validate(name, []byte(raw)) == nil {
			t.Errorf("%s: the schema takes %s", name, raw)
		}
	}
}

func TestResultsSatisfySchema(t *testing.T) {
	d := definitionsOf(t, protocol.Latest)
	for _, s := range samples() {
		t.Run(s.method+"/"+s.name, func(t *testing.T) {
			d.check(t, s.definition, []byte(encoded(t, protocol.Latest, s.method, s.result)))
		})
	}
}

// Result definitions have the same names in all revisions; undefined results are not sent.
func TestResultsSatisfyLegacySchemas(t *testing.T) {
	for _, v := range legacyVersions() {
		d := definitionsOf(t, v)
		for _, s := range samples() {
			switch s.definition {
			case "InputRequiredResult", "DiscoverResult", "SubscriptionsListenResult":
				continue
			}
			if s.name == "tool full" && v < protocol.V20250618 {
				continue // has blocks unknown to older revisions
			}
			t.Run(fmt.Sprintf("%s/%s/%s", v, s.method, s.name), func(t *testing.T) {
				d.check(t, s.definition, []byte(encoded(t, v, s.method, s.result)))
			})
		}
	}
}

func TestQuestionsSatisfySchema(t *testing.T) {
	names := map[protocol.InputKind]string{
		protocol.KindElicitForm: "ElicitRequest", protocol.KindElicitURL: "ElicitRequest",
		protocol.KindCreateMessage: "CreateMessageRequest",
		protocol.KindListRoots:     "ListRootsRequest",
	}
	for _, v := range []protocol.Version{protocol.V20260728, protocol.V20251125} {
		d := definitionsOf(t, v)
		for _, q := range questions() {
			t.Run(fmt.Sprintf("%s/%s", v, q.Key), func(t *testing.T) {
				raw, err := protocol.AppendInputRequest(nil, v, q.Request)
				noError(t, err)
				if v.Era() == protocol.Legacy { // a request of its own there
					raw = append([]byte(`{"jsonrpc":"2.0","id":1,`), raw[1:]...)
				}
				d.check(t, names[q.Request.Kind()], raw)
			})
		}
	}
}

func TestRequestsSatisfySchema(t *testing.T) {
	d := definitionsOf(t, protocol.Latest)
	names := map[string]string{
		protocol.MethodCallTool:              "CallToolRequest",
		protocol.MethodGetPrompt:             "GetPromptRequest",
		protocol.MethodReadResource:          "ReadResourceRequest",
		protocol.MethodListTools:             "ListToolsRequest",
		protocol.MethodListPrompts:           "ListPromptsRequest",
		protocol.MethodListResources:         "ListResourcesRequest",
		protocol.MethodListResourceTemplates: "ListResourceTemplatesRequest",
		protocol.MethodDiscover:              "DiscoverRequest",
		protocol.MethodComplete:              "CompleteRequest",
		protocol.MethodListen:                "SubscriptionsListenRequest",
	}
	all := requests()
	if len(all) != len(names) {
		t.Errorf("%d methods have samples, want %d", len(all), len(names))
	}
	for method, list := range all {
		for i, p := range list {
			t.Run(fmt.Sprintf("%s/%d", method, i), func(t *testing.T) {
				d.check(t, names[method], requestOf(t, method, p))
			})
		}
	}
}

func requestOf(t testing.TB, method string, p protocol.Params) []byte {
	t.Helper()
	raw, err := protocol.EncodeParams(p)
	noError(t, err)
	m, err := protocol.AppendMessage(nil,
		&protocol.Request{ID: protocol.IntID(1), Method: method, Params: raw})
	noError(t, err)
	return m
}

func TestAnswersSatisfySchema(t *testing.T) {
	d := definitionsOf(t, protocol.Latest)
	for name, list := range answers() {
		for i, answer := range list {
			t.Run(fmt.Sprintf("%s/%d", name, i), func(t *testing.T) {
				raw, err := answer.MarshalJSON()
				noError(t, err)
				d.check(t, name, raw)
				d.check(t, "InputResponse", raw)
			})
		}
	}
}

func TestErrorsSatisfySchema(t *testing.T) {
	d := definitionsOf(t, protocol.Latest)
	for name, e := range refusals() {
		for _, id := range []protocol.ID{{}, protocol.IntID(1), protocol.StringID("a")} {
			raw, err := protocol.AppendMessage(nil, &protocol.Response{ID: id, Error: e})
			noError(t, err)
			d.check(t, name, raw)
			d.check(t, "JSONRPCErrorResponse", raw)
		}
	}
}
