package protocol_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

func TestMalformedParams(t *testing.T) {
	const (
		tool, prompt, resource = protocol.MethodCallTool, protocol.MethodGetPrompt,
			protocol.MethodReadResource
		complete, listen, list = protocol.MethodComplete, protocol.MethodListen,
			protocol.MethodListTools
		discover = protocol.MethodDiscover
		meta     = `"io.modelcontextprotocol/`
	)
	for _, test := range []struct{ method, raw string }{
		{tool, ``}, {tool, `{}`}, {tool, `{"name":""}`}, {tool, `{"name":null}`},
		{tool, `{"Name":"t"}`}, {tool, `{"name":["t"]}`},
		{tool, `{"name":"t","arguments":[]}`},
		{tool, `{"name":"t","arguments":"{}"}`},
		{tool, `{"name":"t","inputResponses":[]}`},
		{tool, `{"name":"t","inputResponses":null}`},
		{tool, `{"name":"t","inputResponses":"x"}`},
		{tool, `{"name":"t","inputResponses":5}`},
		{tool, `{"name":"t","requestState":5}`},
		{tool, `{"name":"t","requestState":null}`},
		{tool, `{"name":"t","requestState":{}}`},
		{tool, `{"name":"t","requestState":["s"]}`},
		{tool, `{"name":"t","_meta":[]}`},
		{prompt, `{}`}, {prompt, `{"name":"p","arguments":[]}`},
		{prompt, `{"name":"p","arguments":{"a":1}}`},
		{prompt, `{"name":"p","inputResponses":[]}`},
		{prompt, `{"name":"p","requestState":5}`},
		{resource, `{}`}, {resource, `{"uri":5}`}, {resource, `{"uri":""}`},
		{resource, `{"URI":"a"}`},
		{resource, `{"uri":"a","inputResponses":null}`},
		{resource, `{"uri":"a","requestState":true}`},
		{list, `{"cursor":5}`},
		{listen, `{"notifications":[]}`}, {listen, `{"notifications":{"toolsListChanged":"yes"}}`},
		{complete, `{}`},
		{complete, `{"ref":null,"argument":{"name":"a","value":""}}`},
		{complete, `{"ref":{},"argument":{"name":"a","value":""}}`},
		{complete, `{"ref":{"type":"ref/prompt"},"argument":{"name":"a","value":""}}`},
		{complete, `{"ref":{"type":"ref/prompt","uri":"u"},"argument":{"name":"a","value":""}}`},
		{complete, `{"ref":{"type":"ref/tool","name":"n"},"argument":{"name":"a","value":""}}`},
		{complete, `{"ref":{"type":"ref/prompt","name":"p"}}`},
		{complete, `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"value":"v"}}`},
		{complete, `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":5}}`},
		{complete, `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"context":[]}`},
		{complete, `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"context":{"arguments":{"b":1}}}`},
		{discover, `[]`}, {discover, `null`},
		{discover, `{"_meta":{` + meta + `protocolVersion":5}}`},
		{discover, `{"_meta":{` + meta + `protocolVersion":null}}`},
		{discover, `{"_meta":{` + meta + `protocolVersion":""}}`},
		{discover, `{"_meta":{` + meta + `clientInfo":"c"}}`},
		{discover, `{"_meta":{` + meta + `clientInfo":{"name":5}}}`},
		{discover, `{"_meta":{` + meta + `clientCapabilities":null}}`},
		{discover, `{"_meta":{` + meta + `clientCapabilities":{"elicitation":true}}}`},
		{discover, `{"_meta":{` + meta + `logLevel":"loud"}}`},
		{discover, `{"_meta":{` + meta + `logLevel":3}}`},
		{discover, `{"_meta":{"progressToken":1.5}}`},
		{discover, `{"_meta":{"progressToken":{}}}`},
	} {
		t.Run(test.method+test.raw, func(t *testing.T) {
			var raw json.RawMessage
			if test.raw != "" {
				raw = json.RawMessage(test.raw)
			}
			p, err := protocol.DecodeParams(test.method, raw)
			wantCode(t, err, protocol.CodeInvalidParams)
			if p == nil || p.RequestMetadata() == nil {
				t.Error("no parameters beside the error")
			}
		})
	}
}

