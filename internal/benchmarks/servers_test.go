package benchmarks_test

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/gosdk"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/mcpgo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/reference"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/rondo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// ours is the name of this library among the peers.
const ours = "rondo"

// A peer is a server under comparison. Its functions return a new one.
type peer struct {
	name      string
	seals     bool                // a state that was changed is refused
	newModern func() http.Handler // of the newest revision
	newLegacy func() http.Handler // with sessions of older revisions; nil: there are none
	// newInPlace is newLegacy with a handler that waits for the answer where it asks.
	newInPlace func() http.Handler
}

// servers are all servers, the reference first.
func servers() []peer {
	return append(withReferences(rondo.New),
		peer{"go-sdk", true, gosdk.New, gosdk.NewLegacy, gosdk.NewLegacy},
		peer{"mcp-go", true, mcpgo.New, mcpgo.NewLegacy, mcpgo.NewLegacy})
}

// withReferences are the references, which log, count and limit nothing, and a server of this
// library that may.
func withReferences(server func() http.Handler) []peer {
	return []peer{
		{"reference", false, reference.New, reference.NewLegacy, reference.NewLegacy},
		{"reference, sealed", true, reference.NewSealed, nil, nil},
		{ours, true, server, server, rondo.NewInPlace},
	}
}

// An op is an operation of one peer that can be repeated.
type op struct {
	group, row, peer string
	// start prepares; do may be called any number of times until stop, one call after another. An
	// answer that is not as it should be is an error.
	start func() (do func() error, stop func(), err error)
}

// A workload makes something to repeat, and a function to stop, of a server.
type workload func(http.Handler) (do func() error, stop func(), err error)

// runOnEach is a workload for some servers.
func runOnEach(servers []peer, group, row string, work workload) (ops []op) {
	for _, s := range servers {
		ops = append(ops, newOp(group, row, s.name, s.newModern, work))
	}
	return ops
}

func newOp(group, row, peer string, newServer func() http.Handler, work workload) op {
	return op{group, row, peer,
		func() (func() error, func(), error) { return work(newServer()) }}
}

// onHandler is a workload that needs no more than a driver.
func onHandler(start func(*wire.Handler) (func() error, error)) workload {
	return func(h http.Handler) (func() error, func(), error) {
		do, err := start(wire.NewHandler(h))
		return do, func() {}, err
	}
}
