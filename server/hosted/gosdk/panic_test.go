//lint:file-ignore SA1019 roots are deprecated, and supported for as long as they exist

package gosdk_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
)

func panicked(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

type boom struct{}

func (boom) MarshalJSON() ([]byte, error) { panic("encoding") }

func TestPanicsComeOutOfTheCall(t *testing.T) {
	s := newServer(&mcp.ServerOptions{
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (
			*mcp.CompleteResult, error) {
			panic("completion")
		},
		SubscribeHandler: func(context.Context, *mcp.SubscribeRequest) error {
			panic("subscribe")
		},
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		RootsListChangedHandler: func(context.Context, *mcp.RootsListChangedRequest) {
			panic("roots")
		},
	})
	addTool(s, "fine", says("fine"))
	addTool(s, "tool", panics("tool"))
	addRaw(s, "runtime", func(_ context.Context, req *toolRequest) (*toolResult, error) {
		return nil, errors.New(req.Params.Name[100:])
	})
	addRaw(s, "result", func(context.Context, *toolRequest) (*toolResult, error) {
		return &mcp.CallToolResult{StructuredContent: boom{}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "prompt"}, func(context.Context, *mcp.GetPromptRequest) (
		*mcp.GetPromptResult, error) {
		panic("prompt")
	})
	s.AddResource(&mcp.Resource{URI: "x://y", Name: "y"}, func(context.Context,
		*mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		panic("resource")
	})
	s.AddReceivingMiddleware(before(func(ctx context.Context, method string, req mcp.Request) {
		if method == "tools/list" {
			panic("list")
		}
	}))
	c := open(t, s)
	for _, test := range []struct{ method, params, want string }{
		{"tools/call", `{"name":"tool"}`, "tool"},
		{"tools/call", `{"name":"tool","requestState":"x"}`, "tool"},
		{"tools/call", `{"name":"runtime"}`,
			"runtime error: slice bounds out of range [100:7]"},
		{"tools/call", `{"name":"result"}`, "encoding"},
		{"prompts/get", `{"name":"prompt"}`, "prompt"},
		{"resources/read", `{"uri":"x://y"}`, "resource"},
		{"resources/subscribe", `{"uri":"x://y"}`, "subscribe"},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"see"},` +
			`"argument":{"name":"a","value":"b"}}`, "completion"},
		{"tools/list", `{}`, "list"},
	} {
		c.WantPanic(test.method, test.params, test.want)
	}
	want(t, "a notification", panicked(func() {
		_ = c.Session.Notify(t.Context(),
			&protocol.Notification{Method: "notifications/roots/list_changed"})
	}), "roots")
	want(t, "the session after all that", c.Call("fine", nil), "fine")
}

func TestPanicsWhileASessionOpens(t *testing.T) {
	for _, method := range []string{"initialize", "notifications/initialized"} {
		s := newServer(nil)
		s.AddReceivingMiddleware(before(func(ctx context.Context, m string, req mcp.Request) {
			if m == method {
				panic(m)
			}
		}))
		p := gosdk.Peer(s, nil)
		want(t, method, panicked(func() {
			session, _, err := p.OpenSession(t.Context(),
				hostedtest.Initialize(noCapabilities), &back{})
			if err != nil {
				t.Error(err)
			}
			defer session.Close()
			_ = session.Notify(t.Context(),
				&protocol.Notification{Method: protocol.NotifyInitialized})
		}), method)
		for range s.Sessions() {
			t.Errorf("%s: a session is left", method)
		}
	}
}

func TestResultsThatCannotBeEncoded(t *testing.T) {
	s := newServer(nil)
	addRaw(s, "not a number", func(context.Context, *toolRequest) (*toolResult, error) {
		return &mcp.CallToolResult{StructuredContent: math.NaN()}, nil
	})
	addRaw(s, "nothing", func(context.Context, *toolRequest) (*toolResult, error) {
		return nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "typed"}, func(context.Context, *toolRequest, struct{}) (
		*mcp.CallToolResult, any, error) {
		return nil, func() {}, nil
	})
	c := hostedtest.OpenAs(t, gosdk.Peer(s, nil), &hosted.Caller{}, noCapabilities)
	for tool, result := range map[string]string{
		"not a number": "-32603 the result cannot be encoded: json: error calling MarshalJSON for " +
			"type *mcp.CallToolResult: json: unsupported value: NaN",
		"nothing": "null",
		"typed":   "-32603 marshaling output: json: unsupported type: func()",
	} {
		want(t, tool, c.Call(tool, nil), result)
	}
}
