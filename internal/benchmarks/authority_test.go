package benchmarks_test

import (
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/rondo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// The rows of which the budget holds the allocations.
const (
	openEchoRow   = "echo, no authority"
	cachedEchoRow = "echo, cached token"
)

// authorityOps are a plain call without a token, with one that was verified before, and with one
// that is verified each time.
func authorityOps() []op {
	const remembersNone = -1
	protected := func(row string, remembered int) op {
		authority := rondo.NewAuthority(remembered)
		return newOp("authority", row, ours, authority.NewServer,
			onHandler(func(d *wire.Handler) (func() error, error) {
				d.SetHeader("Authorization", "Bearer "+authority.Token("ann"))
				return echo(d)
			}))
	}
	return []op{
		newOp("authority", openEchoRow, ours, rondo.New, onHandler(echo)),
		protected(cachedEchoRow, 0),
		protected("echo, ES256 verified each time", remembersNone),
	}
}
