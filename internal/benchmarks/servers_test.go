package benchmarks_test

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/gosdk"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/mcpgo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/reference"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/rondo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

const ours = "rondo"

type peer struct {
	name      string
	seals     bool // refuses a changed state
	newServer func() http.Handler
}

func servers() []peer {
	return append(withReferences(rondo.New),
		peer{"go-sdk", true, gosdk.New},
		peer{"mcp-go", true, mcpgo.New})
}

// withReferences returns the reference servers, which do not log, count or limit, and our server.
func withReferences(server func() http.Handler) []peer {
	return []peer{
		{"reference", false, reference.New},
		{"reference, sealed", true, reference.NewSealed},
		{ours, true, server},
	}
}

type op struct {
	group, row, peer string
	// The function start prepares do, which may be called until stop. A wrong answer is an error.
	start func() (do func() error, stop func(), err error)
}

// A workload is a repeatable operation on a server without a socket.
type workload func(*wire.Handler) (func() error, error)

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
