//go:build node

package interop_test

import "testing"

func TestWriteTimeoutWithTypeScript(t *testing.T) {
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
			for sdk, x := range shapes() {
				t.Run(sdk, func(t *testing.T) {
					x.checkWriteTimeout(t, dial, route.revision)
				})
			}
		})
	}
}
