package wiretest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

func load(t *testing.T, revision string) *wiretest.Schema {
	t.Helper()
	wiretest.Need(t)
	schema, ok := wiretest.Load(revision)
	if !ok {
		t.Fatalf("no schema of %s", revision)
	}
	return schema
}

func TestEveryPublishedExampleIsWhatItSays(t *testing.T) {
	schema := load(t, "2026-07-28")
	examples, ok := wiretest.Examples("2026-07-28")
	if !ok || len(examples) < 100 || examples[0].Name == "" {
		t.Fatalf("found %d examples, want the whole published set", len(examples))
	}
	for _, example := range examples {
		t.Run(example.Type+"/"+example.Name, func(t *testing.T) {
			if err := schema.Definition(example.Type, example.JSON); err != nil {
				t.Error(err)
			}
		})
	}
}

const (
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`
	formAsk    = `{"method":"elicitation/create","params":{"mode":"form","message":"Which region?","requestedSchema":{"type":"object","properties":{"region":{"type":"string"}}}}}`
)

func result(body string) string { return `{"jsonrpc":"2.0","id":1,"result":` + body + `}` }

func failure(body string) string { return `{"jsonrpc":"2.0","id":1,"error":` + body + `}` }

// A messageTest is one case. want is part of the refusal; it is empty if the message conforms.
type messageTest struct {
	name, revision string
	from           wiretest.From
	answers        string
	raw            string
	want           string
}

var messages = []messageTest{
	{"call", "2026-07-28", wiretest.Client, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + modernMeta + `,"name":"deploy"}}`, ""},
	{"retry", "2026-07-28", wiretest.Client, "", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{` + modernMeta + `,"name":"deploy","requestState":"s","inputResponses":{"a":{"action":"accept","content":{"size":1.5}}}}}`, ""},
	{"missing _meta", "2026-07-28", wiretest.Client, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deploy"}}`, "_meta"},

	{"complete", "2026-07-28", wiretest.Server, "tools/call", result(`{"resultType":"complete","content":[]}`), ""},
	{"questions", "2026-07-28", wiretest.Server, "tools/call", result(`{"resultType":"input_required","inputRequests":{"a":` + formAsk + `}}`), ""},
	{"state alone", "2026-07-28", wiretest.Server, "prompts/get", result(`{"resultType":"input_required","requestState":""}`), ""},
	{"missing resultType", "2026-07-28", wiretest.Server, "tools/call", result(`{"content":[]}`),
		"resultType"},
	{"complete with questions", "2026-07-28", wiretest.Server, "tools/call", result(`{"resultType":"complete","content":[],"inputRequests":{"a":` + formAsk + `}}`), "no inputRequests"},
	{"questions with content", "2026-07-28", wiretest.Server, "tools/call", result(`{"resultType":"input_required","content":[],"requestState":"s"}`), "no content"},
	{"neither questions nor state", "2026-07-28", wiretest.Server, "tools/call",
		result(`{"resultType":"input_required"}`), "at least one"},
	{"question with an id", "2026-07-28", wiretest.Server, "tools/call", result(`{"resultType":"input_required","inputRequests":{"a":{"id":1,` + formAsk[1:] + `}}`), "no id"},
	{"question with elicitationId", "2026-07-28", wiretest.Server, "tools/call", result(`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://example.com/","elicitationId":"e"}}}}`), "elicitationId"},
	{"URL that is none", "2026-07-28", wiretest.Server, "tools/call", result(`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"not a url"}}}}`), "url"},
	{"input required from a list", "2026-07-28", wiretest.Server, "tools/list", result(`{"resultType":"input_required","requestState":"s"}`), "cannot be input_required"},
	{"list without cache hints", "2026-07-28", wiretest.Server, "tools/list",
		result(`{"resultType":"complete","tools":[]}`), "ttlMs"},
	{"result of nothing", "2026-07-28", wiretest.Server, "", result(`{"resultType":"complete"}`),
		"answers a request"},
	{"result and error", "2026-07-28", wiretest.Server, "tools/call", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]},"error":{"code":-32603,"message":"m"}}`, "exactly one"},
	{"stray member", "2026-07-28", wiretest.Server, "tools/call", `{"jsonrpc":"2.0","id":1,"session":"x","result":{"resultType":"complete","content":[]}}`, "session"},
	{"batch", "2026-07-28", wiretest.Server, "tools/call", `[` + result(`{"resultType":"complete","content":[]}`) + `]`, "no batches"},
	{"not JSON", "2026-07-28", wiretest.Server, "tools/call", `{"jsonrpc":`, "not JSON"},

	{"error", "2026-07-28", wiretest.Server, "tools/call", failure(`{"code":-32602,"message":"m","data":{"reason":"invalid_request_state"}}`), ""},
	{"error without id", "2026-07-28", wiretest.Server, "", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}`, ""},
	{"missing capability unnamed", "2026-07-28", wiretest.Server, "tools/call",
		failure(`{"code":-32021,"message":"m"}`), "data"},

	{"legacy complete", "2025-11-25", wiretest.Server, "tools/call", result(`{"content":[]}`), ""},
	{"legacy push", "2025-11-25", wiretest.Server, "", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`, ""},
	{"legacy answer", "2025-11-25", wiretest.Client, "elicitation/create",
		result(`{"action":"accept","content":{}}`), ""},
	{"legacy URL error", "2025-11-25", wiretest.Server, "tools/call", failure(`{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","message":"m","url":"https://example.com/","elicitationId":"e"}]}}`), ""},
	{"ping answered", "2024-11-05", wiretest.Client, "ping", result(`{}`), ""},
	{"batch while they existed", "2025-03-26", wiretest.Client, "", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]`, ""},
	{"empty batch", "2025-03-26", wiretest.Client, "", `[]`, "empty batch"},
	{"wrong member of a batch", "2025-03-26", wiretest.Client, "", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2}]`, "member 1"},
}

