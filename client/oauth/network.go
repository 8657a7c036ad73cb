package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rondo-mcp/rondo/internal/urlrule"
)

const (
	// requestTime is how long a request to an authorization server may take.
	requestTime = 5 * time.Second
	// maxDocumentBytes bounds a document, and the answers of token endpoints.
	maxDocumentBytes = 256 << 10
)

// A network is how far an address is away.
type network int

const (
	blocked  network = iota // never asked: link-local and metadata services, multicast, nobody's
	loopback                // this machine
	private                 // a local network
	public
)

// networkOf returns where an address is. Those that carry an IPv4 address are where that is.
func networkOf(a netip.Addr) network {
	a = a.WithZone("").Unmap()
	if inner, ok := embedded(a); ok {
		a = inner
	}
	switch {
	case !a.IsValid(), a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast():
		return blocked
	case a.IsLoopback():
		return loopback
	case inAny(a, "0.0.0.0/8", "192.0.0.0/24", "240.0.0.0/4", "100.100.100.200/32",
		"fd00:ec2::254/128", "fd20:ce::254/128", "100::/64"):
		return blocked
	case a.IsPrivate(), inAny(a, "100.64.0.0/10", "198.18.0.0/15", "fec0::/10"):
		return private
	}
	return public
}

func inAny(a netip.Addr, prefixes ...string) bool {
	for _, text := range prefixes {
		if netip.MustParsePrefix(text).Contains(a) {
			return true
		}
	}
	return false
}

// embedded returns the IPv4 address that an IPv6 address stands for: NAT64, 6to4, Teredo, and those
// that are IPv4-compatible.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return a, false
	}
	b := a.As16()
	switch {
	case inAny(a, "64:ff9b::/96", "64:ff9b:1::/48"):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case inAny(a, "2002::/16"):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case inAny(a, "2001::/32"):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	case inAny(a, "::/96") && !a.IsLoopback() && !a.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return a, false
}

// A guard sends requests on behalf of an endpoint: to the network that the endpoint is in or to the
// public one, and to no other, whatever a document or a name server says.
type guard struct {
	endpoint *url.URL
	client   *http.Client
	// trusted is true where the host has brought a client of its own.
	trusted bool

	mu    sync.Mutex
	class network // of the endpoint; blocked: not known yet
}

func newGuard(endpoint *url.URL, own *http.Client) *guard {
	g := &guard{endpoint: endpoint, trusted: own != nil}
	var client http.Client
	if own != nil {
		client = *own
	} else {
		client.Transport = g.transport()
	}
	if client.Timeout == 0 {
		client.Timeout = requestTime
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	g.client = &client
	return g
}

// transport checks each address when it is dialled, after its name was resolved: a name that
// resolves to something else at the second look leads nowhere. With a proxy only the proxy is
// dialled, and addresses that URLs spell out are checked.
func (g *guard) transport() http.RoundTripper {
	dialer := &net.Dialer{Timeout: requestTime}
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
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = dialer.DialContext
	t.MaxIdleConnsPerHost, t.IdleConnTimeout = 2, 10*time.Second
	return guardedTransport{g, t}
}

type proxiedKey struct{}

type guardedTransport struct {
	guard *guard
	next  *http.Transport
}

// RoundTrip implements [http.RoundTripper].
func (t guardedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.next.Proxy != nil {
		if proxy, err := t.next.Proxy(r); err == nil && proxy != nil {
			r = r.WithContext(context.WithValue(r.Context(), proxiedKey{}, true))
		}
	}
	return t.next.RoundTrip(r)
}

// CloseIdleConnections closes connections that are not in use.
func (t guardedTransport) CloseIdleConnections() { t.next.CloseIdleConnections() }

// checkAddress refuses an address that the endpoint has no business with.
func (g *guard) checkAddress(a netip.Addr) error {
	at, from := networkOf(a), g.endpointClass()
	switch {
	case at == blocked:
		return &BlockedAddressError{a.String(), "it is link-local, multicast or nobody's"}
	case at < from:
		return &BlockedAddressError{a.String(), "it is on a network that the MCP server is not on"}
	}
	return nil
}

// checkURL refuses URLs that must not be asked for the sake of the endpoint.
func (g *guard) checkURL(text string) (*url.URL, error) {
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

// endpointClass returns where the endpoint is. A name counts as the farthest of its addresses, and
// as at least private: whoever owns a name can have it resolve to 127.0.0.1. They can have it
// resolve to a private address as well, which names inside of a company do, and cannot be told from
// these. What they gain is little: requests by https to private addresses, with a certificate that
// this machine trusts, and no answer of which they see.
func (g *guard) endpointClass() network {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.class == blocked {
		class, err := g.resolveClass()
		if err != nil {
			return public // for now: the name may resolve later
		}
		g.class = class
	}
	return g.class
}

func (g *guard) resolveClass() (network, error) {
	host := g.endpoint.Hostname()
	if strings.EqualFold(host, "localhost") {
		return loopback, nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return max(networkOf(a), loopback), nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return public, err
	}
	class := private
	for _, a := range addresses {
		class = max(class, networkOf(a))
	}
	return class, nil
}

// A statusError is a response that is not of status 200.
type statusError struct {
	status int
	after  time.Duration
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d", e.status) }

// missing reports whether there is no document, as opposed to one that cannot be had now.
func (e *statusError) missing() bool {
	return e.status >= 400 && e.status < 500 && e.status != http.StatusTooManyRequests
}

// get reads a document.
func (g *guard) get(ctx context.Context, at string) ([]byte, error) {
	if _, err := g.checkURL(at); err != nil {
		return nil, &MetadataError{at, err}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, &MetadataError{at, err}
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("MCP-Protocol-Version", "2026-07-28")
	body, _, err := g.do(r, http.StatusOK)
	if err != nil {
		return nil, &MetadataError{at, err}
	}
	return body, nil
}

// do sends a request and reads its response, whose status must be one of those wanted.
func (g *guard) do(r *http.Request, want ...int) ([]byte, http.Header, error) {
	response, err := g.client.Do(r)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the URL, which may have a secret in its query
		}
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocumentBytes+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(body) > maxDocumentBytes:
		return nil, nil, fmt.Errorf("the response is longer than %d bytes", maxDocumentBytes)
	}
	for _, status := range want {
		if response.StatusCode == status {
			return body, response.Header, nil
		}
	}
	return body, response.Header, &statusError{response.StatusCode, retryAfter(response.Header)}
}
