package elicitation_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// The upstream's members reach the client, but those about its connection do not.
func TestParamsForEachRevision(t *testing.T) {
	const sent = `{ "message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","x-hint":[1]}}},` +
		`"x-new":{"k":1e2},"task":{"ttl":5},"elicitationId":"e","mode":"form",` +
		`"_meta":{"progressToken":7,"example.com/k":1,"traceparent":"x","io.modelcontextprotocol/related-task":{"taskId":"t"}}}`
	for _, test := range []struct {
		version protocol.Version
		want    string
	}{
		{protocol.V20251125, `{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","x-hint":[1]}}},` +
			`"x-new":{"k":1e2},"mode":"form","_meta":{"example.com/k":1,"traceparent":"x","progressToken":ID}}`},
		{protocol.V20250618, `{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","x-hint":[1]}}},` +
			`"x-new":{"k":1e2},"_meta":{"example.com/k":1,"traceparent":"x","progressToken":ID}}`},
	} {
		t.Run(string(test.version), func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s := r.attach(elicitation.SessionInfo{ID: "s1", Version: test.version})
			sc := r.answers(s, `{"action":"accept","content":{"a":"x"}}`)
			sc.version = string(test.version)
			call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
			if _, err := call.Elicit(t.Context(), json.RawMessage(sent)); err != nil {
				t.Fatal(err)
			}
			q := sc.requests()[0]
			want := strings.ReplaceAll(test.want, "ID", q.ID.String())
			if string(q.Params) != want || q.Method != "elicitation/create" {
				t.Errorf("client got\n %s\nwant\n %s", q.Params, want)
			}
		})
	}
}

func TestQuestionsThatAreRefused(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 11) + "1" + strings.Repeat("}", 11)
	long := `{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("x", 100<<10) + `"}}}`
	for _, test := range []struct {
		name, params, reason string
	}{
		{"nothing", ``, "invalid_question"},
		{"null", `null`, "invalid_question"},
		{"array", `[]`, "invalid_question"},
		{"not JSON", `{"message":`, "invalid_question"},
		{"duplicate member", `{"message":"a","message":"b","requestedSchema":{}}`, "invalid_question"},
		{"no message", `{"requestedSchema":{}}`, "invalid_question"},
		{"no schema", `{"message":"m"}`, "invalid_question"},
		{"schema is no object", `{"message":"m","requestedSchema":[]}`, "invalid_question"},
		{"unknown mode", `{"mode":"voice","message":"m","requestedSchema":{}}`, "invalid_question"},
		{"wrong case", `{"Message":"m","requestedSchema":{}}`, "invalid_question"},
		{"token is no id", `{"message":"m","requestedSchema":{},"_meta":{"progressToken":1.5}}`, "invalid_question"},
		{"schema too deep", `{"message":"m","requestedSchema":` + deep + `}`, "too_large"},
		{"schema too large", `{"message":"m","requestedSchema":` + long + `}`, "too_large"},
		{"message too large",
			`{"message":"` + strings.Repeat("x", 200<<10) + `","requestedSchema":{}}`, "too_large"},
		{"url without URL", `{"mode":"url","message":"m","elicitationId":"e"}`, "invalid_question"},
		{"javascript", `{"mode":"url","message":"m","url":"javascript:alert(1)","elicitationId":"e"}`, "url_policy"},
		{"plain http", `{"mode":"url","message":"m","url":"http://id.example/","elicitationId":"e"}`, "url_policy"},
		{"user name", `{"mode":"url","message":"m","url":"https://bank.example@evil.example/","elicitationId":"e"}`, "url_policy"},
		{"no host", `{"mode":"url","message":"m","url":"https:///x","elicitationId":"e"}`, "url_policy"},
		{"malformed", `{"mode":"url","message":"m","url":"https://%zz/","elicitationId":"e"}`, "url_policy"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, elicitation.Options{}, "")
			_, err := s.ask(json.RawMessage(test.params))
			e, ok := errors.AsType[*elicitation.Error](err)
			if !ok || string(e.Reason) != test.reason || e.Wire.Code != -32602 ||
				!errors.Is(err, elicitation.ReasonInvalidQuestion) {
				t.Fatalf("error is %v (%+v), want reason %s with -32602", err, e, test.reason)
			}
			wantEqual(t, "frames sent", len(s.screen.frames), 0)
			s.wantEvents("rejected")
			s.settled()
		})
	}
}

