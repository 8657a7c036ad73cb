package measure

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// The rows of [Legacy].
const (
	SessionEchoRow = "echo in a session"
	PushRow        = "push and answer"
	PushInPlaceRow = "push and answer, in place"
)

// Legacy is a question in a session of an older revision: a call, the request
// that the server pushes, its answer, the result. The SDKs ask in place only.
func Legacy() (ops []Op) {
	for _, row := range []struct {
		name    string
		inPlace bool
		do      func(*wire.Session) error
	}{
		{SessionEchoRow, false, (*wire.Session).Echo},
		{PushRow, false, (*wire.Session).Push},
		{PushInPlaceRow, true, (*wire.Session).Push},
	} {
		for _, s := range Servers() {
			newServer := s.Legacy
			if row.inPlace {
				newServer = s.InPlace
			}
			if newServer != nil {
				ops = append(ops, newOp(LegacyGroup, row.name, s.Name, newServer,
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
