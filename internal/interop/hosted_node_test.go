//go:build node

package interop_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

// TestTSClientHosted connects the TypeScript SDK's clients to hosted servers of both Go SDKs.
func TestTSClientHosted(t *testing.T) {
	for _, h := range hostedServers() {
		t.Run(h.name, func(t *testing.T) {
			defects := maps.Clone(h.defects(modern))
			maps.DeleteFunc(defects, func(name string, _ defect) bool {
				return strings.Contains(name, "/") // routes of clients in Go
			})
			defects["progress"] = defect{
				what: "progress that is read together with the response is dropped: who " +
					"waits for it is let go of first",
				harmless: true, silent: true,
			}
			matrix(t, modern, wiretest.Server,
				h.tsRoutes(startTS(t, "client"), map[string]string{"pin": modern}), defects)
			legacy := h.defects(v20251125)
			matrix(t, v20251125, wiretest.Server, h.tsRoutes(startTS(t, "client"), "legacy"),
				legacy)
			matrix(t, v20251125, wiretest.Server, h.tsRoutes(startTS(t, "sdk"), nil), legacy)
		})
	}
}

// tsRoutes returns routes over HTTP, and to a process that the client starts.
func (h hostedServer) tsRoutes(ts *tsProcess, negotiate any) []route {
	return []route{
		{"http", func(t *testing.T, who *person, mute bool) (peer, said) {
			endpoint, said := h.listen(t)
			return ts.connect(t, who, map[string]any{"endpoint": endpoint, "mute": mute,
				"negotiate": negotiate}), said
		}},
		{"process", func(t *testing.T, who *person, mute bool) (peer, said) {
			return ts.process(t, asHosted+"="+quote(h.name), who, mute, negotiate)
		}},
	}
}
