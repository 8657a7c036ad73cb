package archtest_test

import (
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers maps each public package to the public packages that it may reach, also indirectly.
var layers = map[string][]string{
	"protocol":                  {},
	"roundtrip/event":           {"protocol"},
	"roundtrip/keys":            {},
	"roundtrip/store":           {"protocol"},
	"roundtrip/store/storetest": {"protocol", "roundtrip/store"},
	"roundtrip/sqlstore":        {"protocol", "roundtrip/store"},
	"roundtrip": {"protocol", "roundtrip/event", "roundtrip/keys",
		"roundtrip/store"},
	"roundtrip/consent": {"protocol", "roundtrip/event"},
	"roundtrip/visit":   withRoundtrip("protocol"),
	"server":            withRoundtrip("protocol"),
	"server/tasks":      withRoundtrip("protocol", "server"),
	"server/replicas":   {"roundtrip/keys"},
	"server/serverhttp": withRoundtrip("protocol", "server", "server/replicas"),
	"server/bearer": withRoundtrip("protocol", "server", "server/replicas",
		"server/serverhttp"),
	"server/inspect": withRoundtrip("protocol", "client", "server"),
	"server/hosted": withRoundtrip("protocol", "server", "server/replicas",
		"server/serverhttp"),
	"server/middleware":         withRoundtrip("protocol", "server"),
	"server/middleware/zaplog":  {"protocol", "roundtrip/event"},
	"server/middleware/sloglog": {"protocol", "roundtrip/event"},
	"server/middleware/prom":    {"protocol", "roundtrip/event"},
	// Clients reach events through internal/wire/lineio, whose servers use them for refusals.
	"client":                 {"protocol", "roundtrip/event"},
	"client/clienthttp":      {"protocol", "roundtrip/event", "client"},
	"client/oauth":           {"protocol", "roundtrip/event", "client", "client/clienthttp"},
	"elicitation":            {"protocol", "roundtrip/event"},
	"elicitation/streamhttp": {"protocol", "roundtrip/event", "elicitation"},
	"elicitation/gateway": withRoundtrip("protocol", "elicitation", "client",
		"client/clienthttp", "client/oauth", "server", "server/replicas", "server/serverhttp"),

	"roundtrip/roundtriptest": withRoundtrip("protocol", "client", "client/clienthttp",
		"server", "server/tasks"),
	"server/bearer/bearertest": withRoundtrip("protocol", "server", "server/replicas",
		"server/serverhttp", "server/bearer"),
	"roundtrip/roundtriptest/cmd/mcpattack": {"protocol", "roundtrip/event", "client",
		"client/clienthttp"},
}

// withRoundtrip returns packages plus roundtrip and the packages that configure it.
func withRoundtrip(packages ...string) []string {
	return append(packages, "roundtrip", "roundtrip/event", "roundtrip/keys", "roundtrip/store")
}

// helpers are for tests only: no other package may import them.
var helpers = map[string]bool{
	"internal/testing/hostedtest": true,
	"internal/testing/chaos":      true,
	"internal/testing/oauthtest":  true,
	"internal/testing/servertest": true,
	"internal/testing/testkit":    true,
	"internal/testing/wiretest":   true,
}

// mayUseHTTP explains imports of net/http by packages whose names do not end in "http".
var mayUseHTTP = map[string]string{
	"client/oauth": "asks authorization servers over HTTP, takes a browser's callback, and serves " +
		"the metadata of a client",
	"elicitation/gateway": "serves the pages of logins at upstreams",
	"roundtrip/visit":     "serves the pages that people are sent to",
	"server/bearer": "reads tokens from HTTP requests, asks issuers over HTTP, and serves " +
		"metadata",
	"server/bearer/bearertest": "is an issuer that serves its keys",
	"server/inspect":           "is a page",
	"server/hosted":            "keeps headers of HTTP requests for handlers",

	"internal/testing/servertest":            "serves tests over pipes and as replicas",
	"internal/testing/chaos":                 "has replicas that serve HTTP, and clients that call them",
	"internal/testing/hostedtest":            "is a client that sends headers",
	"internal/testing/oauthtest":             "is an authorization server, a protected resource and a browser",
	"internal/testing/wiretest":              "records what passes through an http.RoundTripper",
	"internal/conformance/everything":        "is a server that the official suite tries",
	"internal/conformance/everything-client": "logs in where the official suite wants it",

	"roundtrip/roundtriptest": "counts what passes through an http.RoundTripper, and serves a " +
		"test's handler",
}

func TestImports(t *testing.T) {
	for _, violation := range importViolations(list(t,
		[]string{"-json=ImportPath,Name,Imports,Deps"})) {
		t.Error(violation)
	}
}

func importViolations(packages []pkg) []string {
	var found []string
	present := make(map[string]bool)
	for _, p := range packages {
		name, ok := rel(p.ImportPath)
		if !ok {
			continue
		}
		present[name] = true
		for _, complaint := range slices.Concat(layering(name, p), outside(name, p)) {
			found = append(found, name+" "+complaint)
		}
	}
	for name := range mayUseHTTP {
		if present[name] && !slices.ContainsFunc(packages, func(p pkg) bool {
			return p.ImportPath == module+"/"+name && slices.Contains(p.Imports, "net/http")
		}) {
			found = append(found, name+" does not import net/http any more: drop the exception")
		}
	}
	slices.Sort(found)
	return found
}

// layering checks a package against layers.
func layering(name string, p pkg) []string {
	var found []string
	for _, imported := range p.Imports {
		if target, ok := rel(imported); ok && helpers[target] && !helpers[name] {
			found = append(found, fmt.Sprintf("imports %s, which is for tests alone", target))
		}
	}
	if strings.HasPrefix(name, "examples/") {
		return found // unrestricted
	}
	allowed, known := layers[name]
	internal := strings.HasPrefix(name, "internal/")
	if !known && !internal && name != "." {
		found = append(found, "has no place in the layers: say there what it may reach")
	}
	for _, dep := range p.Deps {
		target, ok := rel(dep)
		switch {
		case !ok:
		case name == "internal/wire/jsonx":
			found = append(found, "imports "+target+
				": it is the bottom and imports nothing of the module")
		case strings.HasPrefix(target, "internal/") || internal:
			// Internal packages may use public ones; their importers inherit these dependencies.
		case !slices.Contains(allowed, target):
			found = append(found, "reaches "+target)
		}
	}
	return found
}

// The function outside checks a package's external imports.
func outside(name string, p pkg) []string {
	var found []string
	http := strings.HasSuffix(path.Base(name), "http") || strings.HasPrefix(name, "examples/") ||
		mayUseHTTP[name] != ""
	if slices.Contains(p.Imports, "net/http") && !http {
		found = append(found, "imports net/http: only packages whose names end in http do")
	}
	for _, dep := range p.Deps {
		switch name {
		case "protocol", "roundtrip", "roundtrip/event":
			if heavy(dep) {
				found = append(found, "reaches "+dep+
					": it must run without HTTP, logging and metrics")
			}
		case "server", "server/serverhttp", "server/middleware", "server/middleware/sloglog",
			"elicitation", "elicitation/gateway":
			if isTelemetry(dep) {
				found = append(found, "reaches "+dep+
					": its hosts choose their loggers and metrics")
			}
		}
	}
	return found
}

func heavy(importPath string) bool {
	return importPath == "net/http" || strings.HasPrefix(importPath, "net/http/") ||
		isTelemetry(importPath)
}

func isTelemetry(importPath string) bool {
	return strings.HasPrefix(importPath, "go.uber.org/zap") ||
		strings.HasPrefix(importPath, "github.com/prometheus/")
}

// An existing server must be able to keep its own loggers and metrics, in its own versions.
func TestAdaptersCompileNoTelemetry(t *testing.T) {
	for _, dir := range []string{"server/hosted/gosdk", "server/hosted/mcpgo"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
		cmd.Dir = filepath.Join(root(t), filepath.FromSlash(dir))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list in %s: %v", dir, err)
		}
		deps := strings.Fields(string(out))
		if !slices.Contains(deps, module+"/roundtrip/event") {
			t.Errorf("%s does not reach events: go list named %d packages", dir, len(deps))
		}
		for _, dep := range deps {
			if isTelemetry(dep) {
				t.Errorf("%s reaches %s", dir, dep)
			}
		}
	}
}

