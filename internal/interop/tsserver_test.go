//go:build node

package interop_test

import (
	"io"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

// TestTSSDKServer connects our client to a server of the TypeScript SDK's older generation, which
// knows older revisions only. The client finds that out.
func TestTSSDKServer(t *testing.T) {
	routes := []route{
		{"http", func(t *testing.T, who *person, mute bool) (peer, said) {
			endpoint, said := record(t, startNode(t, "server.mjs", "http").Line())
			return dialRondo(t, endpoint, who, mute), said
		}},
		{"process", func(t *testing.T, who *person, mute bool) (peer, said) {
			server := startNode(t, "server.mjs", "stdio")
			var lines wiretest.Log
			to := recorded{lines.Lines(wiretest.Client, server.In), server.In}
			from := readCloser{io.TeeReader(server.Out, lines.Lines(wiretest.Server, io.Discard)),
				server.Out}
			return connectRondo(t, overLines(from, to), who, mute), lines.Messages
		}},
	}
	matrix(t, v20251125, wiretest.Client, routes, nil)
}

type readCloser struct {
	io.Reader
	io.Closer
}
