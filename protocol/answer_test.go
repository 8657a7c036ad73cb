package protocol_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

func TestDecodeElicitResult(t *testing.T) {
	for _, test := range []struct {
		raw     string
		action  protocol.ElicitAction // empty for an error
		content string
	}{
		{`{"action":"accept","content":{"a":1.0}}`, "accept", `{"a":1.0}`},
		{`{"action":"accept"}`, "accept", ``},
		{`{"action":"accept","content":{}}`, "accept", `{}`},
		{`{"action":"decline"}`, "decline", ``},
		{`{"action":"cancel"}`, "cancel", ``},
		{`{"action":"decline","content":{"a":1}}`, "decline", ``},
		{`{"action":"cancel","content":5}`, "cancel", ``},
		{`{"action":"accept","content":{"a":1},"roots":[],"role":"user"}`, "accept", `{"a":1}`},
		// Exact member names: a gateway sees the first action too.
		{`{"action":"decline","Action":"accept"}`, "decline", ``},
		{`{"Action":"accept","action":"decline"}`, "decline", ``},
		{`{"action":"accept","Content":{"a":1}}`, "accept", ``},
		{`{"ACTION":"accept"}`, "", ``},
		{`{"Action":"accept","content":{}}`, "", ``},
		{`{"action":"decline","\u0061ction":"accept"}`, "", ``},
		{`{"action":"bogus"}`, "", ``},
		{`{"action":"accept","content":null}`, "accept", ``}, // like absent content
		{`{"action":"decline","content":null,"_meta":null}`, "decline", ``},
		{`{"action":"cancel","content":null}`, "cancel", ``},
		{`{"action":"accept","content":[]}`, "", ``},
		{`{"action":"accept","content":"{}"}`, "", ``},
		{`{"action":"accept","_meta":[]}`, "", ``},
		{`{"method":"elicitation/create","result":{"action":"accept","content":{}}}`, "", ``},
		{`{}`, "", ``}, {`"accept"`, "", ``}, {``, "", ``},
		{`{"action":"accept"`, "", ``},
		{`{"action":"accept"}{"action":"decline"}`, "", ``},
	} {
		t.Run(test.raw, func(t *testing.T) {
			r, err := protocol.DecodeElicitResult([]byte(test.raw))
			if test.action == "" {
				if err == nil || r != nil {
					t.Errorf("got %+v, %v; want an error", r, err)
				}
				return
			}
			noError(t, err)
			if r.Action != test.action || string(r.Content) != test.content ||
				(r.Content == nil) != (test.content == "") {
				t.Errorf("got %s with content %s, want %s with %s", r.Action, r.Content,
					test.action, test.content)
			}
		})
	}
}

// Declined input stays with the client.
func TestEncodeElicitResult(t *testing.T) {
	content := json.RawMessage(`{"a":1}`)
	for _, test := range []struct {
		name   string
		result protocol.ElicitResult
		want   string // empty for an error
	}{
		{"accepted", protocol.ElicitResult{Action: protocol.ActionAccept, Content: content},
			`{"action":"accept","content":{"a":1}}`},
		{"declined", protocol.ElicitResult{Action: protocol.ActionDecline, Content: content},
			`{"action":"decline"}`},
		{"cancelled", protocol.ElicitResult{Action: protocol.ActionCancel, Content: content},
			`{"action":"cancel"}`},
		{"content that is an array", protocol.ElicitResult{Action: protocol.ActionAccept,
			Content: json.RawMessage(`[]`)}, ``},
		{"content that is cut off", protocol.ElicitResult{Action: protocol.ActionAccept,
			Content: json.RawMessage(`{"a":`)}, ``},
		{"no action", protocol.ElicitResult{Content: content}, ``},
		{"unknown action", protocol.ElicitResult{Action: "ok"}, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.result.MarshalJSON()
			if (test.want == "") != (err != nil) || (err == nil && string(got) != test.want) {
				t.Errorf("%+v: got %s, %v; want %s", test.result, got, err, test.want)
			}
		})
	}
}

func checkCounts[R any](t *testing.T, answers map[string]int, decode func([]byte) (*R, error),
	count func(*R) int) {
	for raw, want := range answers {
		t.Run(raw, func(t *testing.T) {
			r, err := decode([]byte(raw))
			switch {
			case want < 0 && (err == nil || r != nil):
				t.Errorf("%s: got %+v, %v; want an error", raw, r, err)
			case want >= 0 && err != nil:
				t.Errorf("%s: %v", raw, err)
			case want >= 0 && count(r) != want:
				t.Errorf("%s: counts %d, want %d", raw, count(r), want)
			}
		})
	}
}