// TestImportRulesBite breaks one rule at a time in a valid package.
func TestImportRulesBite(t *testing.T) {
	for _, test := range []struct {
		name, target string
		direct       bool   // imported, not only reached
		want         string // part of the violation; empty if there is none
	}{
		{"server", "/roundtrip", true, ""},
		{"protocol", "/internal/wire/jsonx", true, ""},
		{"examples/quickstart", "net/http", true, ""},
		{"client/clienthttp", "net/http", true, ""},
		{"server", "net/http", true, "server imports net/http"},
		{"roundtrip", "net/http", false, "roundtrip reaches net/http"},
		{"protocol", "go.uber.org/zap/zapcore", false, "protocol reaches go.uber.org/zap/zapcore"},
		{"roundtrip", "github.com/prometheus/client_golang/prometheus", false,
			"roundtrip reaches github.com/prometheus"},
		{"server/middleware", "github.com/prometheus/client_golang/prometheus", false,
			"server/middleware reaches github.com/prometheus"},
		{"client", "/server", true, "client reaches server"},
		{"server/serverhttp", "/client/clienthttp", false,
			"server/serverhttp reaches client/clienthttp"},
		{"roundtrip", "/elicitation", true, "roundtrip reaches elicitation"},
		{"elicitation", "/roundtrip", true, "elicitation reaches roundtrip"},
		{"protocol", "/roundtrip", true, "protocol reaches roundtrip"},
		{"internal/wire/jsonx", "/internal/forms/form", true,
			"internal/wire/jsonx imports internal/forms/form"},
		{"server", "/internal/testing/wiretest", true, "for tests alone"},
		{"extra", "fmt", true, "extra has no place"},
		{"internal/testing/wiretest", "fmt", true, "drop the exception"},
	} {
		t.Run(test.name+" to "+test.target, func(t *testing.T) {
			target := test.target
			if strings.HasPrefix(target, "/") {
				target = module + target
			}
			p := pkg{ImportPath: module + "/" + test.name, Deps: []string{target}}
			if test.direct {
				p.Imports = p.Deps
			}
			got := importViolations([]pkg{p})
			if test.want == "" && len(got) != 0 {
				t.Errorf("violations %q, want none", got)
			}
			if test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
				t.Errorf("violations %q, want one that says %q", got, test.want)
			}
		})
	}
}
