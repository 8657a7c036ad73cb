package protocol_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

// A gateway relays schemas, less white space, and unknown members.
func TestDefinitionsRelayVerbatim(t *testing.T) {
	const schema = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"b":{"pattern":"^\u00e9\/\\d<\u2028$"},"a":{"maximum":9007199254740993,"multipleOf":1.0,"minimum":-1e400}},"x-mcp-header":"Region","required":[]}`
	for _, test := range []struct{ name, method, raw string }{
		{"tool", protocol.MethodListTools, `{"resultType":"complete","tools":[{"name":"t","inputSchema":` + schema + `,"outputSchema":{},"annotations":{"readOnlyHint":false},"_meta":{"k":"\u00e9","n":1.0},"execution":{"taskSupport":"optional"},"x":null,"x-vendor":["\u00e9",1.0]}],"ttlMs":0,"cacheScope":"private"}`},
		{"tool with output schema", protocol.MethodListTools, `{"resultType":"complete","tools":[{"name":"t","inputSchema":` + schema + `,"outputSchema":` + schema + `}],"ttlMs":0,"cacheScope":"private"}`},
		{"prompt", protocol.MethodListPrompts, `{"resultType":"complete","prompts":[{"name":"p","_meta":{"k":"\u00e9"},"x":{"n":1.0}}],"ttlMs":0,"cacheScope":"private"}`},
		{"resource", protocol.MethodListResources, `{"resultType":"complete","resources":[{"uri":"u","name":"r","size":0,"_meta":{"k":1.0},"type":"kept","x":1.0}],"ttlMs":0,"cacheScope":"private"}`},
		{"template", protocol.MethodListResourceTemplates, `{"resultType":"complete","resourceTemplates":[{"uriTemplate":"u","name":"r","_meta":{"k":1.0},"x":1.0}],"ttlMs":0,"cacheScope":"private"}`},
		{"result", protocol.MethodCallTool, `{"resultType":"complete","content":[{"type":"resource_link","uri":"u","name":"n","x":1.0}],"structuredContent":` + schema + `,"_meta":{"k":"\u00e9"}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := result(t, protocol.Latest, test.method, test.raw)
			if got := encoded(t, protocol.Latest, test.method, r); got != test.raw {
				t.Errorf("got  %s\nwant %s", got, test.raw)
			}
		})
	}
}

// The type of a link's block is not a member of the resource, or it would be written twice.
func TestResourceLinkType(t *testing.T) {
	r := result(t, protocol.Latest, protocol.MethodCallTool, `{"content":[{"type":"resource_link","uri":"u","name":"n"}]}`)
	link := r.(*protocol.CallToolResult).Content[0].(*protocol.ResourceLink)
	if link.Extra != nil {
		t.Errorf("extra members %q", link.Extra)
	}
	result(t, protocol.Latest, protocol.MethodCallTool,
		encoded(t, protocol.Latest, protocol.MethodCallTool, r))
}

// An empty object must not be read as success.
func TestToolResultWithoutContentIsRefused(t *testing.T) {
	for _, test := range []struct {
		name, data string
		ok         bool
	}{
		{"empty", `{}`, false},
		{"result type", `{"resultType":"complete"}`, false},
		{"meta", `{"resultType":"complete","_meta":{}}`, false},
		{"empty content", `{"content":[]}`, true},
		{"null content", `{"content":null}`, true}, // some servers send null for an empty list
		{"structured content", `{"structuredContent":{"a":1}}`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := protocol.DecodeResult(protocol.V20260728, protocol.MethodCallTool,
				[]byte(test.data))
			if (err == nil) != test.ok {
				t.Errorf("%s: got %v, want ok %t", test.data, err, test.ok)
			}
		})
	}
}
