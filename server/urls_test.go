package server_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// A urlStyle is a way to ask for a visit, under the key "login".
type urlStyle struct {
	name string
	era  protocol.Era // 0 for both
	ask  func(ctx context.Context, call *server.ToolCall, link string) (protocol.CallToolOutcome,
		error)
}

func urlStyles() []urlStyle {
	type outcome = protocol.CallToolOutcome
	required := func(link string) *protocol.URLElicitationRequiredError {
		return &protocol.URLElicitationRequiredError{Elicitations: []*protocol.ElicitURL{
			{Message: "Sign in first", URL: "https://id.example/first", ElicitationID: "first"},
			{Message: "Sign in", URL: link, ElicitationID: "login"},
		}}
	}
	return []urlStyle{
		{"guard", 0, func(_ context.Context, _ *server.ToolCall, link string) (outcome, error) {
			return roundtrip.InputRequired(roundtrip.ElicitURL("login", "Sign in", link)), nil
		}},
		{"beside another", 0, func(_ context.Context, _ *server.ToolCall,
			link string) (outcome, error) {
			return roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?"),
				roundtrip.ElicitURL("login", "Sign in", link)), nil
		}},
		{"by hand", 0, func(_ context.Context, _ *server.ToolCall, link string) (outcome, error) {
			return &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{
				{Key: "login", Request: &protocol.ElicitURL{Message: "Sign in", URL: link}},
			}}, nil
		}},
		{"flow", 0, func(ctx context.Context, _ *server.ToolCall, link string) (outcome, error) {
			return server.Text("visited"), roundtrip.AskURL(ctx, "login", "Sign in", link)
		}},
		{"flow that goes on", 0, func(ctx context.Context, _ *server.ToolCall,
			link string) (outcome, error) {
			_ = roundtrip.AskURL(ctx, "login", "Sign in", link)
			return server.Text("visited"), nil
		}},
		{"error", 0, func(_ context.Context, _ *server.ToolCall, link string) (outcome, error) {
			return nil, required(link)
		}},
		{"error as the wire has it", protocol.Legacy,
			func(_ context.Context, _ *server.ToolCall, link string) (outcome, error) {
				e, err := required(link).Legacy()
				return nil, errors.Join(err, e)
			}},
		{"push", protocol.Legacy,
			func(ctx context.Context, call *server.ToolCall, link string) (outcome, error) {
				_, err := call.Push(ctx,
					&protocol.ElicitURL{Message: "Sign in", URL: link, ElicitationID: "login"})
				return server.Text("visited"), err
			}},
	}
}

// Every way to ask for a visit checks the URL before anything is sent, and names the question.
func TestNoServerSendsAPersonAnywhere(t *testing.T) {
	for _, style := range urlStyles() {
		for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
			if style.era == 0 || style.era == era {
				t.Run(style.name+"/"+era.String(), func(t *testing.T) { style.check(t, era) })
			}
		}
	}
}

func (style urlStyle) check(t *testing.T, era protocol.Era) {
	link, named := "", `"login"`
	if style.name == "push" { // pushed questions have no keys
		named = `"push-1"`
	}
	h := newHarness(t, &server.Options{Roundtrip: roundtrip.Options{
		AllowURL: func(u *url.URL) error {
			if u.Hostname() == "blocked.example" {
				return errors.New("not on the list")
			}
			return nil
		}}})
	server.AddRawTool(h.Server, server.Tool{Name: "visit"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			return style.ask(ctx, call, link)
		})
	var session *visitor
	if era == protocol.Legacy {
		session = h.enter(protocol.V20251125, allCapabilities)
		session.answer = answerAll
	}
	for _, bad := range []string{
		"javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "/relative",
		"https://user:canary-4242@id.example/", "http://id.example/", "http://169.254.169.254/",
		"https://id.example/\x01", "https://id.example/\u009f", "https:///x", "https://%zz/",
		"https://blocked.example/", "https://id.example/" + strings.Repeat("a", 8<<10),
	} {
		link = bad
		before := len(h.events.bugs())
		var e *protocol.Error
		if era == protocol.Modern {
			e = h.call("visit", "").err
		} else {
			e = session.request(protocol.MethodCallTool, `{"name":"visit"}`).Error
			if asked := session.asked(); len(asked) != 0 {
				t.Fatalf("%.40q: somebody was asked %v", bad, asked)
			}
		}
		if e == nil || e.Code != protocol.CodeInternalError || !strings.Contains(e.Message, named) ||
			strings.Contains(e.Message, "4242") {
			t.Errorf("%.40q: got %v, want -32603 naming the question", bad, e)
		}
		bug := h.events.bugs()[before:]
		if strings.Count(strings.TrimPrefix(bug, "\n"), "\n") != 0 ||
			!strings.Contains(bug, named) || strings.Contains(bug, "4242") {
			t.Errorf("%.40q: the operator is told %q", bad, bug)
		}
	}
}
