package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// self is what the gateway calls itself, on both sides.
var self = &mcp.Implementation{Name: "gateway", Version: "1.0.0"}

// A config is what the flags and the environment say.
type config struct {
	routing   elicitation.Options
	upstreams map[string]string // URLs, or commands after "stdio:", by name
	users     map[string]string // names by token
}

// A gateway publishes the tools of its upstreams under NAME_tool.
type gateway struct {
	config
	log       *zap.Logger
	server    *mcp.Server
	router    *elicitation.Router
	clients   *gosdk.Downstream
	registry  *prometheus.Registry
	connected []*gosdk.Upstream
}

func newGateway(ctx context.Context, c config, logs io.Writer) (*gateway, error) {
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	log := zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(logs)),
		zap.InfoLevel))
	c.routing.Log = zaplog.New(log)
	g := &gateway{config: c, log: log, server: mcp.NewServer(self, nil),
		registry: prometheus.NewRegistry()}
	g.routing.Metrics = prom.New(g.registry)
	var err error
	if g.router, err = elicitation.New(&g.routing); err != nil {
		return nil, err
	}
	g.clients, err = gosdk.NewDownstream(g.router, g.server, &gosdk.Options{LogName: clientName})
	if err != nil {
		return nil, err
	}
	for name, where := range c.upstreams {
		if err := g.publish(ctx, name, where); err != nil {
			g.shutdown()
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

// publish adds the tools of an upstream.
func (g *gateway) publish(ctx context.Context, name, where string) error {
	warn := func(err error) {
		g.log.Warn("upstream lists", zap.String("upstream", name), zap.Error(err))
	}
	up, err := g.clients.NewUpstream(gosdk.UpstreamOptions{
		Name: name, Implementation: self, LogLevel: "info", Warn: warn,
		Transport: func(string) mcp.Transport { return newTransport(where) },
	})
	if err != nil {
		return err
	}
	g.connected = append(g.connected, up)
	if err := up.Publish(ctx, g.server); err != nil { // it may be down, and is tried again
		warn(err)
	}
	return nil
}

// newTransport returns the transport of one more connection.
func newTransport(where string) mcp.Transport {
	if command, ok := strings.CutPrefix(where, "stdio:"); ok {
		words := strings.Fields(command)
		return &mcp.CommandTransport{Command: exec.Command(words[0], words[1:]...)}
	}
	client := &http.Client{Transport: nameCaller{}}
	return &mcp.StreamableClientTransport{Endpoint: where, HTTPClient: client}
}

// nameCaller tells upstreams in a header who calls. A gateway that upstreams do not trust
// would exchange the caller's token for one of the upstream's here.
type nameCaller struct{}

// RoundTrip implements [http.RoundTripper].
func (nameCaller) RoundTrip(r *http.Request) (*http.Response, error) {
	if call := gosdk.CallFromContext(r.Context()); call != nil {
		r = r.Clone(r.Context())
		r.Header.Set("X-Forwarded-User", call.Origin().Principal.Subject)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// handler serves clients at /mcp and Prometheus at /metrics.
func (g *gateway) handler() http.Handler {
	clients := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		return g.server
	}, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", auth.RequireBearerToken(g.identify, nil)(g.clients.Handler(clients)))
	mux.Handle("/metrics", promhttp.HandlerFor(g.registry, promhttp.HandlerOpts{}))
	return mux
}

// identify stands for the verification of real tokens. The router binds questions to the
// user, as the SDK does sessions.
func (g *gateway) identify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo,
	error) {
	user, ok := g.users[token]
	if !ok {
		return nil, errors.Join(auth.ErrInvalidToken, errors.New("nobody has this token"))
	}
	return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour)}, nil
}

// shutdown gives people a moment to answer, withdraws what is still being asked
// then, and ends the sessions on both sides.
func (g *gateway) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = g.router.Shutdown(ctx) // what is left by then ends with the sessions
	for session := range g.server.Sessions() {
		_ = session.Close()
	}
	for _, up := range g.connected {
		up.Close()
	}
}
