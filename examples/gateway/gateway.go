package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/google/uuid"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
)

// legacy is the revision that the gateway speaks with upstream servers: the
// last in which they ask while a call runs.
const legacy = "2025-11-25"

// self is what the gateway calls itself, on both sides.
var self = &mcp.Implementation{Name: "gateway", Version: "1.0.0"}

// A gateway publishes the tools of its upstreams under NAME_tool.
type gateway struct {
	server   *mcp.Server
	router   *elicitation.Router
	clients  *gosdk.Downstream
	registry *prometheus.Registry
}

func newGateway(
	ctx context.Context, opts elicitation.Options, upstreams map[string]string, logs io.Writer,
) (*gateway, error) {
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	opts.Logger = zap.New(zapcore.NewCore(encoder, zapcore.AddSync(logs), zap.InfoLevel))
	registry := prometheus.NewRegistry()
	opts.Registerer = registry
	router, err := elicitation.New(&opts)
	if err != nil {
		return nil, err
	}
	g := &gateway{router: router, registry: registry}
	g.server = mcp.NewServer(self, nil)
	g.clients, err = gosdk.NewDownstream(g.router, g.server, &gosdk.Options{
		LogName: clientName,
	})
	if err != nil {
		return nil, err
	}
	for name, url := range upstreams {
		if err := g.publish(ctx, name, url); err != nil {
			return nil, fmt.Errorf("upstream %s: %w", name, err)
		}
	}
	return g, nil
}

// clientName is what a client calls itself. One that does not say gets a random
// name in the logs.
func clientName(session *mcp.ServerSession) string {
	if p := session.InitializeParams(); p != nil && p.ClientInfo != nil {
		return p.ClientInfo.Name
	}
	return ""
}

// publish adds the tools of an upstream. Some upstreams hide tools that ask from
// clients that cannot be asked, so that elicitation is declared here as it will
// be for calls. Nobody is there to be asked yet: a question now is refused.
func (g *gateway) publish(ctx context.Context, name, url string) error {
	key := elicitation.UpstreamKey(name + "/" + uuid.NewString())
	session, err := connect(ctx, url, gosdk.NewSharedClient(g.router, key, self, nil))
	if err != nil {
		return err
	}
	defer session.Close()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		published := *tool
		published.Name = name + "_" + tool.Name
		g.server.AddTool(&published, g.passTo(name, url, tool.Name))
	}
	return nil
}

// passTo returns the handler that passes calls on. Each call has an upstream
// connection of its own: that is how the router knows whose question it is that
// comes on it.
func (g *gateway) passTo(name, url, tool string) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key := elicitation.UpstreamKey(name + "/" + uuid.NewString())
		call, err := g.clients.Begin(ctx, req, key)
		if err != nil {
			return nil, err
		}
		defer call.End()
		session, err := connect(gosdk.UpstreamContext(ctx), url, gosdk.NewClient(g.router, call, key, self, progressOptions(call)))
		if err != nil {
			return nil, err
		}
		defer session.Close()
		params := &mcp.CallToolParams{Name: tool}
		if wantsProgress(call) {
			params.SetProgressToken(upstreamToken)
		}
		if req.Params.Arguments != nil { // a nil RawMessage would be sent as null
			params.Arguments = req.Params.Arguments
		}
		return session.CallTool(ctx, params)
	}
}

func connect(ctx context.Context, url string, c *mcp.Client) (*mcp.ClientSession, error) {
	return c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
}

// handler serves clients at /mcp and Prometheus at /metrics.
func (g *gateway) handler() http.Handler {
	clients := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return g.server }, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", auth.RequireBearerToken(whoIs, nil)(clients))
	mux.Handle("/metrics", promhttp.HandlerFor(g.registry, promhttp.HandlerOpts{}))
	return mux
}

// whoIs stands for the verification of real tokens: it believes the name that
// is in them. The router binds questions to the user, as the SDK does sessions.
func whoIs(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	if token != "alice" && token != "bob" {
		return nil, errors.Join(auth.ErrInvalidToken, errors.New("nobody is called that"))
	}
	return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
}

// shutdown gives people a moment to answer, withdraws what is still being asked
// then, and ends the clients' sessions.
func (g *gateway) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = g.router.Shutdown(ctx) // what is left by then ends with the sessions
	for session := range g.server.Sessions() {
		_ = session.Close()
	}
}
