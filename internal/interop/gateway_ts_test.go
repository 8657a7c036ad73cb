//go:build node

package interop_test

import "testing"

// TestGatewayTS: two processes with the TypeScript client, of either generation.
func TestGatewayTS(t *testing.T) {
	for module, negotiate := range map[string]any{"client": "legacy", "sdk": nil} {
		t.Run(module, func(t *testing.T) {
			throughGateway(t, func(t *testing.T, endpoint string, who *person) peer {
				return startTS(t, module).connect(t, who,
					map[string]any{"endpoint": endpoint, "mute": false, "negotiate": negotiate})
			})
		})
	}
}
