package interop_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// frontDoorTools keep their names, so that clients find them as they do without a gateway.
var frontDoorTools = []string{"deploy", "wizard", "sign_in", "summarize"}

// frontDoorUpstreams returns servers of three makes and two eras.
func frontDoorUpstreams(t *testing.T) map[string]gateway.Upstream {
	t.Helper()
	overHTTP := func(h http.Handler, era protocol.Era) gateway.Upstream {
		srv := httptest.NewServer(h)
		t.Cleanup(func() {
			srv.CloseClientConnections()
			srv.Close()
		})
		return gateway.Upstream{Name: "up", Connect: gateway.HTTP(srv.URL, nil), Era: era,
			Unprefixed: frontDoorTools}
	}
	official := func(push bool, opts *mcp.StreamableHTTPOptions) http.Handler {
		s := newGoSDKServer(push)
		closeSessionsAfter(t, s)
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, opts)
	}
	mcpGo := func(push bool) http.Handler {
		return mcpgoserver.NewStreamableHTTPServer(newMCPGoServer(push),
			mcpgoserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	}
	program, err := os.Executable()
	noError(t, err)
	process := func(as string, era protocol.Era) gateway.Upstream {
		return gateway.Upstream{Name: "up", Era: era, Unprefixed: frontDoorTools,
			Connect: gateway.Command("env", as, effectsFile+"="+os.Getenv(effectsFile), program)}
	}
	return map[string]gateway.Upstream{
		"rondo HTTP modern": overHTTP(servertest.NewHandler(t, newSubject(t), nil),
			protocol.Modern),
		"rondo HTTP legacy": overHTTP(servertest.NewHandler(t, newSubject(t), nil),
			protocol.Legacy),
		"rondo process modern": process(asSubject+"=yes", protocol.Modern),
		"rondo process legacy": process(asSubject+"=yes", protocol.Legacy),
		"official HTTP modern": overHTTP(
			official(false, &mcp.StreamableHTTPOptions{Stateless: true}), protocol.Modern),
		"official HTTP legacy":    overHTTP(official(true, nil), protocol.Legacy),
		"official process modern": process(asOfficial+"=returned", protocol.Modern),
		"official process legacy": process(asOfficial+"=pushed", protocol.Legacy),
		"mcp-go HTTP modern":      overHTTP(mcpGo(false), protocol.Modern),
		"mcp-go HTTP legacy":      overHTTP(mcpGo(true), protocol.Legacy),
		"mcp-go process modern":   process(asMCPGo+"=returned", protocol.Modern),
		"mcp-go process legacy":   process(asMCPGo+"=pushed", protocol.Legacy),
	}
}

func startFrontDoor(t *testing.T, upstream gateway.Upstream) (endpoint string) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	g, err := gateway.New(&gateway.Options{
		Server:    server.Options{Roundtrip: roundtrip.Options{MinHumanTime: -1}},
		Upstreams: []gateway.Upstream{upstream}, Log: zaplog.New(zap.New(core)),
	})
	noError(t, err)
	handler, err := g.Handler(nil)
	noError(t, err)
	srv := httptest.NewServer(handler)
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if logs.FilterMessage("gateway.upstream_ready").Len() > 0 {
			return srv.URL
		}
		if time.Now().After(deadline) {
			t.Fatal("the upstream is not there: ", logs.All())
		}
	}
}

// frontDoorClients returns clients of three makes and two eras.
func frontDoorClients() map[string]guest {
	official := func(revision string) guest {
		return func(t *testing.T, endpoint string, who *person) peer {
			return connectGoSDK(t, who, false, revision,
				&mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: newHTTPClient(t)})
		}
	}
	mcpGo := func(revision string) guest {
		return func(t *testing.T, endpoint string, who *person) peer {
			over, err := transport.NewStreamableHTTP(endpoint,
				transport.WithHTTPBasicClient(newHTTPClient(t)),
				transport.WithHTTPLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
			noError(t, err)
			return connectMCPGo(t, who, false, revision, over)
		}
	}
	return map[string]guest{
		"rondo modern": func(t *testing.T, endpoint string, who *person) peer {
			return dialRondo(t, endpoint, who, false)
		},
		"rondo legacy": func(t *testing.T, endpoint string, who *person) peer {
			return dialRondoLegacy(t, endpoint, who, false)
		},
		"official modern": official(modern), "official legacy": official(v20251125),
		"mcp-go modern": mcpGo(modern), "mcp-go legacy": mcpGo(v20251125),
	}
}

// TestFrontDoor connects every client to every upstream, in any combination of eras.
func TestFrontDoor(t *testing.T) {
	for name, upstream := range frontDoorUpstreams(t) {
		t.Run(name, func(t *testing.T) {
			endpoint := startFrontDoor(t, upstream)
			for client, connect := range frontDoorClients() {
				t.Run(client, func(t *testing.T) {
					takeTwoThrough(t, endpoint, connect)
					checkSampling(t, endpoint, connect)
				})
			}
		})
	}
}

type guest func(t *testing.T, endpoint string, who *person) peer

// takeTwoThrough takes two users through a gateway at once. Neither may get the other's question.
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

func checkSampling(t *testing.T, endpoint string, connect guest) {
	t.Helper()
	who := newPerson(t, answers{"Summarize.": "It is short."})
	got, err := connect(t, endpoint, who).do(
		context.WithoutCancel(within(t, patience)), tool("summarize", nil))
	if want := "model-1 says: It is short."; err != nil || got != want {
		t.Errorf("sampling: got %q, %v, want %q", got, err, want)
	}
	who.wantAsked(1)
}
