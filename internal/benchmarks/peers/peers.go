// Package peers lists the programs that are compared.
package peers

import (
	"context"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/gosdk"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/mcpgo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/reference"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/rondo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
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
	return []Server{
		{Reference, false, reference.New, reference.NewLegacy, reference.NewLegacy},
		{ReferenceSealed, true, reference.NewSealed, nil, nil},
		{Rondo, true, rondo.New, rondo.New, rondo.NewInPlace},
		{GoSDK, true, gosdk.New, gosdk.NewLegacy, gosdk.NewLegacy},
		{MCPGo, true, mcpgo.New, mcpgo.NewLegacy, mcpgo.NewLegacy},
	}
}

// Observed are the servers of the rows with logs and metrics. The references have
// neither: they are what a request costs without.
func Observed() []Server {
	return []Server{
		{Name: Reference, New: reference.New},
		{Name: ReferenceSealed, Seals: true, New: reference.NewSealed},
		{Name: Rondo, Seals: true, New: rondo.NewObserved},
	}
}

// Production are the servers of the rows with all that examples/production has on. The references
// are what a request costs without.
func Production() []Server {
	return []Server{
		{Name: Reference, New: reference.New},
		{Name: ReferenceSealed, Seals: true, New: reference.NewSealed},
		{Name: Rondo, Seals: true, New: rondo.NewProduction},
	}
}

// A Client is a client under comparison.
type Client struct {
	Name string
	Dial func(ctx context.Context, endpoint string, hc *http.Client) (wire.Caller, error)
}

// Clients are all clients, the reference first.
func Clients() []Client {
	return []Client{
		{Reference, reference.Dial},
		{Rondo, rondo.Dial},
		{GoSDK, gosdk.Dial},
		{MCPGo, mcpgo.Dial},
	}
}

// A Retrofit is a library with which servers were built before they were moved
// to the round trips of this one.
type Retrofit struct {
	Name          string
	Without, With func() http.Handler
}

// MaxRetrofitSurvey is how many questions they ask at once. The library does
// not know their forms before they are asked, so the state has to hold them;
// those of a hundred are more than it may be.
const MaxRetrofitSurvey = 10

// Retrofits are all of them.
func Retrofits() []Retrofit {
	return []Retrofit{
		{GoSDK, gosdk.New, gosdk.Retrofit},
		{MCPGo, mcpgo.New, mcpgo.Retrofit},
	}
}
