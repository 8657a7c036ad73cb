//go:build node

package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// Every client lists 603 tools with one request, because some clients never send a second, and
// calls each. Arguments of any type are published as schemas that every client can read.
func TestHundredsOfTools(t *testing.T) {
	srv := newSchemaServer(t)
	type anything struct {
		V    any             `json:"v"`
		List []any           `json:"list"`
		Raw  json.RawMessage `json:"raw"`
	}
	for i := range 603 {
		server.AddTool(srv, server.Tool{Name: fmt.Sprint("tool-", i)}, func(_ context.Context,
			call *server.ToolCall, _ anything) (protocol.CallToolOutcome, error) {
			return server.Text(string(call.Arguments)), nil
		})
	}
	checkSchemas(t, srv, 603, nil)
}

func newSchemaServer(t *testing.T) *server.Server {
	t.Helper()
	srv, err := server.New(&server.Options{Info: servertest.Info()})
	noError(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

// A definition is the part of a tool that is compared.
type definition struct {
	Name                                   string
	Title, Description                     string
	InputSchema, OutputSchema, Annotations json.RawMessage
	Meta                                   json.RawMessage `json:"_meta"`
}

// checkSchemas makes every client list the tools of srv and call each tool. Tools answer with their
// arguments. The function check, if not nil, gets the definitions that our server sent.
func checkSchemas(t *testing.T, srv *server.Server, count int,
	check func(t *testing.T, sent map[string]definition)) {
	endpoint, said := listen(t, servertest.NewHandler(t, srv, nil))
	for _, c := range []struct{ name, revision string }{
		{"official", modern}, {"official", v20251125}, {"mcp-go", modern}, {"mcp-go", v20251125},
		{"client", modern}, {"client", v20251125}, {"sdk", v20251125},
	} {
		t.Run(c.name+"/"+c.revision, func(t *testing.T) {
			before := len(said())
			client := dialMake(t, c.name, c.revision, endpoint)
			read := readTools(t, client)
			sent := sentTools(t, said()[before:])
			if len(sent) != count || len(read) != count {
				t.Fatalf("of %d tools %d were sent and %d read", count, len(sent), len(read))
			}
			if check != nil {
				check(t, sent)
			}
			same, called := 0, 0
			for name, want := range sent {
				if reflect.DeepEqual(valueOf(t, read[name].InputSchema, c.name),
					valueOf(t, want.InputSchema, c.name)) {
					same++
				} else {
					t.Errorf("%s has %s, the client reads %s", name, want.InputSchema,
						read[name].InputSchema)
				}
				args := sampleOf(t, want.InputSchema)
				text, err := client.do(within(t, patience), request{
					Method: protocol.MethodCallTool, Target: name, More: args.(map[string]any)})
				var got any
				if json.Unmarshal([]byte(text), &got) == nil && reflect.DeepEqual(got, args) {
					called++
				} else {
					t.Errorf("%s with %v: %q, %v", name, args, text, err)
				}
			}
			t.Logf("%d tools listed, %d of them unaltered, %d called", len(read), same, called)
		})
	}
}

func dialMake(t *testing.T, name, revision, endpoint string) peer {
	t.Helper()
	who := newPerson(t, nil)
	if dial := shapeClients()[name]; dial != nil {
		return dial(t, endpoint, revision, newVisit(t, ""), who, true)
	}
	where := map[string]any{"endpoint": endpoint, "mute": true, "negotiate": "legacy"}
	if revision == modern {
		where["negotiate"] = map[string]string{"pin": modern}
	}
	return startTS(t, name).connect(t, who, where)
}

// readTools returns the first page as a client reads it.
func readTools(t *testing.T, client peer) map[string]definition {
	t.Helper()
	ctx := within(t, patience)
	var list any
	var err error
	switch c := client.(type) {
	case goSDK:
		list, err = c.ListTools(ctx, nil)
	case mcpGo:
		list, err = c.ListTools(ctx, mcp.ListToolsRequest{})
	case tsClient:
		var text string
		text, err = c.do(ctx, request{Method: protocol.MethodListTools, Target: "whole"})
		list = map[string]json.RawMessage{"tools": json.RawMessage(text)}
	}
	noError(t, err)
	encoded, err := json.Marshal(list)
	noError(t, err)
	return definitionsOf(t, encoded)
}

func sentTools(t *testing.T, messages []wiretest.Message) map[string]definition {
	t.Helper()
	for _, message := range messages {
		var body struct{ Result json.RawMessage }
		if json.Unmarshal(message.Body, &body) == nil &&
			bytes.Contains(body.Result, []byte(`"tools":[`)) {
			return definitionsOf(t, body.Result)
		}
	}
	return nil
}

func definitionsOf(t *testing.T, result json.RawMessage) map[string]definition {
	t.Helper()
	var list struct{ Tools []definition }
	if err := json.Unmarshal(result, &list); err != nil {
		t.Fatalf("%v: %.200s", err, result)
	}
	byName := map[string]definition{}
	for _, d := range list.Tools {
		byName[d.Name] = d
	}
	return byName
}

// valueOf returns a schema as far as clients of a make keep it: mcp-go has fields for five members.
func valueOf(t *testing.T, schema json.RawMessage, name string) (value any) {
	t.Helper()
	if schema == nil {
		return nil
	}
	if err := json.Unmarshal(schema, &value); err != nil {
		t.Fatalf("%v: %s", err, schema)
	}
	if name == "mcp-go" {
		whole := value.(map[string]any)
		kept := map[string]any{"properties": map[string]any{}, "required": []any{}}
		for _, member := range []string{"$defs", "type", "properties", "required",
			"additionalProperties"} {
			if v, ok := whole[member]; ok {
				kept[member] = v
			}
		}
		return kept
	}
	return value
}

// sampleOf returns a value that the schema accepts. It has all required members.
func sampleOf(t *testing.T, schema json.RawMessage) any {
	t.Helper()
	root := valueOf(t, schema, "")
	sample := sampleIn(root, root)
	if sample == nil {
		t.Fatalf("no sample for %s", schema)
	}
	return sample
}

func sampleIn(root, schema any) any {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		at := root
		for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[step]
		}
		return sampleIn(root, at)
	}
	for _, several := range []string{"enum", "anyOf", "oneOf", "allOf"} {
		if list, ok := s[several].([]any); ok {
			if several == "enum" {
				return list[0]
			}
			return sampleIn(root, list[0])
		}
	}
	if value, ok := s["const"]; ok {
		return value
	}
	kind, _ := s["type"].(string)
	if kinds, ok := s["type"].([]any); ok {
		kind = kinds[0].(string)
	}
	switch kind {
	case "object", "":
		object := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		for _, name := range required {
			object[name.(string)] = sampleIn(root, properties[name.(string)])
		}
		return object
	case "array":
		least, _ := s["minItems"].(float64)
		return slices.Repeat([]any{sampleIn(root, s["items"])}, int(least))
	case "number", "integer":
		least, _ := s["minimum"].(float64)
		above, _ := s["exclusiveMinimum"].(float64)
		return max(least, above+1)
	case "boolean":
		return true
	case "null":
		return nil
	}
	pattern, _ := s["pattern"].(string)
	for _, text := range []string{"x", "https://example.com/", "ada@example.com", "2026-11-29",
		"2026-11-29T12:00:00Z", "00000000-0000-0000-0000-000000000000"} {
		format, _ := s["format"].(string)
		fits := map[string]string{"uri": "//", "email": "@", "date": `^[\d-]+$`, "date-time": "T",
			"uuid": "0000-"}[format]
		least, _ := s["minLength"].(float64)
		for len(text) < int(least) {
			text += text
		}
		if regexp.MustCompile(fits).MatchString(text) &&
			regexp.MustCompile(pattern).MatchString(text) {
			return text
		}
	}
	return nil
}