func TestMessage(t *testing.T) {
	wiretest.Need(t)
	for _, test := range slices.Concat(messages, leaks) {
		t.Run(test.revision+"/"+test.name, func(t *testing.T) {
			err := load(t, test.revision).Message(test.from, []byte(test.raw), test.answers)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && err == nil:
				t.Errorf("accepted, want a refusal that mentions %q", test.want)
			case test.want != "" && !strings.Contains(err.Error(), test.want):
				t.Errorf("refused with %v, want a mention of %q", err, test.want)
			}
		})
	}
}

// The variable leaks has mistakes that only closed lists of members and methods find.
var leaks = []messageTest{
	{"resultType", "2025-11-25", wiretest.Server, "tools/call", result(`{"resultType":"complete","content":[]}`), "no resultType"},
	{"inputRequests", "2025-11-25", wiretest.Server, "tools/call",
		result(`{"inputRequests":{},"content":[]}`), "no inputRequests"},
	{"structuredContent before it existed", "2025-03-26", wiretest.Server, "tools/call",
		result(`{"content":[],"structuredContent":{}}`), "no structuredContent"},
	{"answers in a session", "2025-06-18", wiretest.Client, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","inputResponses":{}}}`, "no inputResponses"},
	{"state of a list", "2026-07-28", wiretest.Client, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"requestState":"s"}}`, "no requestState"},
	{"capabilities in _meta", "2025-11-25", wiretest.Client, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}`, "in _meta"},
	{"push without sessions", "2026-07-28", wiretest.Server, "", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`, "no request"},
	{"discover in a session", "2025-11-25", wiretest.Client, "", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`, "no request"},
	{"request of the other direction", "2025-11-25", wiretest.Client, "", `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, "no request"},
	{"a request as a notification", "2025-11-25", wiretest.Client, "", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t"}}`, "no notification"},
	{"progress from a client without sessions", "2026-07-28", wiretest.Client, "", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`, "no notification"},
	{"URL mode before it existed", "2025-06-18", wiretest.Server, "", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}}`, "no mode"},
	{"another case", "2026-07-28", wiretest.Server, "tools/call", result(`{"resultType":"complete","content":[],"IsError":true}`), "no IsError"},
	{"an error with more", "2026-07-28", wiretest.Server, "tools/call", failure(`{"code":-32602,"message":"m","reason":"r"}`), "no reason"},
	{"an error with a session's code", "2026-07-28", wiretest.Server, "tools/call",
		failure(`{"code":-32042,"message":"m"}`), "-32042"},
	{"a result that is text", "2025-11-25", wiretest.Server, "tools/call", result(`"x"`),
		"an object"},
	{"a batch", "2025-06-18", wiretest.Client, "", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "no batches"},
	{"within a batch", "2025-03-26", wiretest.Client, "", `[{"jsonrpc":"2.0","id":1,"method":"server/discover"}]`, "member 0"},
}

