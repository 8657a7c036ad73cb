package interop_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

// These are the revisions. modern has no sessions; the others (legacy ones) do.
const (
	modern    = "2026-07-28"
	v20251125 = "2025-11-25"
	v20250618 = "2025-06-18"
	v20250326 = "2025-03-26"
	v20241105 = "2024-11-05"
)

func legacy() []string { return []string{v20251125, v20250618, v20250326, v20241105} }

// The method in returns a scenario's form in a revision. In legacy revisions the one request runs
// while each question is sent. Older revisions know fewer kinds of questions: for the others the
// handler gets an error, and the user is not asked.
func (s scenario) in(revision string) scenario {
	if revision == modern {
		return s
	}
	s.legs, s.pushes = 1, len(s.answers)
	if s.again {
		s.legs, s.pushes = 2, 2*s.pushes
	}
	// Progress that was reported is not reported again.
	s.progress = min(s.progress, 1)
	// In sessions the tool fails, but not the request.
	if s.mute && s.request.Method == protocol.MethodCallTool {
		s.fails, s.refused = false, true
	}
	if since := s.request.asks(); revision < since {
		s.answers, s.pushes, s.want = nil, 0, "revision "+revision
		if s.mute {
			s.want = "elicitation"
		}
		s.refused = s.request.Method == protocol.MethodCallTool
		s.fails = !s.refused
	}
	return s
}

// The method asks returns the first revision that has the handler's kind of question.
func (r request) asks() (since string) {
	switch r.Target {
	case "", "nowhere", "plain", "poll", "summarize", "tidy":
		return v20241105
	case "sign_in", "survey":
		return v20251125
	default:
		return v20250618 // for forms
	}
}

// The function apart reports members of another era in a message, of either side. It only reports
// members that must not exist there: the schemas, whose objects are open, allow them.
func apart(revision string, from wiretest.From, raw []byte) error {
	var m struct {
		ID     json.RawMessage
		Method string
		Params map[string]json.RawMessage
		Result map[string]json.RawMessage
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	if revision == modern {
		switch {
		case from == wiretest.Server && m.Method != "" && m.ID != nil:
			return fmt.Errorf("the server sends a request, %s", m.Method)
		case from == wiretest.Client && m.Method == "":
			return fmt.Errorf("the client sends a response")
		case slices.Contains([]string{"initialize", "notifications/initialized", "ping",
			"logging/setLevel"}, m.Method):
			return fmt.Errorf("there is no %s", m.Method)
		}
		return nil
	}
	if slices.Contains([]string{"server/discover", "subscriptions/listen",
		"notifications/subscriptions/acknowledged"}, m.Method) {
		return fmt.Errorf("there is no %s", m.Method)
	}
	for _, body := range []map[string]json.RawMessage{m.Params, m.Result} {
		for _, name := range []string{"resultType", "inputRequests", "inputResponses",
			"requestState", "ttlMs", "cacheScope"} {
			if _, ok := body[name]; ok {
				return fmt.Errorf("there is no %s", name)
			}
		}
		var meta map[string]json.RawMessage
		if body["_meta"] != nil {
			if err := json.Unmarshal(body["_meta"], &meta); err != nil {
				return err
			}
		}
		for name := range meta {
			if strings.HasPrefix(name, "io.modelcontextprotocol/") &&
				name != "io.modelcontextprotocol/related-task" {
				return fmt.Errorf("there is no _meta %s", name)
			}
		}
	}
	return nil
}

// TestApart tests apart.
func TestApart(t *testing.T) {
	const id = `{"jsonrpc":"2.0","id":1,`
	for _, tt := range []struct {
		name, revision string
		from           wiretest.From
		raw, want      string // part of the error; empty: no error
	}{
		{"call", modern, wiretest.Client, id + `"method":"tools/call","params":{"name":"x","inputResponses":{}}}`, ""},
		{"result", modern, wiretest.Server, id + `"result":{"resultType":"input_required","requestState":"s"}}`, ""},
		{"push", modern, wiretest.Server, id + `"method":"elicitation/create","params":{}}`, "the server sends a request"},
		{"server ping", modern, wiretest.Server, id + `"method":"ping"}`,
			"the server sends a request"},
		{"answer", modern, wiretest.Client, id + `"result":{"action":"accept"}}`,
			"the client sends a response"},
		{"handshake", modern, wiretest.Client, id + `"method":"initialize","params":{}}`,
			"no initialize"},
		{"notification", modern, wiretest.Server, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`, ""},
		{"legacy push", v20251125, wiretest.Server, id + `"method":"elicitation/create","params":{"_meta":{"progressToken":1}}}`, ""},
		{"legacy answer", v20251125, wiretest.Client, id + `"result":{"action":"accept","content":{"resultType":"x"}}}`, ""},
		{"legacy task", v20251125, wiretest.Server, id + `"result":{"_meta":{"io.modelcontextprotocol/related-task":{}}}}`, ""},
		{"legacy error", v20251125, wiretest.Server, id + `"error":{"code":1,"message":"x"}}`, ""},
		{"legacy question in a result", v20251125, wiretest.Server, id + `"result":{"resultType":"input_required"}}`, "no resultType"},
		{"legacy complete", v20251125, wiretest.Server, id + `"result":{"resultType":"complete","content":[]}}`, "no resultType"},
		{"legacy cache hints", v20250618, wiretest.Server, id + `"result":{"tools":[],"ttlMs":0}}`,
			"no ttlMs"},
		{"legacy retry", v20250618, wiretest.Client, id + `"method":"tools/call","params":{"name":"x","requestState":"s"}}`, "no requestState"},
		{"legacy probe", v20251125, wiretest.Client, id + `"method":"server/discover","params":{}}`, "no server/discover"},
		{"legacy request with _meta", v20251125, wiretest.Client,
			id + `"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, "io.modelcontextprotocol/protocolVersion"},
		{"legacy result with _meta", v20251125, wiretest.Server, id + `"result":{"_meta":{"io.modelcontextprotocol/serverInfo":{}}}}`, "io.modelcontextprotocol/serverInfo"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := apart(tt.revision, tt.from, []byte(tt.raw))
			if tt.want == "" && err != nil || tt.want != "" &&
				(err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
