//lint:file-ignore SA1019 sampling and roots are deprecated, but supported, so they are tested

package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
)

// Answers that a handler of the SDK gets to see are to questions that it asked,
// of the right kind, and fit the form.
func TestHandlersSeeValidAnswersOnly(t *testing.T) {
	server := single(t, func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := req.Params.InputResponses["q"].(*mcp.ElicitResult); ok {
			text, _ := json.Marshal(answer)
			return toolText("saw " + string(text)), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}, nil
	})
	const good = `{"action":"accept","content":{"reason":"because"}}`
	tests := []struct{ name, answers, want string }{
		{"good", `{"q":` + good + `}`, `"action":"accept"`},
		{"declined with a form", `{"q":{"action":"decline","content":{"reason":"because"}}}`, `"action":"decline"}`},
		{"too short", `{"q":{"action":"accept","content":{"reason":"x"}}}`, ""},
		{"another case beside", `{"q":{"action":"decline","Action":"accept"}}`, `"action":"decline"`},
		{"another case", `{"q":{"ACTION":"accept","content":{"reason":"because"}}}`, ""},
		{"wrapped", `{"q":{"method":"elicitation/create","result":` + good + `}}`, ""},
		{"null", `{"q":null}`, ""},
		{"an unknown key beside", `{"other":{"what":"ever"},"q":` + good + `}`,
			`"action":"accept"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := dialWire(t, server)
			got := w.retry("t", w.call("t", ""), tt.answers)
			if tt.want == "" {
				got.wantAsks("q")
				return
			}
			var content []struct{ Text string }
			if err := json.Unmarshal(got.member("content"), &content); err != nil ||
				len(content) != 1 || !strings.Contains(content[0].Text, tt.want) {
				t.Errorf("got %s, want %s", got.body, tt.want)
			}
		})
	}
}

// Integers that a float cannot hold are read exactly by Ask behind Handler.
func TestAskReadsLargeIntegersExactly(t *testing.T) {
	type account struct {
		Number int64 `json:"number"`
	}
	w := dialWire(t, single(t, func(ctx context.Context, _ *toolRequest) (*mcp.CallToolResult,
		error) {
		a, err := roundtrip.Ask[account](ctx, "account", "Which account?")
		if err != nil {
			return nil, err
		}
		return toolText(fmt.Sprint(a.Number)), nil
	}))
	first := w.call("t", "")
	first.wantAsks("account")
	w.retry("t", first, `{"account":{"action":"accept","content":{"number":9007199254740993}}}`).wantText("9007199254740993")
}
