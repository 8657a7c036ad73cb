package cases

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/benchmarks/drive"
	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers"
)

// The rows of [Legacy].
const (
	SessionEchoRow = "echo in a session"
	PushRow        = "push and answer"
	PushInPlaceRow = "push and answer, in place"
)

// Legacy is a question in a session of an older revision: a call, the request
// that the server pushes, its answer, the result. The SDKs ask in place only.
func Legacy() (ops []measure.Op) {
	for _, row := range []struct {
		name    string
		inPlace bool
		do      func(*drive.Session) error
	}{
		{SessionEchoRow, false, (*drive.Session).Echo},
		{PushRow, false, (*drive.Session).Push},
		{PushInPlaceRow, true, (*drive.Session).Push},
	} {
		for _, s := range peers.Servers() {
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

func inSession(do func(*drive.Session) error) workload {
	return func(h http.Handler) (func() error, func(), error) {
		session, err := drive.NewHandler(h).Open()
		if err != nil {
			return nil, nil, err
		}
		return func() error { return do(session) }, session.Close, nil
	}
}
