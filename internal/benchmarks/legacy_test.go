package benchmarks_test

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// The rows of [legacyOps].
const (
	sessionEchoRow = "echo in a session"
	pushRow        = "push and answer"
	pushInPlaceRow = "push and answer, in place"
)

// legacyOps are a question in a session of an older revision: a call, the request
// that the server pushes, its answer, the result. The SDKs ask in place only.
func legacyOps() (ops []op) {
	for _, row := range []struct {
		name    string
		inPlace bool
		do      func(*wire.Session) error
	}{
		{sessionEchoRow, false, (*wire.Session).Echo},
		{pushRow, false, (*wire.Session).Push},
		{pushInPlaceRow, true, (*wire.Session).Push},
	} {
		for _, s := range servers() {
			newServer := s.newLegacy
			if row.inPlace {
				newServer = s.newInPlace
			}
			if newServer != nil {
				ops = append(ops, newOp("legacy", row.name, s.name, newServer,
					inSession(row.do)))
			}
		}
	}
	return ops
}

func inSession(do func(*wire.Session) error) workload {
	return func(h http.Handler) (func() error, func(), error) {
		session, err := wire.NewHandler(h).Open()
		if err != nil {
			return nil, nil, err
		}
		return func() error { return do(session) }, session.Close, nil
	}
}
