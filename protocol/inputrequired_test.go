package protocol_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
)

type forgedQuestion struct{ *protocol.ElicitForm }

func TestInputRequiredRefusals(t *testing.T) {
	roots := &protocol.ListRoots{}
	schema := json.RawMessage(`{"type":"object","properties":{}}`)
	ask := func(questions ...protocol.KeyedRequest) *protocol.InputRequiredResult {
		return &protocol.InputRequiredResult{InputRequests: questions}
	}
	many := make(protocol.InputRequests, 40)
	for i := range many {
		many[i] = protocol.KeyedRequest{Key: fmt.Sprint(i % 39), Request: roots}
	}
	for _, test := range []struct {
		name   string
		result *protocol.InputRequiredResult
		word   string
	}{
		{"neither field", ask(), "at least one"},
		{"empty list of questions",
			&protocol.InputRequiredResult{InputRequests: protocol.InputRequests{}}, "at least one"},
		{"duplicate key", ask(protocol.KeyedRequest{"a", roots}, protocol.KeyedRequest{"b", roots},
			protocol.KeyedRequest{"a", roots}), "twice"},
		{"duplicate among many", &protocol.InputRequiredResult{InputRequests: many}, "twice"},
		{"empty key", ask(protocol.KeyedRequest{"", roots}), "empty key"},
		// Both invalid bytes would be encoded as U+FFFD, so the keys would be equal.
		{"key that is not UTF-8", ask(protocol.KeyedRequest{"a\xff", roots},
			protocol.KeyedRequest{"a\xfe", roots}), "UTF-8"},
		{"state that is not UTF-8",
			&protocol.InputRequiredResult{RequestState: protocol.StateText("\xff")}, "UTF-8"},
		{"nil question", ask(protocol.KeyedRequest{"a", nil}), "nil"},
		{"typed nil form", ask(protocol.KeyedRequest{"a", (*protocol.ElicitForm)(nil)}), "nil"},
		{"typed nil URL", ask(protocol.KeyedRequest{"a", (*protocol.ElicitURL)(nil)}), "nil"},
		{"typed nil sampling", ask(protocol.KeyedRequest{"a", (*protocol.CreateMessage)(nil)}),
			"nil"},
		{"typed nil roots", ask(protocol.KeyedRequest{"a", (*protocol.ListRoots)(nil)}), "nil"},
		{"forged question", ask(protocol.KeyedRequest{"a",
			forgedQuestion{&protocol.ElicitForm{Schema: schema}}}), "unknown type"},
		{"form without a schema", ask(protocol.KeyedRequest{"a",
			&protocol.ElicitForm{Message: "m"}}), "requestedSchema"},
		{"form whose schema is no object",
			ask(protocol.KeyedRequest{"a", &protocol.ElicitForm{Schema: json.RawMessage(`true`)}}),
			"requestedSchema"},
		{"form whose schema is cut short",
			ask(protocol.KeyedRequest{"a", &protocol.ElicitForm{Schema: json.RawMessage(`{"a":`)}}),
			"requestedSchema"},
		{"URL without a URL", ask(protocol.KeyedRequest{"a", &protocol.ElicitURL{Message: "m"}}),
			"url"},
		{"sampling without a role", ask(protocol.KeyedRequest{"a",
			&protocol.CreateMessage{Messages: []protocol.SamplingMessage{{}}}}), "role"},
		{"sampling with an unknown role",
			ask(protocol.KeyedRequest{"a",
				&protocol.CreateMessage{Messages: []protocol.SamplingMessage{{Role: "system"}}}}),
			"role"},
		{"sampling with a nil block", ask(protocol.KeyedRequest{"a", &protocol.CreateMessage{
			Messages: []protocol.SamplingMessage{{Role: protocol.User,
				Content: []protocol.Content{nil}}},
		}}), "content"},
		{"sampling tool without a schema",
			ask(protocol.KeyedRequest{"a",
				&protocol.CreateMessage{Tools: []protocol.Tool{{Name: "t"}}}}), "inputSchema"},
		{"sampling metadata that is no object",
			ask(protocol.KeyedRequest{"a",
				&protocol.CreateMessage{Metadata: json.RawMessage(`[]`)}}), "metadata"},
		{"meta that is no object",
			&protocol.InputRequiredResult{RequestState: protocol.StateText("s"),
				Meta: protocol.Meta(`1`)}, "_meta"},
	} {
		t.Run(test.name, func(t *testing.T) {
			data, err := protocol.EncodeResult(protocol.Latest, protocol.MethodCallTool,
				test.result)
			refused(t, err, test.word)
			if err == nil {
				t.Logf("encoded as %s", data)
			}
		})
	}
}

