package benchmarks_test

import (
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/rondo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// authorityOps returns a call with a token verified before, and one that verifies it each time.
func authorityOps() (ops []op) {
	const remembersNone = -1
	for row, remembered := range map[string]int{cachedEchoRow: 0,
		"echo, ES256 verified each time": remembersNone} {
		authority := rondo.NewAuthority(remembered)
		ops = append(ops, newOp("authority", row, ours, authority.NewServer,
			func(d *wire.Handler) (func() error, error) {
				d.SetHeader("Authorization", "Bearer "+authority.Token("ann"))
				return echo(d)
			}))
	}
	return ops
}
