package serverhttp

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// checkSource refuses requests that a web page of another origin makes, and
// those that reach a local server under a name that is not local
// (basic/transports/streamable-http, "Security & Endpoint").
func (h *Handler) checkSource(r *http.Request) *fault {
	host, ok := parseAuthority(r.Host)
	if local := toLoopback(r); local || len(h.hosts) > 0 {
		if !ok || !(local && host.loopback() || h.hosts[host.host]) {
			return forbidden("Host header names a host that this endpoint does not answer to; its operator may add it to AllowedHosts")
		}
	}
	switch origins := r.Header["Origin"]; {
	case len(origins) == 0:
		return nil // not a browser, which is not what this protects from
	case len(origins) > 1 || !h.mayUse(origins[0], host):
		return forbidden("Origin header names an origin that may not use this endpoint")
	}
	return nil
}

// mayUse reports whether pages of origin may use the endpoint at host.
func (h *Handler) mayUse(origin string, host authority) bool {
	if h.origins[origin] {
		return true
	}
	from, ok := parseOrigin(origin)
	if !ok || from.defaultPort() == "" || host.host == "" {
		return false // not loaded over HTTP: browser extensions, say, must be listed
	}
	// Pages on this machine are trusted as programs on it are. A page that has
	// rebound its name still has it in Origin.
	if from.loopback() && host.loopback() {
		return true
	}
	// The scheme is left out: behind a proxy that ends TLS nobody knows it.
	port := host.port
	if port == "" {
		port = from.defaultPort()
	}
	return from.host == host.host && from.effectivePort() == port
}

func forbidden(message string) *fault {
	return &fault{status: http.StatusForbidden, err: protocol.Errorf(protocol.CodeInvalidRequest, "%s", message)}
}

// toLoopback reports whether r came over a connection to a loopback address,
// which nobody on another machine can open.
func toLoopback(r *http.Request) bool {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// An authority is a host, in lower case and without brackets, and a port,
// empty when it is not given.
type authority struct{ host, port string }

func parseAuthority(s string) (a authority, ok bool) {
	rest := ""
	if strings.HasPrefix(s, "[") {
		if a.host, rest, ok = strings.Cut(s[1:], "]"); !ok || !strings.Contains(a.host, ":") {
			return authority{}, false
		}
	} else if i := strings.IndexByte(s, ':'); i >= 0 {
		a.host, rest = s[:i], s[i:]
	} else {
		a.host = s
	}
	if rest != "" {
		if a.port, ok = strings.CutPrefix(rest, ":"); !ok || !digits(a.port) {
			return authority{}, false
		}
	}
	if a.host == "" || strings.ContainsAny(a.host, "/@?#*\\[] \t") {
		return authority{}, false
	}
	a.host = strings.ToLower(a.host)
	return a, true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// loopback reports whether the host is this machine by definition.
func (a authority) loopback() bool {
	if a.host == "localhost" || a.host == "127.0.0.1" || a.host == "localhost." {
		return true
	}
	addr, err := netip.ParseAddr(a.host)
	return err == nil && addr.Unmap().IsLoopback()
}

// An origin is where a web page comes from.
type origin struct {
	scheme string
	authority
}

// parseOrigin reads an origin that has a host. "null" is none.
func parseOrigin(s string) (o origin, ok bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" {
		return origin{}, false
	}
	a, ok := parseAuthority(rest)
	return origin{scheme, a}, ok
}

// defaultPort is the port of the scheme, empty if it is not one of HTTP.
func (o origin) defaultPort() string {
	switch o.scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}

func (o origin) effectivePort() string {
	if o.port != "" {
		return o.port
	}
	return o.defaultPort()
}
