// Package servertest makes HTTP endpoints for tests, which end where one cannot be made.
package servertest

import (
	"testing"

	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// NewHandler returns the endpoint of srv. opts may be nil.
func NewHandler(t testing.TB, srv *server.Server, opts *serverhttp.Options) *serverhttp.Handler {
	t.Helper()
	h, err := serverhttp.New(srv, opts)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
