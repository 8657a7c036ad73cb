package bearer_test

import (
	"context"
	"net/http"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// newHandler returns a server at the URL resource that accepts the tokens of issuer.
func newHandler(resource, issuer string) (http.Handler, error) {
	guard, err := bearer.New(bearer.Options{
		Resource:  resource,
		Issuers:   []bearer.Issuer{{URL: issuer}},
		Scopes:    []string{"notes:read"},
		Supported: []string{"notes:read", "notes:write"},
	})
	if err != nil {
		return nil, err
	}
	srv, err := server.New(nil)
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "add_note", Description: "Adds a note.",
		Scopes: []string{"notes:read", "notes:write"}}, addNote)
	endpoint, err := serverhttp.New(srv, &serverhttp.Options{Authority: guard})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	mux.Handle(guard.Metadata())
	return mux, nil
}

// addNote runs only if the caller's token has all scopes of the tool.
func addNote(_ context.Context, call *server.ToolCall, note struct {
	Text string `json:"text"`
}) (protocol.CallToolOutcome, error) {
	return server.Text("noted for " + call.Principal.Subject + ": " + note.Text), nil
}
