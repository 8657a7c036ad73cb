package protocol_test

import (
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

// Blocks unknown to a revision become text, in tools and prompts; others stay.
func TestContentIsDowngraded(t *testing.T) {
	link := &protocol.ResourceLink{Resource: protocol.Resource{URI: "file:///a", Name: "a"}}
	audio := &protocol.AudioContent{Data: []byte("abc"), MIMEType: "audio/wav"}
	text := &protocol.TextContent{Text: "x"}
	const (
		linkBlock  = `{"type":"resource_link","uri":"file:///a","name":"a"}`
		linkText   = `{"type":"text","text":"a: file:///a"}`
		audioBlock = `{"type":"audio","data":"YWJj","mimeType":"audio/wav"}`
		audioText  = `{"type":"text","text":"[audio/wav, 3 bytes, which revision 2024-11-05 of the protocol cannot carry]"}`
		textBlock  = `{"type":"text","text":"x"}`
	)
	for _, tt := range []struct {
		version     protocol.Version
		link, audio string
	}{
		{protocol.V20241105, linkText, audioText},
		{protocol.V20250326, linkText, audioBlock},
		{protocol.V20250618, linkBlock, audioBlock},
		{protocol.V20251125, linkBlock, audioBlock},
		{protocol.V20260728, linkBlock, audioBlock},
	} {
		t.Run(string(tt.version), func(t *testing.T) {
			blocks := []protocol.Content{text, link, audio}
			got := encoded(t, tt.version, protocol.MethodCallTool,
				&protocol.CallToolResult{Content: blocks})
			want := `"content":[` + textBlock + "," + tt.link + "," + tt.audio + `]`
			if !strings.Contains(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if blocks[1] != link || blocks[2] != audio {
				t.Error("the author's blocks were changed")
			}
			messages := []protocol.PromptMessage{{Role: protocol.User, Content: text},
				{Role: protocol.User, Content: link}}
			got = encoded(t, tt.version, protocol.MethodGetPrompt,
				&protocol.GetPromptResult{Messages: messages})
			if want := `"content":` + tt.link + `}`; !strings.Contains(got, want) ||
				messages[1].Content != link {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	for _, block := range []protocol.Content{(*protocol.ResourceLink)(nil),
		(*protocol.AudioContent)(nil), nil} {
		r := &protocol.CallToolResult{Content: []protocol.Content{block}}
		if got, err := protocol.EncodeResult(protocol.V20241105, protocol.MethodCallTool,
			r); err == nil {
			t.Errorf("%T: got %s, want an error", block, got)
		}
	}
}
