package oauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/wire/authhttp"
)

const dialTimeout = 5 * time.Second // for the connection and name resolution

// An addressClass classifies addresses by reachability, the nearest class first.
type addressClass int

const (
	blocked  addressClass = iota // never reached: link-local, multicast, unassigned
	loopback                     // this machine
	private                      // a private network
	public
)

func classifyAddress(a netip.Addr) addressClass {
	a = a.WithZone("").Unmap()
	if inner, ok := embeddedIPv4(a); ok {
		a = inner
	}
	switch {
	case !a.IsValid(), a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast():
		return blocked
	case a.IsLoopback():
		return loopback
	case isInAny(a, "0.0.0.0/8", "192.0.0.0/24", "240.0.0.0/4", "100.100.100.200/32",
		"fd00:ec2::254/128", "fd20:ce::254/128", "100::/64"):
		return blocked
	case a.IsPrivate(), isInAny(a, "100.64.0.0/10", "198.18.0.0/15", "fec0::/10"):
		return private
	}
	return public
}

func isInAny(a netip.Addr, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(text string) bool {
		return netip.MustParsePrefix(text).Contains(a)
	})
}

// embeddedIPv4 returns the IPv4 address that is embedded in an address of NAT64 (RFC 6052, RFC
// 8215), 6to4 (RFC 3056) or Teredo (RFC 4380), or in an IPv4-compatible address (RFC 4291).
func embeddedIPv4(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return a, false
	}
	b := a.As16()
	switch {
	case isInAny(a, "64:ff9b::/96", "64:ff9b:1::/48"):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case isInAny(a, "2002::/16"):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case isInAny(a, "2001::/32"):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	case isInAny(a, "::/96") && !a.IsLoopback() && !a.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return a, false
}

// An ssrfGuard sends requests to URLs named by an MCP server or its authorization server. To
// prevent SSRF, it reaches only addresses at least as public as the endpoint's.
type ssrfGuard struct {
	endpoint *url.URL
	client   *http.Client
	trusted  bool // Options.HTTPClient decides about addresses

	mu    sync.Mutex
	class addressClass // of the endpoint; blocked means not resolved yet
}

func newSSRFGuard(endpoint *url.URL, own *http.Client) *ssrfGuard {
	g := &ssrfGuard{endpoint: endpoint, trusted: own != nil}
	client := http.Client{Transport: g.newTransport()}
	if own != nil {
		client = *own
	}
	g.client = authhttp.NewClient(client)
	return g
}

// newTransport checks each address when it is dialled, after name resolution. If there is a proxy,
// only the proxy is dialled, and checkURL checks the addresses in URLs.
func (g *ssrfGuard) newTransport() http.RoundTripper {
	dialer := &net.Dialer{Timeout: dialTimeout}
	dialer.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		if proxied, _ := ctx.Value(proxiedKey{}).(bool); proxied {
			return nil
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return g.checkAddress(at.Addr())
	}
	t := authhttp.CloneTransport()
	t.DialContext = dialer.DialContext
	t.MaxIdleConnsPerHost, t.IdleConnTimeout = 2, 10*time.Second
	return guardedTransport{g, t}
}

type proxiedKey struct{} // for requests that a proxy forwards

type guardedTransport struct {
	guard *ssrfGuard
	next  *http.Transport
}

func (t guardedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.next.Proxy != nil {
		if proxy, err := t.next.Proxy(r); err == nil && proxy != nil {
			r = r.WithContext(context.WithValue(r.Context(), proxiedKey{}, true))
		}
	}
	return t.next.RoundTrip(r)
}

func (t guardedTransport) CloseIdleConnections() { t.next.CloseIdleConnections() }

// checkAddress refuses an address that is less public than the endpoint's class.
func (g *ssrfGuard) checkAddress(a netip.Addr) error {
	at, from := classifyAddress(a), g.endpointClass()
	switch {
	case at == blocked:
		return blockedError(a, "it is link-local, multicast or unassigned")
	case at < from:
		return blockedError(a, "it is on a network that the MCP server is not on")
	}
	return nil
}

func blockedError(a netip.Addr, reason string) error {
	return untrustedError(fmt.Sprintf("the address of %s must not be asked: %s",
		quoteUntrusted(a.String()), reason))
}

// checkURL parses a server's URL: https, or http to a loopback address if the endpoint has one.
func (g *ssrfGuard) checkURL(text string) (*url.URL, error) {
	u, err := urlrule.Parse(text)
	if err != nil {
		return nil, err
	}
	switch {
	case u.Hostname() == "":
		return nil, errors.New("URL has no host")
	case strings.Contains(text, "#"):
		return nil, errors.New("URL has a fragment")
	case u.Scheme == "https":
	case u.Scheme == "http" && urlrule.CheckSecure(u) == nil && g.endpointClass() == loopback:
	default:
		return nil, errors.New("URL is not https; http is for loopback addresses, and only where " +
			"the MCP server is on one")
	}
	if g.trusted {
		return u, nil
	}
	if strings.EqualFold(u.Hostname(), "localhost") {
		return u, g.checkAddress(netip.IPv6Loopback())
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil {
		return u, g.checkAddress(a)
	}
	return u, nil
}

// endpointClass returns the class of the endpoint. For a host name it is the most public class of
// its addresses, and at least private: the owner of a name can resolve it to 127.0.0.1.
//
// A host name with a private address may be internal. So https requests to private addresses with a
// trusted certificate are possible; the owner of the name gets no responses.
func (g *ssrfGuard) endpointClass() addressClass {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.class == blocked {
		at, err := g.resolveEndpointClass()
		if err != nil {
			return public // for now: the name may resolve later
		}
		g.class = at
	}
	return g.class
}

func (g *ssrfGuard) resolveEndpointClass() (addressClass, error) {
	host := g.endpoint.Hostname()
	if strings.EqualFold(host, "localhost") {
		return loopback, nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return max(classifyAddress(a), loopback), nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return public, err
	}
	farthest := private
	for _, a := range addresses {
		farthest = max(farthest, classifyAddress(a))
	}
	return farthest, nil
}

// fetchDocument gets JSON from a URL that a server has named. Its errors are ErrMetadata.
func (g *ssrfGuard) fetchDocument(ctx context.Context, at string) ([]byte, error) {
	u, err := g.checkURL(at)
	if err != nil {
		return nil, metadataError(at, err)
	}
	r := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{
		"Accept": {"application/json"}, "Mcp-Protocol-Version": {"2026-07-28"}}}).WithContext(ctx)
	body, _, err := g.sendRequest(r, http.StatusOK)
	if err != nil {
		return nil, metadataError(at, err)
	}
	return body, nil
}

func (g *ssrfGuard) sendRequest(r *http.Request, want ...int) ([]byte, http.Header, error) {
	return authhttp.Send(g.client, r, authhttp.MaxBytes, want...)
}
