package e2e_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// urlStyle is a way in which a handler asks for a visit, under the key "login".
type urlStyle struct {
	name string
	era  protocol.Era // "" for both
	ask  func(ctx context.Context, call *server.ToolCall, link string) (protocol.CallToolOutcome,
		error)
}

func urlStyles() []urlStyle {
	required := func(link string) *protocol.URLElicitationRequiredError {
		return &protocol.URLElicitationRequiredError{Elicitations: []*protocol.ElicitURL{
			{Message: "Sign in first", URL: "https://id.example/first", ElicitationID: "first"},
			{Message: "Sign in", URL: link, ElicitationID: "login"},
		}}
	}
	return []urlStyle{
		{"guard", 0, func(_ context.Context, _ *server.ToolCall,
			link string) (protocol.CallToolOutcome, error) {
			return roundtrip.InputRequired(roundtrip.ElicitURL("login", "Sign in", link)), nil
		}},
		{"beside another", 0, func(_ context.Context, _ *server.ToolCall,
			link string) (protocol.CallToolOutcome, error) {
			return roundtrip.InputRequired(roundtrip.Elicit[confirmation]("confirm", "Sure?"),
				roundtrip.ElicitURL("login", "Sign in", link)), nil
		}},
		{"by hand", 0, func(_ context.Context, _ *server.ToolCall,
			link string) (protocol.CallToolOutcome, error) {
			return &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{
				{Key: "login", Request: &protocol.ElicitURL{Message: "Sign in", URL: link}},
			}}, nil
		}},
		{"flow", 0, func(ctx context.Context, _ *server.ToolCall,
			link string) (protocol.CallToolOutcome, error) {
			return server.Text("visited"), roundtrip.AskURL(ctx, "login", "Sign in", link)
		}},
		{"flow that goes on", 0, func(ctx context.Context, _ *server.ToolCall,
			link string) (protocol.CallToolOutcome, error) {
			_ = roundtrip.AskURL(ctx, "login", "Sign in", link)
			return server.Text("visited"), nil
		}},
		{"error", 0, func(_ context.Context, _ *server.ToolCall,
			link string) (protocol.CallToolOutcome, error) {
			return nil, required(link)
		}},
		{"error as the wire has it", protocol.Legacy,
			func(_ context.Context, _ *server.ToolCall, link string) (protocol.CallToolOutcome,
				error) {
				e, err := required(link).Legacy()
				return nil, errors.Join(err, e)
			}},
		{"push", protocol.Legacy, func(ctx context.Context, call *server.ToolCall,
			link string) (protocol.CallToolOutcome, error) {
			_, err := call.Push(ctx,
				&protocol.ElicitURL{Message: "Sign in", URL: link, ElicitationID: "login"})
			return server.Text("visited"), err
		}},
	}
}

// TestNoServerSendsAPersonAnywhere: whichever way a handler asks for a visit, the
// URL is held against the same rule before anybody is asked anything, and the
// client learns which question it was.
func TestNoServerSendsAPersonAnywhere(t *testing.T) {
	for _, style := range urlStyles() {
		for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
			if style.era != 0 && style.era != era {
				continue
			}
			t.Run(style.name+"/"+era.String(), func(t *testing.T) {
				link, named := "", `"login"`
				if style.name == "push" { // which has no keys
					named = `"push-1"`
				}
				srv, w := mustServe(t,
					&server.Options{Roundtrip: roundtrip.Options{AllowURL: func(u *url.URL) error {
						if u.Hostname() == "blocked.example" {
							return errors.New("not on the list")
						}
						return nil
					}}})
				server.AddRawTool(srv, server.Tool{Name: "visit"},
					func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome,
						error) {
						if roundtrip.Visited(ctx, "login") != roundtrip.Missing {
							return server.Text("visited"), nil
						}
						return style.ask(ctx, call, link)
					})
				var asked atomic.Int32
				opts := client.Options{
					Era: era,
					ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult,
						error) {
						asked.Add(1)
						return &protocol.ElicitResult{Action: protocol.ActionAccept,
							Content: raw(`{"reason":"because"}`)}, nil
					},
					ElicitURL: func(context.Context, *client.URLQuestion) (*protocol.ElicitResult,
						error) {
						asked.Add(1)
						return &protocol.ElicitResult{Action: protocol.ActionAccept}, nil
					},
				}
				for _, open := range []func() *client.Client{
					func() *client.Client { c, _ := eraOverHTTP(t, srv, opts); return c },
					func() *client.Client { c, _ := eraOverLines(t, srv, opts); return c },
				} {
					c := open()
					for _, bad := range []string{
						"javascript:alert(1)", "file:///etc/passwd", "data:text/html,x",
						"/relative", "https://user:canary-4242@id.example/", "http://id.example/",
						"http://169.254.169.254/",
						"https://id.example/\x01", "https://id.example/\u009f", "https:///x",
						"https://%zz/", "https://blocked.example/", "https://id.example/" +
							strings.Repeat("a", 8<<10),
					} {
						link = bad
						before := len(seen[event.ServerBug](w))
						_, err := c.CallTool(within(t, patience), "visit", nil)
						e, ok := protocol.AsError(err)
						if !ok || e.Code != protocol.CodeInternalError ||
							!strings.Contains(e.Message, named) ||
							strings.Contains(e.Message, "4242") {
							t.Errorf("%.40q: got %v, want -32603 naming the question", bad, err)
						}
						bugs := seen[event.ServerBug](w)[before:]
						if len(bugs) != 1 || !strings.Contains(bugs[0].Err.Error(), named) ||
							strings.Contains(bugs[0].Err.Error(), "4242") {
							t.Errorf("%.40q: the operator is told %v", bad, bugs)
						}
						if asked.Load() != 0 {
							t.Fatalf("%.40q: somebody was asked", bad)
						}
					}
				}
			})
		}
	}
}
