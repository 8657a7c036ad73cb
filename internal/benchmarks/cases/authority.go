package cases

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"time"

	"github.com/rondo-mcp/rondo/internal/benchmarks/drive"
	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/gosdk"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/rondo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
	"github.com/rondo-mcp/rondo/server/bearer"
)

const (
	// AuthorityGroup is what it costs to know who is calling.
	AuthorityGroup = "authority"

	// The rows of which the budget holds the allocations.
	OpenEchoRow   = "echo, no authority"
	CachedEchoRow = "echo, cached token"

	verifiedEchoRow = "echo, ES256 verified each time"
	middlewareRow   = "middleware alone, cached token"
)

// Authority is a plain call without a token, with one that was verified before, and with one that
// is verified each time; and the middleware before a handler that does nothing. The middleware of
// the SDK has no verifier of its own: it gets ours, with the same cache.
func Authority() []measure.Op {
	const none = -1
	return concat(
		[]measure.Op{
			unguarded(peers.Rondo, rondo.New),
			unguarded(peers.GoSDK, gosdk.New),
		},
		guarded(CachedEchoRow, 0, (*rondo.Authority).NewServer, protectSDK),
		guarded(verifiedEchoRow, none, (*rondo.Authority).NewServer, protectSDK),
		guarded(middlewareRow, 0,
			func(a *rondo.Authority) http.Handler { return a.Guard.RequireBearer(nothing()) },
			func(a *rondo.Authority) http.Handler { return gosdk.Protect(nothing(), identify(a)) }),
	)
}

func unguarded(peer string, newServer func() http.Handler) measure.Op {
	return measure.Op{Group: AuthorityGroup, Row: OpenEchoRow, Peer: peer,
		Start: func() (func() error, func(), error) {
			do, err := plain(wire.EchoCall)(drive.NewHandler(newServer()))
			return do, func() {}, err
		}}
}

// guarded is a row of both peers behind an authority of their own.
func guarded(row string, remembered int,
	ours, theirs func(*rondo.Authority) http.Handler) (ops []measure.Op) {
	for _, of := range []struct {
		peer       string
		newHandler func(*rondo.Authority) http.Handler
	}{{peers.Rondo, ours}, {peers.GoSDK, theirs}} {
		ops = append(ops, measure.Op{Group: AuthorityGroup, Row: row, Peer: of.peer,
			Start: func() (func() error, func(), error) {
				authority, err := rondo.NewAuthority(remembered)
				if err != nil {
					return nil, nil, err
				}
				token := authority.Token("ann")
				d := drive.NewHandler(of.newHandler(authority))
				d.SetHeader("Authorization", "Bearer "+token)
				do, err := plain(wire.EchoCall)(d)
				if row == middlewareRow {
					do = alone(d)
				}
				return do, func() {}, err
			}})
	}
	return ops
}

// alone is a call of a handler that does nothing.
func alone(d *drive.Handler) func() error {
	c := wire.EchoCall()
	return func() error {
		if status, response := d.Do(c, nil); status != http.StatusNoContent {
			return fmt.Errorf("status %d: %.300s", status, response)
		}
		return nil
	}
}

func nothing() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
}

func protectSDK(a *rondo.Authority) http.Handler { return gosdk.Protect(gosdk.New(), identify(a)) }

// identify has the SDK verify tokens as we do.
func identify(a *rondo.Authority) gosdk.Identifier {
	return func(r *http.Request) (subject string, scopes []string, expiry time.Time, err error) {
		id, err := a.Guard.Identify(r)
		if err != nil {
			return "", nil, time.Time{}, err
		}
		token, _ := bearer.TokenFrom(id.Values(r.Context()))
		return token.Subject, token.Scopes, token.Expiry, nil
	}
}

// CachedTokens is the memory that a verified token takes.
func CachedTokens() []measure.Case {
	const n = 10_000
	return []measure.Case{{Group: AuthorityGroup, Row: "cached token", Peer: peers.Rondo,
		Run: func(time.Duration) (measure.Sample, error) {
			authority, err := rondo.NewAuthority(2 * n)
			if err != nil {
				return nil, err
			}
			requests := make([]*http.Request, 2*n)
			for i := range requests {
				token := authority.Token(strconv.Itoa(i))
				requests[i] = httptest.NewRequest(http.MethodPost, "/mcp", nil)
				requests[i].Header.Set("Authorization", "Bearer "+token)
			}
			next := 0
			sample, err := kept(n, func() error {
				_, err := authority.Guard.Identify(requests[next])
				next++
				return err
			})
			runtime.KeepAlive(requests)
			runtime.KeepAlive(authority)
			return sample, err
		}}}
}
