package interop_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestPromptThatSwallowsErrors: a prompt asks for what it is to contain. Where it gets no answer it
// goes on without one, whatever the reason is, and records that it was rendered.
func TestPromptThatSwallowsErrors(t *testing.T) { checkAll(t, swallowingPrompts()) }

func swallowingPrompts() shapes {
	common := shape{
		request: func(name string) request {
			return prompt("review", map[string]string{"name": name})
		},
		done: "Review %s: drafts true", left: "Review %s: drafts false", swallows: true,
	}
	official, other := common, common
	official.serve = func(t *testing.T, s *site) http.Handler {
		srv := s.newOfficial()
		srv.AddPrompt(&mcp.Prompt{Name: "review",
			Arguments: []*mcp.PromptArgument{{Name: "name", Required: true}}},
			func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return officialPrompt(s.review(ctx, req.Params.Arguments["name"],
					askOfficial(req.Session))), nil
			})
		return s.serveOneOfficial(t, srv)
	}
	other.serve = func(t *testing.T, s *site) http.Handler {
		srv := s.newMCPGo()
		srv.AddPrompt(mcpgomcp.NewPrompt("review",
			mcpgomcp.WithArgument("name", mcpgomcp.RequiredArgument())),
			func(ctx context.Context, r mcpgomcp.GetPromptRequest) (*mcpgomcp.GetPromptResult,
				error) {
				return mcpGoPrompt(s.review(ctx, r.Params.Arguments["name"], askMCPGo(srv))), nil
			})
		return s.serveOneMCPGo(t, srv)
	}
	return shapes{"official": official, "mcp-go": other}
}

// review is the prompt.
func (s *site) review(ctx context.Context, name string, ask questioner) string {
	ctx, leave := s.enter(ctx)
	defer leave()
	part, sure := any("drafts"), any(false)
	if _, content, err := ask(ctx, "Which part of "+name+"?", partForm); err == nil &&
		content["part"] != nil {
		part = content["part"]
	}
	if _, content, err := ask(ctx, fmt.Sprintf("Remove %v of %s?", part, name),
		sureForm); err == nil && content["sure"] != nil {
		sure = content["sure"]
	}
	if sure == true {
		_ = s.act(ctx, name)
	}
	return fmt.Sprintf("Review %s: %v %v", name, part, sure)
}
