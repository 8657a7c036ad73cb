package cases

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/benchmarks/drive"
	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// Retrofit is what servers of other libraries do when their handlers are moved
// to this one's round trips (packages roundtrip/gosdk and roundtrip/mcpgo),
// beside the same servers whose handlers return their questions and seal their
// state by hand.
func Retrofit() (ops []measure.Op) {
	for _, row := range []struct {
		name string
		work workload
	}{
		{"echo", plain(wire.EchoCall)},
		{"flow", flow(wire.DeployCall, deployAnswer(0))},
	} {
		for _, r := range peers.Retrofits() {
			for _, side := range []struct {
				name string
				new  func() http.Handler
			}{{"as it is", r.Without}, {"with rondo", r.With}} {
				ops = append(ops, measure.Op{Group: RetrofitGroup, Row: r.Name + ", " + row.name,
					Peer: side.name, Start: func() (func() error, func(), error) {
						do, err := row.work(drive.NewHandler(side.new()))
						return do, func() {}, err
					}})
			}
		}
	}
	return ops
}
