package gosdk_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// TestShadowDeclaresWhatTheSDKDecodes has what is converted, what is left to the SDK, and what
// the SDK cannot decode.
func TestShadowDeclaresWhatTheSDKDecodes(t *testing.T) {
	for _, text := range []string{
		`{}`, `null`, `[]`, `"all"`,
		`{"elicitation":{}}`, `{"elicitation":{"form":{}}}`, `{"elicitation":{"url":{}}}`,
		`{"elicitation":{"form":{"later":1},"url":{}}}`, `{"elicitation":{"form":null}}`,
		`{"elicitation":{"form":true}}`, `{"elicitation":{"voice":{}}}`, `{"elicitation":null}`,
		`{"elicitation":[]}`, `{"Elicitation":{}}`, `{"elicitation":{"Form":{}}}`,
		`{"sampling":{}}`, `{"sampling":{"context":{},"tools":{}}}`, `{"sampling":{"tools":7}}`,
		`{"sampling":{"later":{}}}`,
		`{"roots":{}}`, `{"roots":{"listChanged":true}}`, `{"roots":{"listChanged":"yes"}}`,
		`{"roots":{"later":true}}`, `{"later":{}}`, `{"later":1,"elicitation":{}}`,
		`{"elicitation":{"form":{}},"sampling":{},"roots":{"listChanged":false}}`,
		`{"extensions":{"example.com/ui":{"version":2}},"elicitation":{}}`,
		`{"experimental":{"a":[1]}}`,
	} {
		t.Run("capabilities "+text, func(t *testing.T) {
			compareDeclared(t, protocol.MetaClientCapabilities, text)
		})
	}
	for _, text := range []string{
		`{}`, `null`, `7`, `{"name":"c","version":"1"}`, `{"name":"c","version":null}`,
		`{"name":"c","title":"C","description":"d","version":"1","websiteUrl":"http://c/"}`,
		`{"name":"c","version":"1","icons":[{"src":"http://c/i","sizes":["48x48"]}]}`,
		`{"name":1,"version":"1"}`, `{"Name":"c"}`, `{"name":"c","later":"x"}`,
	} {
		t.Run("info "+text, func(t *testing.T) {
			compareDeclared(t, protocol.MetaClientInfo, text)
		})
	}
}

func compareDeclared(t *testing.T, name, text string) {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Meta: mcp.Meta{name: value}}}
	caps, info := gosdk.DeclaredClient(req)
	if want := req.ClientCapabilities(); !reflect.DeepEqual(caps, want) {
		t.Errorf("got capabilities %+v, want %+v", caps, want)
	}
	if want := req.ClientInfo(); !reflect.DeepEqual(info, want) {
		t.Errorf("got info %+v, want %+v", info, want)
	}
}
