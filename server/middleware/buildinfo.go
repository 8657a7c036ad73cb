package middleware

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// modulePath is that of this module.
const modulePath = "github.com/rondo-mcp/rondo"

// registerBuildInfo registers a gauge that is always 1 and whose labels say what
// runs: the release of this module, that of Go, and the revision of the program
// where the toolchain has recorded one.
func registerBuildInfo(r *registration) {
	version, revision := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Path == modulePath && info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, dependency := range info.Deps {
			if dependency.Path == modulePath {
				version = dependency.Version
			}
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	register(r, "build_info", prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: r.namespace, Name: "build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version(), "revision": revision},
	}, func() float64 { return 1 }))
}
