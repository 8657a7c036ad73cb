package gosdk_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// A stream is a client that says what a test wants said, line by line.
type stream struct {
	t   testing.TB
	w   io.Writer
	r   *bufio.Scanner
	ids int
}

func openStream(t testing.TB, server *mcp.Server, strict bool) *stream {
	t.Helper()
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	t.Cleanup(func() { _ = w1.Close(); _ = w2.Close() })
	var transport mcp.Transport = &mcp.IOTransport{Reader: r1, Writer: w2}
	if strict {
		transport = wrapTransport(t, server, transport)
	}
	session, err := server.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return &stream{t: t, w: w1, r: bufio.NewScanner(r2)}
}

func (s *stream) say(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.w, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stream) hear() string {
	s.t.Helper()
	if !s.r.Scan() {
		s.t.Fatal("the server has gone: ", s.r.Err())
	}
	return s.r.Text()
}

func (s *stream) call(rest string) said {
	s.t.Helper()
	s.ids++
	_, err := fmt.Fprintf(s.w, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","_meta":{%q:%q,%q:%s}%s}}`+"\n",
		s.ids, protocol.MetaProtocolVersion, modern, protocol.MetaClientCapabilities, everything,
		rest)
	if err != nil || !s.r.Scan() {
		s.t.Fatal(err, s.r.Err())
	}
	message, err := protocol.DecodeMessage(append([]byte(nil), s.r.Bytes()...))
	if err != nil {
		s.t.Fatal(err)
	}
	response := message.(*protocol.Response)
	return said{s.t, 0, response.Result, response.Error, s.r.Bytes()}
}

// Over streams, too, an answer is what the client sent and not what the SDK
// makes of it.
func TestStrictTransport(t *testing.T) {
	server := single(t, func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := req.Params.InputResponses["q"].(*mcp.ElicitResult); ok {
			return toolText("saw " + answer.Action), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}, nil
	})
	tests := []struct{ name, answers, want string }{
		{"two spellings", `{"q":{"action":"decline","Action":"accept"}}`, "saw decline"},
		{"a member of another kind", `{"q":{"action":"accept","content":{"reason":"because"},"roots":[]}}`, "saw accept"},
		{"null", `{"q":null}`, ""},
		{"wrapped", `{"q":{"result":{"action":"accept"}}}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openStream(t, server, true)
			first := s.call("")
			first.wantAsks("q")
			got := s.call(`,"inputResponses":` + tt.answers + `,"requestState":` +
				string(first.member("requestState")))
			if tt.want == "" {
				got.wantAsks("q")
			} else if got.wantText(tt.want); got.Error != nil {
				t.Error(got.Error)
			}
		})
	}
	for name, rest := range map[string]string{
		"state of a number": `,"requestState":1`, "answers in a list": `,"inputResponses":[]`,
		"answers twice": `,"inputResponses":{},"inputResponses":{}`, "an empty state": `,"requestState":""`,
	} {
		t.Run(name, func(t *testing.T) {
			s := openStream(t, server, true)
			s.call(rest).wantError(protocol.CodeInvalidParams, 0)
			s.call("").wantAsks("q") // the connection goes on
		})
	}
}

func TestHandlerTellsErasApart(t *testing.T) {
	server := single(t, asks(toolText("plain")))
	endpoint, recorder := serve(t,
		handlerOf(t, server, &mcp.StreamableHTTPOptions{JSONResponse: true,
			MaxRequestBodyBytes: 2000}))
	t.Cleanup(func() { // nobody ends them
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	meta := fmt.Sprintf(`"_meta":{%q:%q,%q:{}}`, protocol.MetaProtocolVersion, modern,
		protocol.MetaClientCapabilities)
	tests := []struct {
		name, method, version, body string
		status                      int
		session                     bool
		want                        string
	}{
		{"a session opens", http.MethodPost, "", initialize, 200, true,
			`"protocolVersion":"2025-11-25"`},
		{"a session opens, with a header", http.MethodPost, legacy, initialize, 200, true,
			`"protocolVersion":"2025-11-25"`},
		{"a call without a session", http.MethodPost, legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, 200, false, "invalid during session initialization"},
		{"modern by header alone", http.MethodPost, modern, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, 400, false, "-32602"},
		{"modern by _meta alone", http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t",` + meta + `}}`, 400, false, "-32020"},
		{"modern in both", http.MethodPost, modern, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t",` + meta + `}}`, 200, false, "plain"},
		{"a revision to come", http.MethodPost, "2099-01-01", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t",` + strings.ReplaceAll(meta, modern, "2099-01-01") + `}}`, 400, false, "-32022"},
		{"no JSON", http.MethodPost, modern, `{`, 400, false, "-32700"},
		{"too long", http.MethodPost, modern, `{"x":"` + strings.Repeat("x", 3000) + `"}`,
			413, false, ""},
		{"GET without a session", http.MethodGet, "", "", 400, false, ""},
		{"GET of a modern revision", http.MethodGet, modern, "", 405, false, ""},
		{"DELETE without a session", http.MethodDelete, "", "", 400, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var header []string
			if tt.version != "" {
				header = []string{"Mcp-Method", "tools/call", "Mcp-Name", "t"}
			}
			p := &picky{t: t, endpoint: endpoint, revision: tt.version, transport: recorder}
			resp, body := p.exchange(tt.method, tt.body, header...)
			if resp.StatusCode != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("got %d %s, want %d and %s", resp.StatusCode, body, tt.status, tt.want)
			}
			if got := resp.Header.Get("Mcp-Session-Id") != ""; got != tt.session &&
				resp.StatusCode == 200 {
				t.Errorf("a session: %t, want %t", got, tt.session)
			}
		})
	}
}
