//go:build node

package interop_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

// TestTSClientRetrofit: the TypeScript SDK's clients, the official Go SDK's server with
// the adapter.
func TestTSClientRetrofit(t *testing.T) {
	for name, push := range map[string]bool{"returned": false, "pushed": true} {
		t.Run(name, func(t *testing.T) {
			defects := map[string]defect{}
			if push {
				defects = retrofitDefects(push)
			}
			defects["progress"] = defect{
				what: "progress that is read together with the response is dropped: who " +
					"waits for it is let go of first",
				harmless: true, silent: true,
			}
			matrix(t, modern, wiretest.Server,
				tsRetrofitRoutes(startTS(t, "client"), push, map[string]string{"pin": modern}),
				defects)
			matrix(t, v20251125, wiretest.Server,
				tsRetrofitRoutes(startTS(t, "client"), push, "legacy"), nil)
			matrix(t, v20251125, wiretest.Server, tsRetrofitRoutes(startTS(t, "sdk"), push, nil),
				nil)
		})
	}
}

// tsRetrofitRoutes are those over HTTP, and to a process that the client starts.
func tsRetrofitRoutes(ts *tsProcess, push bool, negotiate any) []route {
	return []route{
		{"http", func(t *testing.T, who *person, mute bool) (peer, said) {
			endpoint, said := listenRetrofit(t, push)
			return ts.connect(t, who, map[string]any{"endpoint": endpoint, "mute": mute,
				"negotiate": negotiate}), said
		}},
		{"process", func(t *testing.T, who *person, mute bool) (peer, said) {
			as := asRetrofit + "=returned"
			if push {
				as = asRetrofit + "=pushed"
			}
			return ts.process(t, as, who, mute, negotiate)
		}},
	}
}
