//lint:file-ignore SA1019 sampling is deprecated, and supported for as long as it exists

package mcpgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

func form(message string) mcp.ElicitationRequest {
	return mcp.ElicitationRequest{Params: mcp.ElicitationParams{Message: message,
		RequestedSchema: map[string]any{"type": "object"}}}
}

const askedForm = `{"message":"Why?","requestedSchema":{"type":"object"}}`

func addAskers(s *mcpserver.MCPServer) {
	addTool(s, "form", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		a, err := s.RequestElicitation(ctx, form("Why?"))
		if err != nil {
			return "", err
		}
		return fmt.Sprint(a.Action, " ", a.Content), nil
	})
	addTool(s, "url", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		a, err := s.RequestURLElicitation(ctx, mcpserver.ClientSessionFromContext(ctx), "e1",
			"https://example.com/pay", "Pay")
		if err != nil {
			return "", err
		}
		return string(a.Action), nil
	})
	addTool(s, "sample", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		a, err := s.RequestSampling(ctx, mcp.CreateMessageRequest{
			CreateMessageParams: mcp.CreateMessageParams{MaxTokens: 5}})
		if err != nil {
			return "", err
		}
		return a.Model + ": " + a.Content.(mcp.TextContent).Text, nil
	})
	addTool(s, "roots", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		a, err := s.RequestRoots(ctx, mcp.ListRootsRequest{})
		if err != nil {
			return "", err
		}
		return a.Roots[0].URI, nil
	})
}

func TestQuestionsReachTheClient(t *testing.T) {
	s := newServer()
	addAskers(s)
	c := open(t, s, nil)
	for _, test := range []struct{ tool, asked, answer, want string }{
		{"form", "elicitation/create " + askedForm,
			`{"action":"accept","content":{"a":1}}`, "accept map[a:1]"},
		{"form", "elicitation/create " + askedForm, `{"action":"decline"}`, "decline <nil>"},
		{"form", "elicitation/create " + askedForm, `{"action":"cancel"}`, "cancel <nil>"},
		{"url", `elicitation/create {"mode":"url","message":"Pay","elicitationId":"e1",` +
			`"url":"https://example.com/pay"}`, `{"action":"accept"}`, "accept"},
		{"sample", `sampling/createMessage {"messages":null,"maxTokens":5}`,
			`{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}`, "m: hi"},
		{"roots", "roots/list {}", `{"roots":[{"uri":"file:///x"}]}`, "file:///x"},
	} {
		b := hostedtest.Says(test.answer)
		want(t, test.tool, c.Call(test.tool, b), test.want)
		wantLines(t, test.tool+" asked", b.Sent(), test.asked)
	}
}

func TestErrorsOfTheClientAreThoseOfMCPGo(t *testing.T) {
	s := newServer()
	addAskers(s)
	var got error
	addTool(s, "keep", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		_, got = s.RequestElicitation(ctx, form("Why?"))
		return "", got
	})
	c := open(t, s, nil)
	for name, test := range map[string]struct {
		given, is error
		text      string
	}{
		"response": {protocol.Errorf(protocol.CodeInvalidParams, "too many fields"),
			mcp.ErrInvalidParams, "invalid params: too many fields"},
		"response with data": {&protocol.Error{Code: -32042, Message: "m",
			Data: json.RawMessage(`{"elicitations":[{"mode":"url","url":"u"}]}`)},
			mcp.URLElicitationRequiredError{}, "URL elicitation required: 1 elicitation(s) needed"},
		"no answer yet": {fmt.Errorf("wrapped: %w", roundtrip.ErrPending),
			roundtrip.ErrPending, "wrapped: " + roundtrip.ErrPending.Error()},
	} {
		c.Call("keep", &back{Answer: func(context.Context, *protocol.Request) (string, error) {
			return "", test.given
		}})
		if !errors.Is(got, test.is) || got.Error() != test.text {
			t.Errorf("%s: the handler got %v, want %q", name, got, test.text)
		}
	}
	want(t, "the response", c.Call("sample", nil), "-32603 method not found: nobody to ask")
}

type markKey struct{}

// The handler asks in every way that does not identify the request through the context.
func TestQuestionFindsItsRequest(t *testing.T) {
	var registered mcpserver.ClientSession
	hooks := &mcpserver.Hooks{}
	hooks.AddOnRegisterSession(func(_ context.Context, s mcpserver.ClientSession) {
		registered = s
	})
	s := newServer(mcpserver.WithHooks(hooks))
	elicit := func(ctx context.Context, by mcpserver.ClientSession) error {
		_, err := by.(mcpserver.SessionWithElicitation).RequestElicitation(ctx, form("Why?"))
		return err
	}
	var stale context.Context
	var staleSession mcpserver.ClientSession
	for name, ask := range map[string]func(ctx context.Context) error{
		"the session of the context, another context": func(ctx context.Context) error {
			return elicit(context.Background(), mcpserver.ClientSessionFromContext(ctx))
		},
		"the registered session": func(ctx context.Context) error {
			return elicit(ctx, registered)
		},
		"the registered session, another context": func(context.Context) error {
			return elicit(context.Background(), registered)
		},
		"another goroutine": func(ctx context.Context) error {
			asked := make(chan error)
			go func() {
				_, err := s.RequestElicitation(ctx, form("Why?"))
				asked <- err
			}()
			return <-asked
		},
		"a context of before": func(context.Context) error {
			_, err := s.RequestElicitation(stale, form("Why?"))
			return err
		},
		"a session of before": func(context.Context) error {
			return elicit(context.Background(), staleSession)
		},
		"a session of before, this context": func(ctx context.Context) error {
			return elicit(ctx, staleSession)
		},
	} {
		addTool(s, name, func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
			return "", ask(ctx)
		})
	}
	addTool(s, "before", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		stale, staleSession = ctx, mcpserver.ClientSessionFromContext(ctx)
		return "", nil
	})
	entered, leave := make(chan struct{}), make(chan struct{})
	addTool(s, "wait", func(context.Context, mcp.CallToolRequest) (string, error) {
		close(entered)
		<-leave
		return "", nil
	})
	c := open(t, s, nil)
	c.Call("before", &back{})
	const over = "-32603 mcpgo: the request that the question belongs to has ended"
	const unknown = "-32603 mcpgo: the request that the question belongs to is not known: " +
		"ask with the context of the handler"
	tests := []struct{ name, alone, overlapping string }{
		{"the session of the context, another context", "", ""},
		{"the registered session", "", ""},
		{"the registered session, another context", "", unknown},
		{"another goroutine", "", ""},
		{"a context of before", over, over},
		{"a session of before", over, over},
		{"a session of before, this context", "", ""},
	}
	for _, test := range tests {
		want(t, test.name, c.Call(test.name, hostedtest.Says(`{"action":"accept"}`)), test.alone)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		c.Call("wait", nil)
	})
	<-entered
	for _, test := range tests {
		want(t, test.name+", with another request",
			c.Call(test.name, hostedtest.Says(`{"action":"accept"}`)), test.overlapping)
	}
	close(leave)
	waiting.Wait()
	if err := elicit(context.Background(), registered); err == nil {
		t.Error("a question while nothing runs has no error")
	}
}
