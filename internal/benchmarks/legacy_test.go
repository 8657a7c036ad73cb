package benchmarks_test

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/rondo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// legacyOps returns, in a session, a plain call, and a call with a pushed request and its answer.
func legacyOps() (ops []op) {
	for _, row := range []struct {
		name      string
		newServer func() http.Handler
		do        func(*wire.Session) error
	}{
		{"echo in a session", rondo.New, (*wire.Session).Echo},
		{"push and answer", rondo.New, (*wire.Session).Push},
		{"push and answer, in place", rondo.NewInPlace, (*wire.Session).Push},
	} {
		ops = append(ops, op{"legacy", row.name, ours, func() (func() error, func(), error) {
			session, err := wire.NewHandler(row.newServer()).Open()
			if err != nil {
				return nil, nil, err
			}
			return func() error { return row.do(session) }, session.Close, nil
		}})
	}
	return ops
}
