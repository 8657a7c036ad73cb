package serverhttp

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// checkSource refuses pages of other origins, and requests to a local server under a name that is
// not local (basic/transports/streamable-http, "Security & Endpoint").
func (h *Handler) checkSource(r *http.Request) *fault {
	tcp, origins := localAddr(r), r.Header["Origin"]
	local := tcp != nil && tcp.IP.IsLoopback()
	if len(origins) == 0 && !local && len(h.hosts) == 0 {
		return nil // not a browser: no protection needed
	}
	host, ok := parseAuthority(r.Host)
	if (local || len(h.hosts) > 0) && (!ok || !(local && host.isLoopback() || h.hosts[host.host])) {
		return forbiddenFault(words.RefusedHost, r,
			"Host header names a host that this endpoint does not answer to; its operator may "+
				"add it to AllowedHosts",
			"add the host, without port, to serverhttp.Options.AllowedHosts if clients call this "+
				"endpoint by it")
	}
	switch {
	case len(origins) == 0:
		return nil // not a browser
	case len(origins) == 1 && h.origins[origins[0]]:
		return nil
	case len(origins) > 1 || !sharesOrigin(origins[0], host):
		return forbiddenFault(words.RefusedOrigin, r,
			"Origin header names an origin that may not use this endpoint; its operator may add "+
				"it to AllowedOrigins",
			"add the origin to serverhttp.Options.AllowedOrigins if its pages may use this endpoint")
	case h.mayBeRebound(r, origins[0], host):
		return forbiddenFault(words.RefusedHost, r,
			"Host header names a host that may be any web page's on this private address; its "+
				"operator may add it to AllowedHosts",
			"this is a plain http page of the same name on a private address, and a page that "+
				"has rebound its name to that "+
				"address looks the same: add the host, without port, to "+
				"serverhttp.Options.AllowedHosts, or serve it over https")
	}
	return nil
}

// mayBeRebound reports whether a same-origin page may have rebound its name to a private address.
// Such a page has a name, not an address, and no https, because it lacks a certificate.
func (h *Handler) mayBeRebound(r *http.Request, origin string, host authority) bool {
	_, noAddress := netip.ParseAddr(host.host)
	return !h.hosts[host.host] && noAddress != nil && !host.isLoopback() &&
		!strings.HasPrefix(origin, "https://") && toPrivate(r)
}

// sharesOrigin reports whether origin and host are one origin, or both are this machine.
func sharesOrigin(origin string, host authority) bool {
	from, ok := parseOrigin(origin)
	if !ok || from.defaultPort() == "" || host.host == "" {
		return false // not loaded over HTTP, such as a browser extension: must be listed
	}
	// Local pages are trusted like programs. A rebound page has its name in Origin.
	if from.isLoopback() && host.isLoopback() {
		return true
	}
	// The scheme is ignored: a proxy may terminate TLS.
	return from.host == host.host &&
		cmp.Or(from.port, from.defaultPort()) == cmp.Or(host.port, from.defaultPort())
}

// forbiddenFault refuses the source of a request, with advice for the operator.
func forbiddenFault(reason event.RefusalReason, r *http.Request,
	message, advice string) *fault {
	return &fault{status: http.StatusForbidden, reason: reason,
		err: protocol.Errorf(protocol.CodeInvalidRequest, "%s", message),
		cause: fmt.Errorf("host header %s, Origin %s: %s", clipSource(r.Host),
			clipSource(firstLine(r.Header["Origin"])), advice)}
}

// clipSource quotes a Host or Origin without its user part, which may hold a password.
func clipSource(s string) string {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		s = "…" + s[at:]
	}
	return errtext.Quote(s, maxQuoted)
}

// toPrivate reports whether r came to a private address: RFC 1918, 4193, 3927, 4291 or 6598.
func toPrivate(r *http.Request) bool {
	tcp := localAddr(r)
	if tcp == nil {
		return false
	}
	if ip := tcp.IP.To4(); ip != nil && ip[0] == 100 && ip[1]&0xc0 == 64 {
		return true // 100.64.0.0/10, of carriers and overlay networks
	}
	return tcp.IP.IsPrivate() || tcp.IP.IsLinkLocalUnicast()
}

// localAddr returns the local TCP address of r's connection; may be nil.
func localAddr(r *http.Request) *net.TCPAddr {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, _ := addr.(*net.TCPAddr)
	return tcp
}

// An authority is a host, in lower case and without brackets, and an optional port.
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
		a.port, ok = strings.CutPrefix(rest, ":")
		if !ok || strings.ContainsFunc(a.port, func(c rune) bool { return c < '0' || c > '9' }) {
			return authority{}, false
		}
	}
	for i := range len(a.host) { // ContainsAny builds a set each time
		switch a.host[i] {
		case '/', '@', '?', '#', '*', '\\', '[', ']', ' ', '\t':
			return authority{}, false
		}
	}
	if a.host == "" {
		return authority{}, false
	}
	a.host = strings.ToLower(a.host)
	return a, true
}

func (a authority) isLoopback() bool {
	if a.host == "localhost" || a.host == "127.0.0.1" || a.host == "localhost." {
		return true
	}
	addr, err := netip.ParseAddr(a.host)
	return err == nil && addr.Unmap().IsLoopback()
}

// An origin is the origin of a web page.
type origin struct {
	scheme string
	authority
}

func parseOrigin(s string) (o origin, ok bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" {
		return origin{}, false
	}
	a, ok := parseAuthority(rest)
	return origin{scheme, a}, ok
}

func (o origin) defaultPort() string {
	switch o.scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}