// The result has only the four members, none of them null.
func TestInputRequiredMembers(t *testing.T) {
	allowed := map[string]bool{"resultType": true, "inputRequests": true, "requestState": true,
		"_meta": true}
	for _, s := range samples() {
		if s.definition != "InputRequiredResult" {
			continue
		}
		data := encoded(t, protocol.Latest, s.method, s.result)
		for name, v := range value(t, []byte(data)).(map[string]any) {
			if !allowed[name] || v == nil {
				t.Errorf("%s: member %s is %v", s.name, name, v)
			}
		}
	}
}

func TestAttachmentIsNotEncoded(t *testing.T) {
	r := &protocol.InputRequiredResult{RequestState: protocol.StateText("s")}
	rpc.Attach(r, "secret plan")
	if rpc.Attached(r) != "secret plan" {
		t.Fatal("nothing is attached")
	}
	if data := encoded(t, protocol.Latest, protocol.MethodGetPrompt, r); strings.Contains(data,
		"secret") {
		t.Errorf("encoded as %s", data)
	}
}

func TestRequestStatePresence(t *testing.T) {
	const roots = `"inputRequests":{"r":{"method":"roots/list","params":{}}}`
	for _, test := range []struct {
		name, raw string
		text      string
		present   bool
	}{
		{"none", `{"resultType":"input_required",` + roots + `}`, "", false},
		{"empty beside questions",
			`{"resultType":"input_required",` + roots + `,"requestState":""}`, "", true},
		{"empty", `{"resultType":"input_required","requestState":""}`, "", true},
		{"text", `{"resultType":"input_required","requestState":"a\u0000\"\ud83d\ude00"}`, "a\x00\"\U0001f600", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := result(t, protocol.Latest, protocol.MethodCallTool, test.raw)
			text, present := r.(*protocol.InputRequiredResult).RequestState.Text()
			if text != test.text || present != test.present {
				t.Errorf("%s: got %q, %v", test.raw, text, present)
			}
			sameJSON(t, []byte(encoded(t, protocol.Latest, protocol.MethodCallTool, r)),
				[]byte(test.raw))
		})
	}
	for raw, want := range map[string]protocol.RequestState{
		`{"name":"t"}`:                     {},
		`{"name":"t","requestState":""}`:   protocol.StateText(""),
		`{"name":"t","requestState":" x"}`: protocol.StateText(" x"),
	} {
		p, err := protocol.DecodeParams(protocol.MethodCallTool, json.RawMessage(raw))
		noError(t, err)
		if got := p.(*protocol.CallToolParams).RequestState; got != want {
			t.Errorf("%s: got %v, want %v", raw, got, want)
		}
		again, err := protocol.EncodeParams(p)
		noError(t, err)
		sameJSON(t, again, []byte(raw))
	}
}