// A client reads the member that was checked, even if it ignores case, as encoding/json does.
func TestMembersThatDifferInCase(t *testing.T) {
	const form = `"message":"m","requestedSchema":{"type":"object","properties":{}}`
	for _, test := range []struct {
		name, params string
		taken        bool
	}{
		{"mode and url", `{` + form + `,"Mode":"url","URL":"https://elsewhere.example/"}`, false},
		{"message", `{` + form + `,"MESSAGE":"another"}`, false},
		{"long s for s", `{` + form + `,"requestedſchema":{}}`, false},
		{"meta", `{` + form + `,"_Meta":{}}`, false},
		{"url of a URL", `{"mode":"url","message":"m","url":"https://id.example/","elicitationId":"1","Url":"https://elsewhere.example/"}`, false},
		{"url of a form", `{` + form + `,"url":"https://elsewhere.example/"}`, true},
		{"keys of meta", `{` + form + `,"mode":"form","elicitationId":"1","other":1,"_meta":{"ProgressToken":1,"IO.modelcontextprotocol/x":1}}`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSceneVia(t, elicitation.Options{}, byHand())
			if !test.taken {
				_, err := s.ask(json.RawMessage(test.params))
				wantIs(t, "error", err, elicitation.ReasonInvalidQuestion)
				s.settled()
				return
			}
			offered, _ := s.put(s.call, json.RawMessage(test.params))
			var read struct {
				Mode, Message, URL, ElicitationID string
				Other                             int
				Meta                              map[string]any `json:"_meta"`
			}
			noError(t, json.Unmarshal(offered.Request().Params, &read))
			if read.URL != "" || read.ElicitationID != "" || read.Mode == "url" ||
				read.Message != "m" || len(read.Meta) != 1 {
				t.Errorf("the client reads %+v", read)
			}
		})
	}
}

func TestFormsThatAskForSecrets(t *testing.T) {
	for _, test := range []struct {
		name, schema string
		up           elicitation.UpstreamKey
		version      protocol.Version
		word         string // in the refusal's message; "": admitted
	}{
		{"name", `{"type":"object","properties":{"password":{"type":"string"}}}`, "up", "", "password"},
		{"title", `{"type":"object","properties":{"x":{"type":"string","title":"API key"}}}`, "up", "",
			"api key"},
		{"of June", `{"type":"object","properties":{"pin":{"type":"integer"}}}`, "up",
			protocol.V20250618, "pin"},
		{"of a question that is no request",
			`{"type":"object","properties":{"pin":{"type":"integer"}}}`, "up", protocol.V20260728, "pin"},
		{"nested", `{"type":"object","properties":{"a":{"type":"object","properties":{
			"cvv":{"type":"string"}}}}}`, "up", "", "cvv"},
		{"yes or no", `{"type":"object","properties":{"resetPassword":{"type":"boolean"}}}`, "up", "", ""},
		{"allowed", `{"type":"object","properties":{"password":{"type":"string"}}}`, "vault", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{
				AllowSecrets: func(up elicitation.UpstreamKey) bool { return up == "vault" },
			})
			s := r.attach(elicitation.SessionInfo{ID: "s1", Version: test.version})
			call := r.begin(elicitation.Origin{Session: s}, byHand(), test.up)
			params := json.RawMessage(`{"message":"m","requestedSchema":` + test.schema + `}`)
			for range 2 { // the second time the form is cached
				_, err := offer(call, t.Context(), params, nil)
				if test.word == "" {
					if err != nil {
						t.Error(err)
					}
					continue
				}
				wire, _ := protocol.AsError(err)
				if !errors.Is(err, elicitation.ReasonSecret) || wire.Code != -32602 ||
					!strings.Contains(wire.Message, `looks like a secret ("`+test.word+`")`) {
					t.Errorf("error is %v", err)
				}
			}
			want := 0.0
			if test.word != "" {
				r.wantEvents("rejected rejected")
				want = 2
			}
			r.wantCounted("rejected_total{secret}", want)
		})
	}
}

// A question that is not a request has no progress token, but has the upstream's _meta.
func TestMetaOfModernQuestions(t *testing.T) {
	for meta, want := range map[string]string{
		``: ``, `,"_meta":{}`: ``, `,"_meta":{"progressToken":1}`: ``,
		`,"_meta":{"progressToken":1,"a.b/c":2}`: `{"a.b/c":2}`,
	} {
		t.Run(meta, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s := r.attach(elicitation.SessionInfo{ID: "s1", Version: protocol.V20260728})
			o, _ := r.put(r.begin(elicitation.Origin{Session: s}, byHand(), "up"), json.RawMessage(
				`{"message":"m","requestedSchema":`+schema+meta+`}`))
			var got struct {
				Meta json.RawMessage `json:"_meta"`
			}
			noError(t, json.Unmarshal(o.Request().Params, &got))
			wantEqual(t, "_meta", string(got.Meta), want)
		})
	}
}
