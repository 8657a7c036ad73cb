package measure

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"time"

	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/gosdk"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/rondo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
	"github.com/rondo-mcp/rondo/server/bearer"
)

// The rows of which the budget holds the allocations.
const (
	OpenEchoRow   = "echo, no authority"
	CachedEchoRow = "echo, cached token"
)

// Authority is a plain call without a token, with one that was verified before, and with one that
// is verified each time; and the middleware before a handler that does nothing. The middleware of
// the SDK has no verifier of its own: it gets ours, with the same cache.
func Authority() (ops []Op) {
	const remembersNone = -1
	type protector = func(*rondo.Authority) http.Handler
	for _, row := range []struct {
		name         string
		remembered   int
		ours, theirs protector
		start        func(*wire.Handler) (func() error, error)
	}{
		{CachedEchoRow, 0, (*rondo.Authority).NewServer, protect(gosdk.New), echo},
		{"echo, ES256 verified each time", remembersNone,
			(*rondo.Authority).NewServer, protect(gosdk.New), echo},
		{"middleware alone, cached token", 0, func(a *rondo.Authority) http.Handler {
			return a.Guard.RequireBearer(newNothing())
		}, protect(newNothing), doNothing},
	} {
		op := func(peer string, newServer protector) Op {
			authority := rondo.NewAuthority(row.remembered)
			return newOp(AuthorityGroup, row.name, peer,
				func() http.Handler { return newServer(authority) },
				onHandler(func(d *wire.Handler) (func() error, error) {
					d.SetHeader("Authorization", "Bearer "+authority.Token("ann"))
					return row.start(d)
				}))
		}
		ops = append(ops, op(Rondo, row.ours), op(GoSDK, row.theirs))
	}
	return append([]Op{
		newOp(AuthorityGroup, OpenEchoRow, Rondo, rondo.New, onHandler(echo)),
		newOp(AuthorityGroup, OpenEchoRow, GoSDK, gosdk.New, onHandler(echo)),
	}, ops...)
}

func newNothing() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
}

// doNothing is a call of a handler that does nothing.
func doNothing(d *wire.Handler) (func() error, error) {
	c := wire.EchoCall()
	return func() error {
		if status, response := d.Do(c, nil); status != http.StatusNoContent {
			return fmt.Errorf("status %d: %.300s", status, response)
		}
		return nil
	}, nil
}

// protect has the SDK verify tokens as we do.
func protect(newServer func() http.Handler) func(*rondo.Authority) http.Handler {
	return func(a *rondo.Authority) http.Handler {
		return gosdk.Protect(newServer(), func(r *http.Request) (subject string, scopes []string,
			expiry time.Time, err error) {
			id, err := a.Guard.Identify(r)
			if err != nil {
				return "", nil, time.Time{}, err
			}
			token, _ := bearer.TokenFrom(id.Values(r.Context()))
			return token.Subject, token.Scopes, token.Expiry, nil
		})
	}
}

// CachedTokens is the memory that a verified token takes.
func CachedTokens() []Case {
	const n = 10_000
	return []Case{{Group: AuthorityGroup, Row: "cached token", Peer: Rondo,
		Run: func(time.Duration) (Sample, error) {
			authority := rondo.NewAuthority(2 * n)
			requests := make([]*http.Request, 2*n)
			for i := range requests {
				token := authority.Token(strconv.Itoa(i))
				requests[i] = httptest.NewRequest(http.MethodPost, "/mcp", nil)
				requests[i].Header.Set("Authorization", "Bearer "+token)
			}
			next := 0
			sample, err := Kept(n, func() error {
				_, err := authority.Guard.Identify(requests[next])
				next++
				return err
			})
			runtime.KeepAlive(requests)
			runtime.KeepAlive(authority)
			return sample, err
		}}}
}