func TestMalformedInputRequired(t *testing.T) {
	const form = `{"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}`
	for _, raw := range []string{
		`{}`,
		`{"inputRequests":{}}`,
		`{"inputRequests":null}`,
		`{"inputRequests":null,"requestState":"s"}`,
		`{"inputRequests":[]}`,
		`{"inputRequests":[` + form + `]}`,
		`{"inputRequests":"x"}`,
		`{"inputRequests":{"a":null}}`,
		`{"inputRequests":{"a":[]}}`,
		`{"inputRequests":{"a":"roots/list"}}`,
		`{"inputRequests":{"a":{}}}`,
		`{"inputRequests":{"a":{"method":null}}}`,
		`{"inputRequests":{"a":{"method":5}}}`,
		`{"inputRequests":{"a":{"Method":"roots/list"}}}`,
		`{"inputRequests":{"a":{"method":"tools/call","params":{"name":"x"}}}}`,
		`{"inputRequests":{"a":{"method":"Roots/list"}}}`,
		`{"inputRequests":{"a":null}}`,
		`{"inputRequests":{"a":{"method":"roots/list","params":[]}}}`,
		`{"inputRequests":{"":{"method":"roots/list"}}}`,
		`{"inputRequests":{"a":` + form + `,"a":` + form + `}}`,
		`{"inputRequests":{"a":` + form + `,"\u0061":` + form + `}}`,
		`{"inputRequests":{"a":{"method":"elicitation/create"}}}`,
		`{"inputRequests":{"a":{"method":"elicitation/create","params":{}}}}`,
		`{"inputRequests":{"a":{"method":"elicitation/create","params":{"message":"m"}}}}`,
		`{"inputRequests":{"a":{"method":"elicitation/create","params":{"requestedSchema":{}}}}}`,
		`{"inputRequests":{"a":{"method":"elicitation/create","params":{"message":"m","requestedSchema":null}}}}`,
		`{"inputRequests":{"a":{"method":"elicitation/create","params":{"message":null,"requestedSchema":{}}}}}`,
		`{"inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"voice","message":"m","requestedSchema":{}}}}}`,
		`{"inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","message":"m"}}}}`,
		`{"inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":5}}}}`,
		`{"inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"URL","message":"m","url":"https://a"}}}}`,
		`{"inputRequests":{"a":{"method":"sampling/createMessage"}}}`,
		`{"inputRequests":{"a":{"method":"sampling/createMessage","params":{}}}}`,
		`{"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[]}}}}`,
		`{"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":null,"maxTokens":1}}}}`,
		`{"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[null],"maxTokens":1}}}}`,
		`{"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[{"role":"user"}],"maxTokens":1}}}}`,
		`{"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":null}],"maxTokens":1}}}}`,
		`{"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[{"role":"system","content":[]}],"maxTokens":1}}}}`,
		`{"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":"1"}}}}`,
		`{"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1.5}}}}`,
		`{"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[null]}}}}`,
		`{"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"toolChoice":"auto"}}}}`,
		`{"requestState":null}`,
		`{"requestState":5}`,
		`{"requestState":{}}`,
		`{"RequestState":"s"}`,
		`{"requestState":"s","_meta":[]}`,
		`{"inputRequests":{"a":{"method":"roots/list"}},"requestState":7}`,
	} {
		t.Run(raw, func(t *testing.T) {
			whole := `{"resultType":"input_required"` +
				strings.Replace(strings.Replace(raw, "{", ",", 1), ",}", "}", 1)
			if r, err := protocol.DecodeResult(protocol.Latest, protocol.MethodCallTool,
				[]byte(whole)); err == nil || r != nil {
				t.Errorf("%s decoded as %#v, error %v", whole, r, err)
			}
		})
	}
}

// The error for a bad question names its key, clipped.
func TestBadQuestionIsNamed(t *testing.T) {
	for _, key := range []string{"confirm", strings.Repeat("k", 1<<12)} {
		raw := `{"resultType":"input_required","inputRequests":{"fine":{"method":"roots/list"},"` + key + `":null}}`
		_, err := protocol.DecodeResult(protocol.Latest, protocol.MethodCallTool, []byte(raw))
		refused(t, err, key[:min(len(key), 64)])
		if err != nil && len(err.Error()) > 250 {
			t.Errorf("the error repeats %d bytes", len(err.Error()))
		}
	}
}

func TestQuestionsKeepTheirOrder(t *testing.T) {
	for _, s := range samples() {
		want, ok := s.result.(*protocol.InputRequiredResult)
		if !ok {
			continue
		}
		r := result(t, protocol.Latest, s.method, encoded(t, protocol.Latest, s.method, want))
		got := r.(*protocol.InputRequiredResult)
		if len(got.InputRequests) != len(want.InputRequests) {
			t.Fatalf("%d questions, want %d", len(got.InputRequests), len(want.InputRequests))
		}
		for i, q := range got.InputRequests {
			if w := want.InputRequests[i]; q.Key != w.Key ||
				reflect.TypeOf(q.Request) != reflect.TypeOf(w.Request) {
				t.Errorf("question %d is %q %T, want %q %T", i, q.Key, q.Request, w.Key, w.Request)
			}
		}
	}
}

func TestRootsWithoutParams(t *testing.T) {
	r := result(t, protocol.Latest, protocol.MethodReadResource, `{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}`)
	q := r.(*protocol.InputRequiredResult).InputRequests
	if len(q) != 1 || q[0].Request.Kind() != protocol.KindListRoots {
		t.Errorf("got %#v", q)
	}
}