// A fake is a test that records failures.
type fake struct {
	testing.TB
	failures []string
}

func (f *fake) Helper() {}
func (f *fake) Errorf(format string, a ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, a...))
}
func (f *fake) Error(a ...any)                 { f.Errorf("%s", fmt.Sprint(a...)) }
func (f *fake) Fatalf(format string, a ...any) { f.Errorf(format, a...) }
func (f *fake) Fatal(a ...any)                 { f.Errorf("%s", fmt.Sprint(a...)) }

func TestConformMatchesAnswersById(t *testing.T) {
	wiretest.Need(t)
	good := []wiretest.Message{
		message(wiretest.Client, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deploy"}}`),
		message(wiretest.Server, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`),
		message(wiretest.Client, result(`{"action":"decline"}`)),
		message(wiretest.Server, result(`{"content":[]}`)),
		{From: wiretest.Server, HTTP: "502 Bad Gateway",
			Header: []string{"Content-Type: text/plain"}, Body: []byte("gone")},
		{From: wiretest.Server, HTTP: "202 Accepted"},
	}
	f := &fake{}
	if wiretest.Conform(f, "2025-11-25", good); len(f.failures) != 0 {
		t.Errorf("a conversation that conforms was refused: %q", f.failures)
	}
	for name, corrupt := range map[string]func([]wiretest.Message){
		"an answer to a string id":        func(m []wiretest.Message) { m[2].Body = []byte(`{"jsonrpc":"2.0","id":"1","result":{}}`) },
		"a result of the other direction": func(m []wiretest.Message) { m[2].Body = m[3].Body },
		"text where JSON was promised": func(m []wiretest.Message) {
			m[4].Header = []string{"Content-Type: application/json"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, bad := &fake{}, slices.Clone(good)
			corrupt(bad)
			if wiretest.Conform(f, "2025-11-25", bad); len(f.failures) != 1 {
				t.Errorf("%d failures %q, want one", len(f.failures), f.failures)
			}
		})
	}
}

// Without a published schema a test fails in CI, where a skip would go unnoticed.
func TestWithoutPublishedSchema(t *testing.T) {
	ping := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	for ci, want := range map[string]int{"": 0, "true": 1} {
		t.Setenv("CI", ci)
		f := &fake{}
		wiretest.Validate(f, "2024-11-04", wiretest.Client, ping, "")
		if len(f.failures) != want || want > 0 && !strings.Contains(f.failures[0], "../shared/spec") {
			t.Errorf("Validate, CI=%q: failures %q, want %d", ci, f.failures, want)
		}
		f = &fake{}
		wiretest.Conform(f, "2024-11-04", []wiretest.Message{{From: wiretest.Client, Body: ping}})
		if len(f.failures) != want {
			t.Errorf("Conform, CI=%q: failures %q, want %d", ci, f.failures, want)
		}
	}
}
