//go:build node

package interop_test

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestFrontDoorTS: clients of both generations of the TypeScript SDK before servers of both eras.
func TestFrontDoorTS(t *testing.T) {
	ours := httptest.NewServer(servertest.NewHandler(t, newSubject(t), nil))
	t.Cleanup(ours.Close)
	theirs := startNode(t, "server.mjs", "http").Line()
	for name, upstream := range map[string]gateway.Upstream{
		"rondo modern":      {Connect: gateway.HTTP(ours.URL, nil), Era: protocol.Modern},
		"TypeScript legacy": {Connect: gateway.HTTP(theirs, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			upstream.Name, upstream.Unprefixed = "up", frontDoorTools
			endpoint := startFrontDoor(t, upstream)
			for client, connect := range tsGuests() {
				t.Run(client, func(t *testing.T) {
					takeTwoThrough(t, endpoint, connect)
					checkSampling(t, endpoint, connect)
				})
			}
		})
	}
}

// tsGuests are the clients of the TypeScript SDK: the newer generation in either era, the older.
func tsGuests() map[string]guest {
	of := func(module string, negotiate any) guest {
		return func(t *testing.T, endpoint string, who *person) peer {
			return startTS(t, module).connect(t, who,
				map[string]any{"endpoint": endpoint, "mute": false, "negotiate": negotiate})
		}
	}
	return map[string]guest{
		"client modern": of("client", "auto"), "client legacy": of("client", "legacy"),
		"sdk": of("sdk", nil),
	}
}

// TestFrontDoorBeforeServerEverything: the server of npm that has all features, over HTTP and as a
// child process.
func TestFrontDoorBeforeServerEverything(t *testing.T) {
	dir := installed(t)
	script := dir.file("@modelcontextprotocol", "server-everything", "dist", "index.js")
	for name, upstream := range map[string]gateway.Upstream{
		"web":  {Connect: gateway.HTTP(serveNodeEverything(t, dir, script), nil)},
		"pipe": {Connect: gateway.Command(dir.node(), script, "stdio")},
	} {
		t.Run(name, func(t *testing.T) {
			upstream.Name = name
			endpoint := startFrontDoor(t, upstream)
			for client, connect := range tsGuests() {
				t.Run(client, func(t *testing.T) {
					who := newPerson(t, answers{
						"Please provide inputs for the following fields:": fmt.Sprintf(
							`{"name":%q,"check":true}`, "alice"),
						"Sign in, alice": "{}",
					})
					useServerEverything(t, connect(t, endpoint, who).(tsClient), name, "alice")
				})
			}
		})
	}
}
