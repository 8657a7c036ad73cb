//go:build node

package interop_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// Clients without elicitation reach their person by the link in the first call's result.
func TestClientsWithoutElicitationReachTheirPerson(t *testing.T) {
	page := &servertest.Page{}
	srv, err := server.New(&server.Options{Info: servertest.Info(),
		Roundtrip: roundtrip.Options{Page: page}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	server.AddTool(srv, server.Tool{Name: "deploy"}, func(ctx context.Context,
		_ *server.ToolCall, _ struct{}) (protocol.CallToolOutcome, error) {
		got, err := roundtrip.Ask[struct {
			Target string `json:"target"`
		}](ctx, "where", "Deploy where?")
		return server.Text("deployed to " + got.Target), err
	})
	endpoint, _ := listen(t, servertest.NewHandler(t, srv, &serverhttp.Options{
		Authenticate: func(*http.Request) (protocol.Principal, error) {
			return protocol.Principal{Subject: "ann"}, nil
		}}))
	for _, c := range []struct{ name, revision string }{
		{"official", modern}, {"official", v20251125}, {"mcp-go", modern}, {"mcp-go", v20251125},
		{"client", modern}, {"client", v20251125}, {"sdk", v20251125},
	} {
		t.Run(c.name+"/"+c.revision, func(t *testing.T) {
			client := dialMake(t, c.name, c.revision, endpoint)
			call := func() string {
				text, err := client.do(within(t, patience), request{
					Method: protocol.MethodCallTool, Target: "deploy"})
				if err != nil {
					text = err.Error()
				}
				return text
			}
			if text := call(); !page.Answer(text, func(string) string {
				return `{"target":"prod"}`
			}) {
				t.Fatalf("got %q, want a link", text)
			}
			if text := call(); text != "deployed to prod" {
				t.Errorf("got %q", text)
			}
		})
	}
}
