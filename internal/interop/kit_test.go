package interop_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestKit: package roundtriptest on servers of others with rondo in them. Their tools ask two
// dependent questions, as code that waits, and then act.
func TestKit(t *testing.T) {
	flows := []roundtriptest.Flow{
		{
			Name: "accept", Request: roundtriptest.Tool("provision",
				map[string]string{"name": "books"}), Want: "books in eu: it is tested",
			Answers: roundtriptest.Answers{
				"region": roundtriptest.Accept(map[string]string{"name": "eu"}),
				"sure":   roundtriptest.Accept(map[string]string{"reason": "it is tested"})},
		},
		{
			Name: "decline", Request: roundtriptest.Tool("provision",
				map[string]string{"name": "books"}), Fails: "sure",
			Answers: roundtriptest.Answers{"region": roundtriptest.Accept(
				map[string]string{"name": "eu"}), "sure": roundtriptest.Decline()},
		},
	}
	for name, start := range map[string]func(*testing.T, *roundtriptest.Effects,
		roundtrip.Options) http.Handler{"official": kitOfficial, "mcp-go": kitMCPGo} {
		t.Run(name, func(t *testing.T) {
			effects := &roundtriptest.Effects{}
			web := httptest.NewServer(start(t, effects,
				roundtrip.Options{Guard: store.NewMemoryGuard(0)}))
			t.Cleanup(func() {
				web.CloseClientConnections()
				web.Close()
			})
			subject := roundtriptest.Subject{Effects: effects, SingleUse: true,
				Connect: func(t testing.TB, _ string) protocol.Peer {
					over, err := clienthttp.New(web.URL+"/mcp", nil)
					if err != nil {
						t.Fatal(err)
					}
					return over
				}}
			roundtriptest.Run(t, subject, flows...)
			roundtriptest.Attack(t, subject, flows[0])
		})
	}
}

type (
	kitRegion struct {
		Name string `json:"name" enum:"eu,us"`
	}
	kitReason struct {
		Reason string `json:"reason" minLength:"3"`
	}
)

func kitProvision(ctx context.Context, effects *roundtriptest.Effects,
	name string) (string, error) {
	region, err := roundtrip.Ask[kitRegion](ctx, "region", "Which region?")
	if err != nil {
		return "", err
	}
	sure, err := roundtrip.Ask[kitReason](ctx, "sure", "In "+region.Name+"?")
	if err != nil {
		return "", err
	}
	effects.Mark("provision")
	return name + " in " + region.Name + ": " + sure.Reason, nil
}

func kitOfficial(t *testing.T, effects *roundtriptest.Effects,
	opts roundtrip.Options) http.Handler {
	t.Helper()
	srv := mcp.NewServer(&mcp.Implementation{Name: "kit", Version: "1.0.0"}, nil)
	srv.AddTool(&mcp.Tool{Name: "provision", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct{ Name string }
			if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
				return nil, err
			}
			said, err := kitProvision(ctx, effects, in.Name)
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, nil
		})
	closeSessionsAfter(t, srv)
	opts.MinHumanTime = -1 // who answers here is a test, at once
	front, err := gosdk.New(srv, &gosdk.Options{Options: hosted.Options{
		Server: server.Options{Roundtrip: opts}}})
	return kitHandler(t, front, err)
}

func kitMCPGo(t *testing.T, effects *roundtriptest.Effects, opts roundtrip.Options) http.Handler {
	t.Helper()
	srv := mcpgoserver.NewMCPServer("kit", "1.0.0", mcpgoserver.WithElicitation())
	srv.AddTool(mcpgomcp.NewTool("provision", mcpgomcp.WithString("name")),
		func(ctx context.Context, req mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult, error) {
			said, err := kitProvision(ctx, effects, req.GetString("name", ""))
			if err != nil {
				return nil, err
			}
			return mcpgomcp.NewToolResultText(said), nil
		})
	opts.MinHumanTime = -1 // who answers here is a test, at once
	front, err := mcpgo.New(srv, &hosted.Options{Server: server.Options{Roundtrip: opts}})
	return kitHandler(t, front, err)
}

func kitHandler(t *testing.T, front *hosted.Server, err error) http.Handler {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	h, err := front.Handler(&serverhttp.Options{
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			return protocol.Principal{Subject: r.Header.Get("X-User")}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
