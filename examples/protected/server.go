package main

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// These are the server's scopes. Every request needs the first, and add_note needs both.
const (
	scopeRead  = "notes:read"
	scopeWrite = "notes:write"
)

// A notebook has the notes of each person.
type notebook struct {
	mu    sync.Mutex
	notes map[string][]string // by the person's subject
}

type addInput struct {
	Text string `json:"text" jsonschema:"what to write down"`
}

// newServer's only code for authorization is the scopes of one tool.
func newServer(notes *notebook) (*server.Server, error) {
	srv, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "notes", Version: "1.0.0"},
	})
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "list_notes", Description: "Lists your notes."},
		notes.list)
	server.AddTool(srv, server.Tool{Name: "add_note", Description: "Adds a note.",
		Scopes: []string{scopeRead, scopeWrite}}, notes.add)
	return srv, nil
}

func (n *notebook) list(_ context.Context, call *server.ToolCall,
	_ struct{}) (protocol.CallToolOutcome, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	mine := n.notes[call.Principal.Subject]
	if len(mine) == 0 {
		return server.Text("no notes yet"), nil
	}
	return server.Text(strings.Join(mine, "; ")), nil
}

func (n *notebook) add(_ context.Context, call *server.ToolCall,
	in addInput) (protocol.CallToolOutcome, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	owner := call.Principal.Subject
	n.notes[owner] = append(n.notes[owner], in.Text)
	return server.Text("noted"), nil
}

func protect(srv *server.Server, resource, issuer string) (http.Handler, error) {
	guard, err := bearer.New(bearer.Options{
		Resource:  resource,
		Issuers:   []bearer.Issuer{{URL: issuer}},
		Scopes:    []string{scopeRead},
		Supported: []string{scopeRead, scopeWrite},
	})
	if err != nil {
		return nil, err
	}
	endpoint, err := serverhttp.New(srv, &serverhttp.Options{Authority: guard})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	mux.Handle(guard.Metadata())
	return mux, nil
}
