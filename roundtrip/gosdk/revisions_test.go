package gosdk_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

// What older revisions know is asked in their words; for what they do not know
// nobody is asked.
func TestOlderRevisions(t *testing.T) {
	tests := []struct {
		revision, target string
		answers          map[string]string
		want             string
	}{
		{"2025-06-18", "deploy", map[string]string{"deploy?": `{"reason":"because"}`},
			"done: because"},
		{"2025-06-18", "sign_in", nil, "error: "},
		{"2025-06-18", "summarize", map[string]string{"Summarize.": "short"}, "model says: short"},
		{"2025-06-18", "tidy", map[string]string{"roots": "file:///doc"}, "tidied file:///doc"},
		{"2025-03-26", "deploy", nil, "error: "},
		{"2025-03-26", "summarize", map[string]string{"Summarize.": "short"}, "model says: short"},
		{"2024-11-05", "deploy", nil, "error: "},
		{"2024-11-05", "tidy", map[string]string{"roots": "file:///doc"}, "tidied file:///doc"},
	}
	for _, s := range styles() {
		if s.name == "unmodified" {
			continue // the SDK's own calls, in sessions
		}
		for _, tt := range tests {
			t.Run(s.name+"/"+tt.revision+"/"+tt.target, func(t *testing.T) {
				endpoint, recorder := serve(t, handlerOf(t, serverOf(t, s), nil))
				who := newPerson(t, tt.answers)
				c := dialSDK(t, who, false, tt.revision,
					&mcp.StreamableClientTransport{Endpoint: endpoint,
						HTTPClient: &http.Client{Transport: recorder}})
				got, err := c.do(within(t), tt.target)
				if err != nil || !strings.HasPrefix(got, tt.want) {
					t.Errorf("got %q, %v, want %q", got, err, tt.want)
				}
				who.wantAsked(1)
				for _, m := range recorder.Messages() {
					var head struct{ Method string }
					if json.Unmarshal(m.Body, &head) == nil && head.Method != "" &&
						m.From == wiretest.Server {
						// the SDK sends it to 2025-06-18, too
						wiretest.Validate(t, tt.revision, wiretest.Server, m.Body, "", "mode")
					}
				}
			})
		}
	}
}

// A client that asks for the newest revision when it opens a session gets an
// older one. The SDK goes by what it asked for, and refuses to push.
func TestSessionsThatAskForMore(t *testing.T) {
	for _, s := range styles() {
		t.Run(s.name, func(t *testing.T) {
			c := openStream(t, serverOf(t, s), true)
			c.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28","capabilities":` + everything + `,"clientInfo":{"name":"x","version":"1"}}}`)
			if got := c.hear(); !strings.Contains(got, `"protocolVersion":"2025-11-25"`) {
				t.Fatalf("got %s", got)
			}
			c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"deploy"}}`)
			var asked struct {
				ID     json.RawMessage
				Method string
			}
			if got := c.hear(); json.Unmarshal([]byte(got), &asked) != nil ||
				asked.Method != "elicitation/create" {
				t.Fatalf("got %s", got)
			}
			c.say(`{"jsonrpc":"2.0","id":` + string(asked.ID) + `,"result":{"action":"accept","content":{"reason":"because"}}}`)
			if got := c.hear(); !strings.Contains(got, "done: because") ||
				strings.Contains(got, "resultType") {
				t.Errorf("got %s", got)
			}
		})
	}
}

// Exactly, older revisions are told nothing of caching.
func TestExactWireInSessions(t *testing.T) {
	c := openStream(t, serverOf(t, returnedStyle(), withExactWire()), true)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + everything + `,"clientInfo":{"name":"x","version":"1"}}}`)
	c.hear()
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for method, params := range map[string]string{
		"tools/list": "{}", "prompts/list": "{}", "resources/list": "{}",
		"resources/templates/list": "{}", "tools/call": `{"name":"plain"}`,
	} {
		c.say(`{"jsonrpc":"2.0","id":2,"method":"` + method + `","params":` + params + `}`)
		wiretest.Validate(t, legacy, wiretest.Server, []byte(c.hear()), method)
	}
	c.say(`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"vault://codes"}}`)
	var asked struct{ ID json.RawMessage }
	if got := c.hear(); json.Unmarshal([]byte(got), &asked) != nil {
		t.Fatalf("got %s", got)
	}
	c.say(`{"jsonrpc":"2.0","id":` + string(asked.ID) + `,"result":{"action":"accept","content":{"reason":"because"}}}`)
	wiretest.Validate(t, legacy, wiretest.Server, []byte(c.hear()), "resources/read")
}
