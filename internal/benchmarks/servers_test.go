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

// A peer is a server under comparison.
type peer struct {
	name      string
	seals     bool                // a state that was changed is refused
	newServer func() http.Handler // returns a new one
}

// servers are all servers, the reference first.
func servers() []peer {
	return append(withReferences(rondo.New),
		peer{"go-sdk", true, gosdk.New},
		peer{"mcp-go", true, mcpgo.New})
}

// withReferences are the references, which log, count and limit nothing, and a server of this
// library that may.
func withReferences(server func() http.Handler) []peer {
	return []peer{
		{"reference", false, reference.New},
		{"reference, sealed", true, reference.NewSealed},
		{ours, true, server},
	}
}

// An op is an operation of one peer that can be repeated.
type op struct {
	group, row, peer string
	// start prepares; do may be called any number of times until stop, one call after another. An
	// answer that is not as it should be is an error.
	start func() (do func() error, stop func(), err error)
}

// A workload makes something to repeat of a server that is called without a socket.
type workload func(*wire.Handler) (func() error, error)

// runOnEach is a workload for some servers.
func runOnEach(servers []peer, group, row string, work workload) (ops []op) {
	for _, s := range servers {
		ops = append(ops, newOp(group, row, s.name, s.newServer, work))
	}
	return ops
}

func newOp(group, row, peer string, newServer func() http.Handler, work workload) op {
	return op{group, row, peer, func() (func() error, func(), error) {
		do, err := work(wire.NewHandler(newServer()))
		return do, func() {}, err
	}}
}
