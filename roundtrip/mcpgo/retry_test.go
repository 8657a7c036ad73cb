package mcpgo_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`

// bothEras reaches one server as a modern client and in a session of an older
// revision, whose client can be asked nothing or cancels. Over lines mcp-go has
// one session, which remembers what the last modern request declared.
func bothEras(t *testing.T, transport string, a *mcpgo.Adapter,
	s *server.MCPServer) (modern, session sender) {
	t.Helper()
	if transport == "http" {
		endpoint, _ := serveHTTP(t, a, s)
		return post(t, endpoint), sessionPost(t, endpoint)
	}
	r, w, _ := serveLines(t, a, s)
	lines := bufio.NewScanner(r)
	write := func(message string) {
		t.Helper()
		if _, err := io.WriteString(w, message+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	send := func(message string) answered {
		t.Helper()
		write(message)
		for lines.Scan() {
			var question struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if err := json.Unmarshal(lines.Bytes(), &question); err != nil {
				t.Fatal(err)
			}
			switch {
			case question.Method == "elicitation/create":
				write(`{"jsonrpc":"2.0","id":` + string(question.ID) +
					`,"result":{"action":"cancel"}}`)
			case question.ID != nil:
				return reading(t, 0, lines.Text())
			}
		}
		t.Fatalf("no response: %v", lines.Err())
		return answered{}
	}
	send(initialize)
	return send, send
}

// sessionPost opens a session over HTTP.
func sessionPost(t *testing.T, endpoint string) sender {
	p := &picky{t: t, endpoint: endpoint}
	hello, _ := p.exchange(http.MethodPost, initialize)
	p.session, p.revision = hello.Header.Get("Mcp-Session-Id"), v20251125
	return func(message string) answered {
		t.Helper()
		response, text := p.exchange(http.MethodPost, message)
		return reading(t, response.StatusCode, text)
	}
}

// A session has no retry members. What is sent as such is not read: not as the
// answer that it says it is, not as the one that it may be mistaken for, not
// even as something that is malformed.
func TestRetryMembersInASessionAreNotRead(t *testing.T) {
	for _, transport := range []string{"http", "lines"} {
		t.Run(transport, func(t *testing.T) {
			s := newHostServer()
			addGuard(s)
			addMistakes(s)
			modern, session := bothEras(t, transport, install(t, s, nil), s)
			for _, tool := range []string{"typed", "good"} {
				state, err := json.Marshal(modern(request{method: protocol.MethodCallTool,
					target: tool}.message()).Result.RequestState)
				if err != nil || len(state) < 10 {
					t.Fatal("no state: ", err)
				}
				for _, retry := range []string{
					`,"inputResponses":{"confirm":{"action":"decline","Action":"accept","content":{"zeal":"much"}}},"requestState":` + string(state),
					`,"inputResponses":{"confirm":{"action":"accept","content":{"zeal":"much"}}},"requestState":` + string(state),
					`,"inputResponses":{"confirm":{"action":"accept","content":{"zeal":"much"}}}`,
					`,"requestState":` + string(state), `,"requestState":"forged"`,
				} {
					got := session(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"` + tool + `"` + retry + `}}`)
					if text := got.text(); !strings.Contains(text,
						"does not support: elicitation") && !strings.Contains(text, "cancel") {
						t.Errorf("%s: %s was answered with %s", tool, retry, got.body)
					}
				}
			}
		})
	}
}
