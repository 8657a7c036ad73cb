package interop_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

var gatewayInfo = &mcp.Implementation{Name: "gateway", Version: "1.0.0"}

// A upstreamDialer opens a connection to an upstream.
type upstreamDialer func(ctx context.Context, c *mcp.Client) (*mcp.ClientSession, error)

// upstreams are the ways to servers that ask while a call runs: others' over HTTP and in a process,
// and ours.
func upstreams(t *testing.T) map[string]upstreamDialer {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	connect := func(ctx context.Context, c *mcp.Client,
		over mcp.Transport) (*mcp.ClientSession, error) {
		return c.Connect(ctx, over, &mcp.ClientSessionOptions{ProtocolVersion: v20251125})
	}
	overHTTP := func(h http.Handler) upstreamDialer {
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		return func(ctx context.Context, c *mcp.Client) (*mcp.ClientSession, error) {
			return connect(ctx, c, &mcp.StreamableClientTransport{Endpoint: srv.URL,
				HTTPClient: newHTTPClient(t)})
		}
	}
	official := newGoSDKServer(true)
	closeSessionsAfter(t, official)
	return map[string]upstreamDialer{
		"official/http": overHTTP(
			mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return official }, nil)),
		"official/process": func(ctx context.Context, c *mcp.Client) (*mcp.ClientSession,
			error) {
			cmd := exec.Command(program)
			cmd.Env = append(os.Environ(), asOfficial+"=pushed")
			return connect(ctx, c, &mcp.CommandTransport{Command: cmd})
		},
		"rondo/http": overHTTP(servertest.NewHandler(t, newSubject(t), nil)),
	}
}

// startGateway is a gateway built on the official SDK, with a router between its two sides. Each
// call has an upstream connection of its own.
func startGateway(t *testing.T, dial upstreamDialer, tools ...string) (endpoint string) {
	t.Helper()
	router, err := elicitation.New(&elicitation.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	srv := mcp.NewServer(gatewayInfo, nil)
	clients, err := gosdk.NewDownstream(router, srv, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tools {
		srv.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				key := elicitation.UpstreamKey(uuid.NewString())
				call, err := clients.Begin(ctx, req, key)
				if err != nil {
					return nil, err
				}
				defer call.End()
				session, err := dial(ctx, gosdk.NewClient(router, call, key, gatewayInfo, nil))
				if err != nil {
					return nil, err
				}
				defer session.Close()
				params := &mcp.CallToolParams{Name: name}
				if req.Params.Arguments != nil { // a nil RawMessage would be sent as null
					params.Arguments = req.Params.Arguments
				}
				return session.CallTool(ctx, params)
			})
	}
	closeSessionsAfter(t, srv)
	gateway := httptest.NewServer(
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	t.Cleanup(func() {
		gateway.CloseClientConnections()
		gateway.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := router.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return gateway.URL
}

// A guest connects somebody to the gateway with a client that knows sessions.
type guest func(t *testing.T, endpoint string, who *person) peer

// throughGateway takes two people through it, before each upstream.
func throughGateway(t *testing.T, connect guest) {
	for name, dial := range upstreams(t) {
		t.Run(name, func(t *testing.T) {
			takeTwoThrough(t, startGateway(t, dial, "deploy", "wizard", "sign_in"), connect)
		})
	}
}

// takeTwoThrough takes two people through a gateway at the same time. A person who is asked what is
// another's fails the test.
func takeTwoThrough(t *testing.T, endpoint string, connect guest) {
	var all sync.WaitGroup
	for _, user := range []struct {
		env, answer, want, region, size, wizard, visit string
	}{
		{"ada", `{"reason":"ada said so"}`, "deployed to ada: ada said so", "eu", `{"cores":8}`, "8 cores in eu for ada@example.com, saw eu", "{}"},
		{"bob", "decline", "left bob alone: declined", "us", `{"cores":4}`, "4 cores in us for bob@example.com, saw us", "decline"},
	} {
		visited := map[string]string{"{}": "visit accepted",
			"decline": "visit declined"}[user.visit]
		who := newPerson(t, answers{
			"Deploy to " + user.env + "?":     user.answer,
			"Which region?":                   `{"name":"` + user.region + `"}`,
			"How big in " + user.region + "?": user.size,
			"Who is told?":                    `{"email":"` + user.env + `@example.com"}`,
			"Sign in":                         user.visit,
		})
		client := connect(t, endpoint, who)
		all.Go(func() {
			ctx := within(t, patience)
			for _, call := range []struct {
				request request
				want    string
			}{
				{tool("deploy", map[string]string{"env": user.env}), user.want},
				{tool("wizard", nil), user.wizard},
				{tool("sign_in", nil), visited},
			} {
				got, err := client.do(ctx, call.request)
				if err != nil || got != call.want {
					t.Errorf("%s of %s: got %q, %v, want %q", call.request.Target, user.env,
						got, err, call.want)
				}
			}
			who.wantAsked(1)
		})
	}
	all.Wait()
}

// TestGatewayGoSDK, TestGatewayMCPGo and TestGatewayRondo: clients of three makes behind the same
// gateway.
func TestGatewayGoSDK(t *testing.T) {
	throughGateway(t, func(t *testing.T, endpoint string, who *person) peer {
		return connectGoSDK(t, who, false, v20251125,
			&mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: newHTTPClient(t)})
	})
}

func TestGatewayMCPGo(t *testing.T) {
	throughGateway(t, func(t *testing.T, endpoint string, who *person) peer {
		over, err := transport.NewStreamableHTTP(endpoint,
			transport.WithHTTPBasicClient(newHTTPClient(t)),
			transport.WithHTTPLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			t.Fatal(err)
		}
		return connectMCPGo(t, who, false, v20251125, over)
	})
}

func TestGatewayRondo(t *testing.T) {
	throughGateway(t, func(t *testing.T, endpoint string, who *person) peer {
		return dialRondoLegacy(t, endpoint, who, false)
	})
}