func TestParamsOfUnknownMethods(t *testing.T) {
	for _, method := range []string{"", "tools/Call", "Tools/call", "sampling/createMessage",
		"notifications/cancelled"} {
		p, err := protocol.DecodeParams(method, json.RawMessage(`{}`))
		wantCode(t, err, protocol.CodeMethodNotFound)
		if p != nil {
			t.Errorf("%q: has parameters", method)
		}
	}
}

func TestParamsMatchExactNames(t *testing.T) {
	p, err := protocol.DecodeParams(protocol.MethodCallTool, json.RawMessage(
		`{"name":"t","Name":"u","RequestState":"forged","InputResponses":{"a":{}},"Arguments":{"x":1},"_Meta":5}`))
	noError(t, err)
	call := p.(*protocol.CallToolParams)
	if _, present := call.RequestState.Text(); call.Name != "t" || present ||
		call.InputResponses != nil || call.Arguments != nil {
		t.Errorf("got %+v", call)
	}
}

// The _meta of refused parameters still decides the revision of the refusal.
func TestMetaSurvivesBadParams(t *testing.T) {
	p, err := protocol.DecodeParams(protocol.MethodCallTool, json.RawMessage(
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":7},"name":5}`))
	wantCode(t, err, protocol.CodeInvalidParams)
	if meta := p.RequestMetadata(); meta.Version != protocol.Latest ||
		meta.ProgressToken != protocol.IntID(7) {
		t.Errorf("got %+v", meta)
	}
}

func TestParamsRoundTrip(t *testing.T) {
	for method, list := range requests() {
		for i, p := range list {
			t.Run(fmt.Sprintf("%s/%d", method, i), func(t *testing.T) {
				want, err := protocol.EncodeParams(p)
				noError(t, err)
				again, err := protocol.DecodeParams(method, want)
				noError(t, err)
				got, err := protocol.EncodeParams(again)
				if err != nil || string(got) != string(want) {
					t.Errorf("got  %s, %v\nwant %s", got, err, want)
				}
			})
		}
	}
}

func TestEncodeParamsRefuses(t *testing.T) {
	answer := func(key, raw string) protocol.KeyedResponse {
		return protocol.KeyedResponse{Key: key, Result: json.RawMessage(raw)}
	}
	retry := func(list ...protocol.KeyedResponse) protocol.Params {
		return &protocol.CallToolParams{Name: "t", Retry: protocol.Retry{InputResponses: list}}
	}
	for name, p := range map[string]protocol.Params{
		"arguments that are no object": &protocol.CallToolParams{Name: "t",
			Arguments: json.RawMessage(`[]`)},
		"arguments cut short": &protocol.CallToolParams{Name: "t",
			Arguments: json.RawMessage(`{"a"`)},
		"answer that is no JSON":  retry(answer("a", `{`)),
		"answer without a result": retry(answer("a", ``)),
		"two answers at one key":  retry(answer("a", `{}`), answer("a", `{}`)),
		"key that is not UTF-8":   retry(answer("\xff", `{}`)),
		"state that is not UTF-8": &protocol.ReadResourceParams{URI: "u",
			Retry: protocol.Retry{RequestState: protocol.StateText("\xff")}},
		"meta that is no object": &protocol.RequestMeta{Extra: protocol.Meta(`[]`)},
		"meta with duplicates":   &protocol.RequestMeta{Extra: protocol.Meta(`{"a":1,"a":2}`)},
	} {
		if raw, err := protocol.EncodeParams(p); err == nil {
			t.Errorf("%s: encoded as %s", name, raw)
		}
	}
}

// Fields of a request's _meta replace extra keys, even received keys.
func TestFieldsReplaceExtraMeta(t *testing.T) {
	p, err := protocol.DecodeParams(protocol.MethodDiscover, json.RawMessage(
		`{"_meta":{"a":"\u00e9","io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1,"b":[1.0, 2]}}`))
	noError(t, err)
	meta := p.RequestMetadata()
	meta.Version, meta.ProgressToken = "2031-01-01", protocol.ID{}
	got, err := protocol.EncodeParams(p)
	if want := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01","a":"\u00e9","b":[1.0,2]}}`; err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}
