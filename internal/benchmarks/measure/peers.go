package measure

// This file lists the servers that are compared.

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/gosdk"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/mcpgo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/reference"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/rondo"
)

// The names of peers, which are the columns of the table.
const (
	Reference       = "reference"
	ReferenceSealed = "reference, sealed"
	Rondo           = "rondo"
	GoSDK           = "go-sdk v1.8.0"
	MCPGo           = "mcp-go v1.2.1"
)

// A Server is a server under comparison. Its functions return a new one.
type Server struct {
	Name   string
	Seals  bool                // a state that was changed is refused
	New    func() http.Handler // of the newest revision
	Legacy func() http.Handler // with sessions of older revisions; nil: there are none
	// InPlace is Legacy with a handler that waits for the answer where it asks.
	InPlace func() http.Handler
}

// Servers are all servers, the reference first.
func Servers() []Server {
	return append(With(rondo.New),
		Server{GoSDK, true, gosdk.New, gosdk.NewLegacy, gosdk.NewLegacy},
		Server{MCPGo, true, mcpgo.New, mcpgo.NewLegacy, mcpgo.NewLegacy})
}

// With are the references, which log, count and limit nothing, and a server of this library that
// may.
func With(server func() http.Handler) []Server {
	return []Server{
		{Reference, false, reference.New, reference.NewLegacy, reference.NewLegacy},
		{ReferenceSealed, true, reference.NewSealed, nil, nil},
		{Rondo, true, server, server, rondo.NewInPlace},
	}
}
