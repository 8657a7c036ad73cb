package mcpgo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// FuzzStrict: whatever comes, a message passes, is cleaned for good, or is
// refused; it makes no difference how it is spelled; and what passes as modern
// says to mcp-go what it says by the letter.
func FuzzStrict(f *testing.F) {
	escaped := `"io.modelcontextprotocol\/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"typed","_meta":{` + escaped + `}`
	seeds := []string{
		typed.message(),
		request{method: protocol.MethodReadResource, target: "vault://codes", more: `,"RequestState":"x","inputResponses":{}`}.message(),
		request{method: protocol.MethodGetPrompt, target: "brief",
			outer: `,"Params":{},"METHOD":1`}.message(),
		request{method: protocol.MethodCallTool, target: "x", more: `,"requestState":1`}.message(),
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `[]`, `{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		call + `,"requestState":"a","requestState":"b"}}`,
		call + `,"requestState":"a","RequestState":"b","inputResponses":{"q":{"action":"decline"}},"INPUTresponses":{"q":{"action":"accept"}}}}`,
		`{"jsonrpc":"2.0","id":1,"Method":"tools/call","Params":{"name":"typed","_meta":{` + escaped + `},"requestState":"a"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"typed","_META":{` + escaped + `},"requestState":"a"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"typed","_meta":{},"requestState":"a"},"Params":{"_meta":{` + escaped + `}}}`,
	}
	for i, seed := range seeds {
		f.Add([]byte(seed), true, uint64(0x5555<<i))
		f.Add([]byte(seed), false, uint64(0xffff)<<i)
	}
	host := newRecordingHost()
	f.Fuzz(func(t *testing.T, message []byte, byHeader bool, spelling uint64) {
		header := ""
		if byHeader {
			header = modern
		}
		clean, id, refused := mcpgo.CleanMessage(bytes.Clone(message), header)
		wantSameVerdict(t, message, header, spelling)
		if refused != nil {
			if clean != nil || len(id) == 0 {
				t.Errorf("refused with clean %q and id %q", clean, id)
			}
			return
		}
		again, _, refused := mcpgo.CleanMessage(bytes.Clone(clean), header)
		if refused != nil || !bytes.Equal(again, clean) {
			t.Errorf("%q became %q, then %q, %v", message, clean, again, refused)
		}
		host.wantByTheLetter(t, clean)
	})
}

// wantSameVerdict checks that a message and the same one in another spelling
// are taken for the same.
func wantSameVerdict(t *testing.T, message []byte, header string, spelling uint64) {
	t.Helper()
	if jsonx.Check(message) != nil {
		return // no message, and another spelling might be one
	}
	verdict := func(message []byte) string {
		clean, id, refused := mcpgo.CleanMessage(bytes.Clone(message), header)
		if refused != nil {
			return fmt.Sprintf("refused %d of %s", refused.Code, canonical(id))
		}
		return canonical(clean)
	}
	other := respelled(message, spelling)
	if got, want := verdict(other), verdict(message); got != want {
		t.Errorf("%q: %q\n%q: %q", message, want, other, got)
	}
}

// canonical returns a form of raw that is the same for all spellings, empty for
// numbers that have none.
func canonical(raw []byte) string {
	form, err := jsonx.AppendCanonical(nil, raw)
	if err != nil {
		return ""
	}
	return string(form)
}

// respelled returns message with escapes in its strings and spaces between its
// tokens, chosen by the bits of spelling. The message is valid JSON.
func respelled(message []byte, spelling uint64) []byte {
	var out []byte
	next := func() bool {
		spelling = spelling>>1 | spelling<<63
		return spelling&1 == 1
	}
	for i, within := 0, false; i < len(message); i++ {
		c := message[i]
		switch {
		case within && c == '\\':
			out = append(out, c, message[i+1]) // the digits of \u are plain characters
			if i++; message[i] == 'u' {
				out = append(out, message[i+1:i+5]...)
				i += 4
			}
			continue
		case c == '"':
			within = !within
		case within && c == '/' && next():
			out = append(out, '\\')
		case within && c < 0x80 && next():
			out = fmt.Appendf(out, `\u%04x`, c)
			continue
		case !within && bytes.IndexByte([]byte("{}[],:"), c) >= 0 && next():
			out = append(out, c, ' ', '\t')
			continue
		}
		out = append(out, c)
	}
	return out
}

// recordingHost is a server of mcp-go that notes what its middleware sees.
type recordingHost struct {
	server *server.MCPServer
	seen   *mcp.MultiRoundTripParams // of a modern request, else nil
}

func newRecordingHost() *recordingHost {
	h := &recordingHost{}
	note := func(ctx context.Context, params mcp.MultiRoundTripParams) {
		if server.IsModernRequest(ctx) {
			h.seen = &params
		}
	}
	h.server = server.NewMCPServer("host", "1")
	h.server.AddTool(mcp.NewTool("typed"),
		func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			note(ctx, r.Params.MultiRoundTripParams)
			return mcp.NewToolResultText("done"), nil
		})
	h.server.AddPrompt(mcp.NewPrompt("brief"),
		func(ctx context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			note(ctx, r.Params.MultiRoundTripParams)
			return briefed("done"), nil
		})
	return h
}

// wantByTheLetter checks that what mcp-go reads of a retry is what the message
// says, where mcp-go takes it for a modern one.
func (h *recordingHost) wantByTheLetter(t *testing.T, message []byte) {
	t.Helper()
	h.seen = nil
	h.server.HandleMessage(context.Background(), message)
	if h.seen == nil {
		return
	}
	if err := jsonx.Check(message); err != nil {
		t.Fatalf("%q passes as modern: %v", message, err)
	}
	params, _ := protocol.Meta(message).Get("params")
	text := ""
	if raw, ok := protocol.Meta(params).Get("requestState"); ok {
		text, _ = jsonx.Text(raw)
	}
	answers := 0
	if raw, ok := protocol.Meta(params).Get("inputResponses"); ok {
		_ = jsonx.Members(raw, func(key, value []byte) error {
			answers++
			got, err := json.Marshal(h.seen.InputResponses[string(key)])
			if err != nil || jsonx.KindOf(value) == jsonx.Object &&
				canonical(got) != canonical(value) {
				t.Errorf("%q: mcp-go reads the answer to %q as %s, %v", message, key, got, err)
			}
			return nil
		})
	}
	if h.seen.RequestState != text || len(h.seen.InputResponses) != answers {
		t.Errorf("%q: mcp-go reads state %q and %d answers", message, h.seen.RequestState,
			len(h.seen.InputResponses))
	}
}
