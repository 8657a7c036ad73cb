//go:build node

package interop_test

import "testing"

// TestShapesWithTypeScript: the TypeScript SDK's clients visit every shape.
func TestShapesWithTypeScript(t *testing.T) {
	for _, route := range []struct {
		name, module, revision string
		negotiate              any
	}{
		{"client", "client", modern, map[string]string{"pin": modern}},
		{"client in sessions", "client", v20251125, "legacy"},
		{"sdk", "sdk", v20251125, nil},
	} {
		t.Run(route.name, func(t *testing.T) {
			ts := startTS(t, route.module)
			dial := func(t *testing.T, endpoint, _ string, v *visit, who *person,
				mute bool) peer {
				headers := map[string]string{}
				for name := range v.header {
					headers[name] = v.header.Get(name)
				}
				return ts.connect(t, who, map[string]any{"endpoint": endpoint, "mute": mute,
					"negotiate": route.negotiate, "headers": headers})
			}
			for name, all := range allShapes() {
				for sdk, x := range all {
					t.Run(name+"/"+sdk, func(t *testing.T) {
						t.Run("accept", func(t *testing.T) {
							x.checkAccept(t, dial, route.revision)
						})
						t.Run("no way to ask", func(t *testing.T) {
							x.checkMute(t, dial, route.revision)
						})
						if x.asksIn(route.revision) {
							t.Run("refuse", func(t *testing.T) {
								x.checkRefusals(t, dial, route.revision)
							})
						}
					})
				}
			}
		})
	}
}

// allShapes are all shapes by name.
func allShapes() map[string]shapes {
	return map[string]shapes{
		"server per request":           serversPerRequest(),
		"stateless with a fallback":    statelessWithFallback(),
		"questions in a round tripper": roundTrippers(),
		"hooks and a rate limiter":     limitedServers(),
		"authentication of the author": ownAuthentication(),
		"visit with a nonce":           visitsWithNonce(),
		"write timeout":                writeTimeouts(),
		"two replicas":                 twoReplicas(),
		"two stateless replicas":       twoStatelessReplicas(),
	}
}
