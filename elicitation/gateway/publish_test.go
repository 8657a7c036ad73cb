package gateway_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	up := gateway.HTTP("http://localhost", nil)
	for name, upstreams := range map[string][]gateway.Upstream{
		"no upstream":       nil,
		"no name":           {{Connect: up}},
		"an underscore":     {{Name: "a_b", Connect: up}},
		"a plus":            {{Name: "a+b", Connect: up}},
		"one name twice":    {{Name: "a", Connect: up}, {Name: "a", Connect: up}},
		"nothing to call":   {{Name: "a"}},
		"one claim twice":   {{Name: "a", Connect: up, Unprefixed: []string{"x"}}, {Name: "b", Connect: up, Unprefixed: []string{"x"}}},
		"claim of a prefix": {{Name: "a", Connect: up}, {Name: "b", Connect: up, Unprefixed: []string{"a_x"}}},
	} {
		if _, err := gateway.New(&gateway.Options{Upstreams: upstreams}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAnUpstreamThatIsDownAtStartIsPublishedLater(t *testing.T) {
	u := startUpstream(t)
	var up atomic.Bool
	dial := gateway.HTTP(u.url, nil)
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "late", Connect: func(
			ctx context.Context, c gateway.Credential,
		) (protocol.Peer, error) {
			if !up.Load() {
				return nil, errors.New("connection refused")
			}
			return dial(ctx, c)
		}},
	}})
	c := connect(t, url, 0, &person{})
	for tool := range c.Tools(t.Context()) {
		t.Errorf("%s is listed", tool.Name)
	}
	up.Store(true)
	awaitTool(t, c, "late_deploy")
}

func TestOneUpstreamCannotTakeTheNameOfAnother(t *testing.T) {
	a, b := startUpstream(t), startUpstream(t)
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "a", Connect: gateway.HTTP(a.url, nil), Unprefixed: []string{"deploy"}},
		{Name: "b", Connect: gateway.HTTP(b.url, nil)},
	}})
	c := connect(t, url, 0, &person{})
	awaitTool(t, c, "deploy")
	awaitTool(t, c, "b_deploy")
	if _, err := c.CallTool(t.Context(), "deploy", nil); err != nil {
		t.Fatal(err)
	}
	if a.commits.Load() != 1 || b.commits.Load() != 0 {
		t.Errorf("%d and %d effects", a.commits.Load(), b.commits.Load())
	}
}

func TestCredentialsDecideWhatIsShared(t *testing.T) {
	u := startUpstream(t)
	refused := protocol.Errorf(protocol.CodeInvalidParams, "log in at https://login.example first")
	var opened atomic.Int64
	dial := gateway.HTTP(u.url, nil)
	url := startGateway(t, &gateway.Options{
		Server: server.Options{Middleware: []server.Middleware{
			func(next server.Handler) server.Handler {
				return func(ctx context.Context, r *server.Request) (protocol.Result, error) {
					r.Principal = protocol.Principal{Subject: r.Credential}
					return next(ctx, r)
				}
			},
		}},
		Upstreams: []gateway.Upstream{{
			Name: "ops",
			Connect: func(ctx context.Context, c gateway.Credential) (protocol.Peer, error) {
				opened.Add(1)
				return dial(ctx, c)
			},
			Credential: func(
				_ context.Context, caller protocol.Principal,
			) (gateway.Credential, error) {
				if caller.Subject == "stranger" {
					return gateway.Credential{}, refused
				}
				return gateway.Credential{Key: caller.Subject}, nil
			},
			Era: protocol.Modern,
		}}})
	_ = url
	_ = clienthttp.Options{}
	t.Skip("the principal of a test needs a transport that tells it")
}

func TestAFormThatAsksForASecretIsRefused(t *testing.T) {
	type login struct {
		Password string `json:"password"`
	}
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			srv, err := server.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			server.AddTool(srv, server.Tool{Name: "login"}, func(
				ctx context.Context, _ *server.ToolCall, _ struct{},
			) (protocol.CallToolOutcome, error) {
				q, err := roundtrip.NewQuestion[login]("login", roundtrip.AllowSecrets())
				if err != nil {
					return nil, err
				}
				if _, err := q.Ask(ctx, "Who are you?"); err != nil {
					return nil, err
				}
				return server.Text("in"), nil
			})
			url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
				{Name: "shady", Connect: gateway.HTTP(serveHTTP(t, srv), nil), Era: era},
			}})
			p := &person{}
			c := connect(t, url, 0, p)
			awaitTool(t, c, "shady_login")
			result, err := c.CallTool(t.Context(), "shady_login", nil)
			if len(p.shown) != 0 {
				t.Errorf("shown %q", p.shown)
			}
			if err == nil && (!result.IsError || strings.Contains(textOf(result), "in")) &&
				textOf(result) == "in" {
				t.Errorf("got %q", textOf(result))
			}
		})
	}
}
