//lint:file-ignore SA1019 sampling and roots are deprecated, but supported, so they are tested

package gosdk_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`

// initialized finishes the handshake.
const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// bothEras reaches one server as a modern client and in a session of an older
// revision, whose client can be asked nothing. Session returns the response as
// text.
func bothEras(t *testing.T, transport string,
	server *mcp.Server) (first said, session func(message string) string) {
	t.Helper()
	if transport == "http" {
		w := dialWire(t, server)
		t.Cleanup(func() {
			for session := range server.Sessions() {
				_ = session.Close()
			}
		})
		return w.send(protocol.MethodCallTool, `{"name":"t"}`), sessionPost(t, w.endpoint)
	}
	modern := openStream(t, server, true)
	first = modern.call("")
	old := openStream(t, server, true)
	old.say(initialize)
	old.hear()
	old.say(initialized)
	return first, func(message string) string {
		old.say(message)
		return old.hear()
	}
}

// sessionPost opens a session over HTTP.
func sessionPost(t *testing.T, endpoint string) func(message string) string {
	p := &picky{t: t, endpoint: endpoint, accept: bothTypes, revision: legacy}
	p.initialize(`{}`)
	return func(message string) string {
		t.Helper()
		_, text := p.exchange(http.MethodPost, message)
		return text
	}
}

// A session has no retry members. What is sent as such is not read: not as the
// answer that it says it is, and not as the one that it may be mistaken for.
func TestRetryMembersInASessionAreNotRead(t *testing.T) {
	for _, transport := range []string{"http", "lines"} {
		t.Run(transport, func(t *testing.T) {
			server := single(t,
				asks(&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}))
			first, session := bothEras(t, transport, server)
			first.wantAsks("q")
			state := string(first.member("requestState"))
			for _, retry := range []string{
				`,"inputResponses":{"q":{"action":"decline","Action":"accept","content":{"reason":"because"}}},"requestState":` + state,
				`,"inputResponses":{"q":{"action":"accept","content":{"reason":"because"}}},"requestState":` + state,
				`,"inputResponses":{"q":{"action":"accept","content":{"reason":"because"}}}`,
				`,"requestState":` + state, `,"requestState":"forged"`,
			} {
				got := session(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t"` + retry + `}}`)
				if !strings.Contains(got, "does not support: elicitation") {
					t.Errorf("%s was answered with %s", retry, got)
				}
			}
		})
	}
}

// A request in a session that names a modern revision in an ambiguous way is
// not read as a modern one.
func TestAmbiguousRevisionInASessionIsNotModern(t *testing.T) {
	server := single(t,
		asks(&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}))
	first, session := bothEras(t, "http", server)
	state := string(first.member("requestState"))
	meta := fmt.Sprintf(`{%q:%q,%q:%s}`, protocol.MetaProtocolVersion, modern,
		protocol.MetaClientCapabilities, everything)
	retry := `"requestState":` + state + `,"inputResponses":{"q":{"action":"decline","Action":"accept","content":{"reason":"because"}}}`
	for name, params := range map[string]string{
		"answers twice": `{"name":"t","_meta":` + meta + `,"inputResponses":{},` + retry + `}`,
		"_meta twice":   `{"name":"t","_meta":{},"_meta":` + meta + `,` + retry + `}`,
		"escaped": `{"name":"t","_meta":` + strings.ReplaceAll(meta, "/", `\/`) +
			`,"inputResponses":{},` + retry + `}`,
		"answers in a list": `{"name":"t","_meta":` + meta +
			`,"inputResponses":[],"requestState":` + state + `}`,
	} {
		got := session(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":` + params + `}`)
		if strings.Contains(got, "answers, state") || strings.Contains(got, "input_required") {
			t.Errorf("%s was answered with %s", name, got)
		}
	}
}

// A state is for the arguments as they were sent: members may come in another
// order and strings in other escapes, but a number is not another one that a
// handler may read differently.
func TestStatesBindHowNumbersAreSpelled(t *testing.T) {
	server := single(t,
		asks(&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}))
	overHTTP, overLines := dialWire(t, server), openStream(t, server, true)
	for transport, call := range map[string]func(rest string) said{
		"http": func(rest string) said {
			return overHTTP.send(protocol.MethodCallTool, `{"name":"t"`+rest+`}`)
		},
		"lines": overLines.call,
	} {
		t.Run(transport, func(t *testing.T) {
			first := call(`,"arguments":{"n":[1,0],"s":"/"}`)
			retry := `,"inputResponses":` + accepts("q") + `,"requestState":` +
				string(first.member("requestState"))
			for arguments, same := range map[string]bool{
				`{ "s": "\/", "\u006e": [1 , 0] }`: true,
				`{"n":[1.0,0],"s":"/"}`:            false,
				`{"n":[1e0,0],"s":"/"}`:            false,
				`{"n":[1,-0],"s":"/"}`:             false,
			} {
				got := call(`,"arguments":` + arguments + retry)
				if same {
					got.wantText("1 answers")
				} else if got.Error == nil || got.Error.Code != protocol.CodeInvalidParams {
					t.Errorf("%s: %s was answered with %s", transport, arguments, got.body)
				}
			}
		})
	}
}

func TestMalformedRetriesAreRefused(t *testing.T) {
	w := dialWire(t, single(t,
		asks(&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}})))
	for name, rest := range map[string]string{
		"state of a number":      `,"requestState":1`,
		"answers in a list":      `,"inputResponses":[]`,
		"answers that are null":  `,"inputResponses":null`,
		"a state that is forged": `,"requestState":"forged"`,
		"an empty state":         `,"requestState":""`,
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.call("t", rest).wantError(protocol.CodeInvalidParams, http.StatusBadRequest)
		})
	}
	t.Run("answers twice", func(t *testing.T) {
		w.t = t
		w.call("t", `,"inputResponses":{"q":{"action":"decline"}},"inputResponses":{}`).wantError(protocol.CodeParseError, http.StatusBadRequest)
	})
}