func TestKindOfNilQuestions(t *testing.T) {
	for want, q := range map[protocol.InputKind]protocol.InputRequest{
		protocol.KindElicitForm:    (*protocol.ElicitForm)(nil),
		protocol.KindElicitURL:     (*protocol.ElicitURL)(nil),
		protocol.KindCreateMessage: (*protocol.CreateMessage)(nil),
		protocol.KindListRoots:     (*protocol.ListRoots)(nil),
	} {
		if got := q.Kind(); got != want || got.Method() == "" {
			t.Errorf("%T: kind %q, method %q", q, got, got.Method())
		}
	}
	if method := protocol.InputKind("x").Method(); method != "" {
		t.Errorf("an unknown kind has method %q", method)
	}
}

func TestQuestionSpellings(t *testing.T) {
	form := &protocol.ElicitForm{Message: "m", Schema: json.RawMessage(`{}`)}
	url := &protocol.ElicitURL{Message: "m", URL: "https://a"}
	named := &protocol.ElicitURL{Message: "m", URL: "https://a", ElicitationID: "e"}
	for _, test := range []struct {
		name    string
		version protocol.Version
		q       protocol.InputRequest
		want    string // of params; empty for an error
	}{
		{"form, 2026-07-28", protocol.V20260728, form, `{"mode":"form","message":"m","requestedSchema":{}}`},
		{"form, 2025-11-25", protocol.V20251125, form, `{"mode":"form","message":"m","requestedSchema":{}}`},
		{"form, 2025-06-18", protocol.V20250618, form, `{"message":"m","requestedSchema":{}}`},
		{"URL, 2026-07-28", protocol.V20260728, named, `{"mode":"url","message":"m","url":"https://a"}`},
		{"URL, 2025-11-25", protocol.V20251125, named, `{"mode":"url","message":"m","url":"https://a","elicitationId":"e"}`},
		// elicitationId is required in that revision
		{"URL without id, 2025-11-25", protocol.V20251125, url, ``},
		{"URL, 2025-06-18", protocol.V20250618, named, ``}, // would be mistaken for a form
		{"roots", protocol.V20260728, &protocol.ListRoots{}, `{}`},
		{"nil", protocol.V20260728, nil, ``},
		{"sampling", protocol.V20260728, &protocol.CreateMessage{MaxTokens: 1,
			Messages: []protocol.SamplingMessage{
				{Role: protocol.User,
					Content: []protocol.Content{&protocol.TextContent{Text: "a"}}},
				{Role: protocol.User, Content: []protocol.Content{&protocol.TextContent{Text: "a"},
					&protocol.TextContent{Text: "b"}}},
			}}, `{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"maxTokens":1}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := protocol.AppendInputRequest(nil, test.version, test.q)
			if test.want == "" {
				if err == nil {
					t.Errorf("%s %T: encoded as %s", test.version, test.q, got)
				}
				return
			}
			if want := `{"method":"` + test.q.Kind().Method() + `","params":` + test.want +
				`}`; err != nil || string(got) != want {
				t.Errorf("%s %T:\n got %s, %v\nwant %s", test.version, test.q, got, err, want)
			}
		})
	}
}

// Params of a question are the same alone and in a list.
func TestAppendInputParams(t *testing.T) {
	encoded := 0
	meta := protocol.Meta(`{"a":1}`)
	for _, q := range []protocol.InputRequest{
		&protocol.ElicitForm{Message: "m",
			Schema: json.RawMessage(`{"type":"object","properties":{}}`), Meta: meta},
		&protocol.ElicitURL{Message: "m", URL: "https://example.com/", ElicitationID: "e",
			Meta: meta},
		&protocol.CreateMessage{MaxTokens: 1, Messages: []protocol.SamplingMessage{}, Meta: meta},
		&protocol.ListRoots{},
		&protocol.ElicitForm{Message: "no schema"},
		(*protocol.ElicitForm)(nil),
	} {
		params, err := protocol.AppendInputParams([]byte("before"), protocol.V20251125, q)
		whole, wholeErr := protocol.AppendInputRequest([]byte("before"), protocol.V20251125, q)
		if err != nil || wholeErr != nil {
			if err == nil || wholeErr == nil || err.Error() != wholeErr.Error() {
				t.Errorf("%T: got error %v, want %v", q, err, wholeErr)
			}
			continue
		}
		encoded++
		want := `before{"method":"` + q.Kind().Method() + `","params":` +
			string(params[len("before"):]) + `}`
		if string(whole) != want {
			t.Errorf("%T: got %s, want %s", q, whole, want)
		}
	}
	if encoded != 4 {
		t.Errorf("encoded %d questions, want 4", encoded)
	}
}