func TestDecodeCreateMessageResult(t *testing.T) {
	const text = `{"type":"text","text":"t"}`
	checkCounts(t, map[string]int{
		`{"role":"assistant","content":` + text + `,"model":"m"}`:                1,
		`{"role":"assistant","content":[` + text + `,` + text + `],"model":"m"}`: 2,
		`{"role":"user","content":[],"model":"m","stopReason":"endTurn"}`:        0,
		`{"role":"assistant","content":{"type":"new"},"model":"m"}`:              1,
		`{"role":"assistant","content":` + text + `}`:                            -1,
		`{"role":"assistant","content":` + text + `,"model":""}`:                 -1,
		`{"role":"assistant","content":` + text + `,"model":null}`:               -1,
		`{"role":"assistant","model":"m"}`:                                       -1,
		`{"role":"assistant","content":null,"model":"m"}`:                        -1,
		`{"role":"assistant","content":"t","model":"m"}`:                         -1,
		`{"role":"assistant","content":[null],"model":"m"}`:                      -1,
		`{"role":"assistant","content":[[` + text + `]],"model":"m"}`:            -1,
		`{"role":"assistant","content":{},"model":"m"}`:                          -1,
		`{"role":"assistant","content":{"type":"tool_use"},"model":"m"}`:         -1,
		`{"role":"system","content":` + text + `,"model":"m"}`:                   -1,
		`{"role":null,"content":` + text + `,"model":"m"}`:                       -1,
		`{"Role":"user","content":` + text + `,"model":"m"}`:                     -1,
		`{"content":` + text + `,"model":"m"}`:                                   -1,
		`{"role":"user","role":"assistant","content":` + text + `,"model":"m"}`:  -1,
		`{"role":"user","content":` + text + `,"model":"m","stopReason":5}`:      -1,
		`{"role":"user","content":` + text + `,"model":"m","_meta":1}`:           -1,
		`{"action":"accept"}`: -1, `{}`: -1, `[]`: -1, `null`: -1, ``: -1, `"m"`: -1,
	}, protocol.DecodeCreateMessageResult, func(r *protocol.CreateMessageResult) int { return len(r.Content) })

	if got, err := (protocol.CreateMessageResult{Model: "m"}).MarshalJSON(); err == nil {
		t.Errorf("encoded without a role: %s", got)
	}
}

func TestDecodeListRootsResult(t *testing.T) {
	checkCounts(t, map[string]int{
		`{"roots":[]}`: 0,
		`{"roots":[{"uri":"file:///a"},{"uri":"b"}]}`:       2,
		`{"roots":[{"uri":"a","name":"n","x":1}],"a":null}`: 1,
		`{"roots":[{"uri":""}]}`:                            -1,
		`{"roots":[{"URI":"a"}]}`:                           -1,
		`{"roots":[{}]}`:                                    -1,
		`{"roots":[null]}`:                                  -1,
		`{"roots":["a"]}`:                                   -1,
		`{"roots":[{"uri":5}]}`:                             -1,
		`{"roots":[{"uri":"a","name":5}]}`:                  -1,
		`{"roots":[{"uri":"a","_meta":null}]}`:              1,
		`{"roots":[{"uri":"a","uri":"b"}]}`:                 -1,
		`{"roots":null}`:                                    -1,
		`{"roots":{}}`:                                      -1,
		`{"roots":"a"}`:                                     -1,
		`{"Roots":[]}`:                                      -1,
		`{"roots":[],"_meta":5}`:                            -1,
		`{"action":"accept","content":{"roots":[]}}`:        -1,
		`{}`: -1, `[]`: -1, `null`: -1, ``: -1,
	}, protocol.DecodeListRootsResult, func(r *protocol.ListRootsResult) int { return len(r.Roots) })

}

// The question decides the kind of its answer.
func TestAnswersAreNotProbed(t *testing.T) {
	raw := []byte(`{"action":"accept","content":{"type":"text","text":"t"},"roots":[{"uri":"a"}],"role":"user","model":"m"}`)
	if r, err := protocol.DecodeElicitResult(raw); err != nil || r.Action != protocol.ActionAccept {
		t.Errorf("as an elicitation: %+v, %v", r, err)
	}
	if r, err := protocol.DecodeListRootsResult(raw); err != nil || len(r.Roots) != 1 {
		t.Errorf("as roots: %+v, %v", r, err)
	}
	if r, err := protocol.DecodeCreateMessageResult(raw); err != nil || r.Model != "m" {
		t.Errorf("as sampling: %+v, %v", r, err)
	}
}

func TestAnswersRoundTrip(t *testing.T) {
	for name, list := range answers() {
		for _, answer := range list {
			raw, err := answer.MarshalJSON()
			noError(t, err)
			again, err := decodeAnswer(name, raw)
			if err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			got, err := again.MarshalJSON()
			if err != nil || string(got) != string(raw) {
				t.Errorf("got  %s, %v\nwant %s", got, err, raw)
			}
		}
	}
}

func decodeAnswer(definition string, raw []byte) (json.Marshaler, error) {
	switch definition {
	case "ElicitResult":
		return protocol.DecodeElicitResult(raw)
	case "CreateMessageResult":
		return protocol.DecodeCreateMessageResult(raw)
	default:
		return protocol.DecodeListRootsResult(raw)
	}
}

func TestResponsesGet(t *testing.T) {
	p, err := protocol.DecodeParams(protocol.MethodCallTool, json.RawMessage(`{"name":"t","inputResponses":{"b":null,"a":{"x":1.0},"":5}}`))
	noError(t, err)
	responses := p.(*protocol.CallToolParams).InputResponses
	want := protocol.InputResponses{{"b", json.RawMessage("null")},
		{"a", json.RawMessage(`{"x":1.0}`)}, {"", json.RawMessage("5")}}
	if !reflect.DeepEqual(responses, want) {
		t.Errorf("got %q, want %q", responses, want)
	}
	if got := responses.Get("a"); string(got) != `{"x":1.0}` {
		t.Errorf("Get(a) = %s", got)
	}
	if got := responses.Get("A"); got != nil {
		t.Errorf("Get(A) = %s", got)
	}
}
