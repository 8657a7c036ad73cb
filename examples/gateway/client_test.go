package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
)

// through returns a client of alice's, of a gateway before the upstream.
func through(t *testing.T, upstream http.Handler, opts client.Options) *client.Client {
	t.Helper()
	up := httptest.NewServer(upstream)
	t.Cleanup(up.Close)
	g, err := newGateway(t.Context(),
		config{upstreams: map[string]string{"up": up.URL}, users: alice}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.shutdown)
	return connectAs(t, g, "alice", opts)
}

// connectAs returns a client of the gateway that has a token.
func connectAs(t *testing.T, g *gateway, token string, opts client.Options) *client.Client {
	t.Helper()
	down := httptest.NewServer(g.handler())
	t.Cleanup(down.Close)
	transport, err := clienthttp.New(down.URL+"/mcp",
		&clienthttp.Options{Header: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		t.Fatal(err)
	}
	opts.Era = protocol.Legacy
	c, err := client.New(transport, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
