package gosdk_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
)

// slowAuthorizer authorizes until its request is given up.
type slowAuthorizer struct{ began chan struct{} }

func (slowAuthorizer) TokenSource(context.Context) (oauth2.TokenSource, error) { return nil, nil }

func (a slowAuthorizer) Authorize(ctx context.Context, _ *http.Request, r *http.Response) error {
	r.Body.Close()
	a.began <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

// TestACallThatEndsWhileTheGatewayAuthorizes does not end the calls of others.
func TestACallThatEndsWhileTheGatewayAuthorizes(t *testing.T) {
	raw := gatewaytest.NewUpstream(t)
	raw.Intercept = func(w http.ResponseWriter, _ *http.Request, m *gatewaytest.Message) bool {
		fault := strings.Contains(string(m.Params), `"`+gatewaytest.ToolFault+`"`)
		if fault {
			w.WriteHeader(http.StatusUnauthorized)
		}
		return fault
	}
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(newRouter(t, nil), server, nil)
	if err != nil {
		t.Fatal(err)
	}
	slow := slowAuthorizer{make(chan struct{}, 8)}
	up, err := clients.NewUpstream(gosdk.UpstreamOptions{Name: "up", Implementation: impl,
		Transport: func(string) mcp.Transport {
			return &mcp.StreamableClientTransport{Endpoint: raw.URL, HTTPClient: raw.HTTPClient,
				OAuthHandler: slow}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	for _, name := range []string{gatewaytest.ToolAsk, gatewaytest.ToolFault} {
		server.AddTool(tool(name), func(ctx context.Context,
			req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return up.CallTool(ctx, req, name)
		})
	}
	url := serveDownstream(t, clients, server)
	const answer = `{"action":"accept","content":{"why":"because"}}`
	bob := gatewaytest.Connect(t, url, `{"elicitation":{"form":{}}}`, `"result":`+answer, nil)
	pending := bob.StartCall(t, gatewaytest.ToolAsk, question)
	defer pending.Close()
	open := pending.WaitForQuestion(t)

	alice, err := mcp.NewClient(impl, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: url},
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	defer alice.Close()
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = alice.CallTool(ctx, &mcp.CallToolParams{Name: gatewaytest.ToolFault})
		}()
		select {
		case <-slow.began:
		case <-time.After(patience):
			t.Fatal("the gateway does not authorize: the connection has ended")
		}
		cancel()
		<-ended
		if got := bob.Call(t, gatewaytest.ToolAsk, question); got != answer {
			t.Errorf("the upstream reads %s, want %s", got, answer)
		}
	}
	bob.Send(t, open)
	if got := pending.Result(t); got != answer {
		t.Errorf("the upstream reads %s for the question that was open", got)
	}
}
