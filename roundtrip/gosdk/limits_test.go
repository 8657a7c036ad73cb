//lint:file-ignore SA1019 sampling and roots are deprecated, but supported, so they are tested

package gosdk_test

import (
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
)

// A person who has declined is not asked again.
func TestDeclinedQuestionIsNotRepeated(t *testing.T) {
	server := single(t, func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := req.Params.InputResponses["q"].(*mcp.ElicitResult); ok &&
			answer.Action == "accept" {
			return toolText("done"), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}, nil
	})
	w := dialWire(t, server)
	got := w.retry("t", w.call("t", ""), `{"q":{"action":"decline"}}`)
	if got.wantText("declined: q"); string(got.member("isError")) != "true" {
		t.Errorf("got %s", got.body)
	}
}

// A handler that never has enough comes to an end.
func TestRoundsAreLimited(t *testing.T) {
	for _, s := range []string{modern, legacy} {
		t.Run(s, func(t *testing.T) {
			runs := 0
			server := single(t, func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
				runs++
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}},
					nil
			}, withFunnel(roundtrip.Options{Limits: roundtrip.Limits{Rounds: 3}}))
			who := newPerson(t, map[string]string{"Sure?": `{"reason":"because"}`})
			c := sdkOver(t, server, who, s)
			if got, err := c.do(within(t), "t"); err != nil ||
				!strings.Contains(got, "gave up after 3 rounds") {
				t.Errorf("got %q, %v", got, err)
			}
			who.wantAsked(3)
		})
	}
}
