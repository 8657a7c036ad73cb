package oauth_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client/oauth"
)

const (
	publicEndpoint   = "https://203.0.113.9/mcp"
	privateEndpoint  = "https://10.1.2.3/mcp"
	loopbackEndpoint = "http://127.0.0.1:8080/mcp"
)

// The addresses are resolved from names, or spelled out in URLs.
func TestAddressesThatMayBeAsked(t *testing.T) {
	const (
		never    = iota
		local    // reached for endpoints on this machine
		internal // reached for those, and for endpoints on a private network
		always
	)
	for address, want := range map[string]int{
		"93.184.216.34": always, "203.0.113.1": always, "2606:2800:220:1::1": always,
		"::ffff:93.184.216.34": always, "64:ff9b::5db8:d822": always, "172.32.0.1": always,
		"11.0.0.1": always, "192.169.0.1": always, "100.128.0.1": always,
		"10.0.0.1": internal, "172.16.0.1": internal, "172.31.255.255": internal,
		"192.168.1.1": internal, "100.64.0.1": internal, "198.18.0.1": internal,
		"fd00::1": internal, "fc00::1": internal, "fec0::1": internal,
		"::ffff:10.0.0.1": internal, "64:ff9b::a00:1": internal, "2002:a00:1::1": internal,
		"::10.0.0.1": internal, "64:ff9b:1::a00:1": internal,
		"2001:0:1:2:3:4:f5ff:fffe": internal, // Teredo of 10.0.0.1
		"127.0.0.1":                local, "127.255.255.254": local, "::1": local,
		"::ffff:127.0.0.1": local, "64:ff9b::7f00:1": local, "2002:7f00:1::": local,
		"0.0.0.0": never, "0.1.2.3": never, "::": never, "::ffff:0.0.0.0": never,
		"169.254.169.254": never, "169.254.0.1": never, "::ffff:169.254.169.254": never,
		"64:ff9b::a9fe:a9fe": never, "2002:a9fe:a9fe::": never, "::169.254.169.254": never,
		"fe80::1": never, "fe80::1%eth0": never, "fd00:ec2::254": never,
		"fd20:ce::254": never, "100.100.100.200": never, "224.0.0.1": never,
		"239.255.255.250": never, "ff02::1": never, "255.255.255.255": never,
		"240.0.0.1": never, "192.0.0.192": never, "100::1": never,
	} {
		for endpoint, least := range map[string]int{publicEndpoint: always,
			privateEndpoint: internal, loopbackEndpoint: local} {
			err := oauth.NewGuard(endpoint).CheckAddress(address)
			if (err == nil) != (want >= least) {
				t.Errorf("%s for %s: got %v", address, endpoint, err)
			}
			if err != nil && !blockedError.is(err) {
				t.Errorf("%s: got %T", address, err)
			}
			if netip.MustParseAddr(address).Zone() != "" {
				continue
			}
			host := address
			if strings.Contains(host, ":") {
				host = "[" + host + "]"
			}
			byURL := oauth.NewGuard(endpoint).CheckURL("https://" + host + "/x")
			if (byURL == nil) != (err == nil) {
				t.Errorf("the URL of %s for %s: got %v", address, endpoint, byURL)
			}
		}
	}
}

func TestURLsThatMayBeAsked(t *testing.T) {
	for target, want := range map[string]struct{ public, loopback bool }{
		"https://as.example/token":      {true, true},
		"https://as.example:8443/":      {true, true},
		"http://as.example/":            {false, false},
		"http://10.0.0.1/":              {false, false},
		"http://127.0.0.1:9/":           {false, true},
		"http://[::1]:9/":               {false, true},
		"http://localhost:9/":           {false, true},
		"https://localhost/":            {false, true},
		"https://LOCALHOST/":            {false, true},
		"https://user:word@as.example/": {false, false},
		"https://as.example/#part":      {false, false},
		"https:///path":                 {false, false},
		"https:as.example":              {false, false},
		"javascript:alert(1)":           {false, false},
		"file:///etc/passwd":            {false, false},
		"ftp://as.example/":             {false, false},
		"data:text/html,x":              {false, false},
		"":                              {false, false},
		"/relative":                     {false, false},
		"https://as.example/\n":         {false, false},
	} {
		for endpoint, want := range map[string]bool{publicEndpoint: want.public,
			loopbackEndpoint: want.loopback} {
			if err := oauth.NewGuard(endpoint).CheckURL(target); (err == nil) != want {
				t.Errorf("%q for %s: got %v", target, endpoint, err)
			}
		}
	}
}

// Names are checked by the address that is dialled.
func TestNamesAreCheckedByTheirAddress(t *testing.T) {
	for name, address := range map[string]string{"loopback": "127.0.0.1", "private": "10.0.0.1",
		"metadata service": "169.254.169.254", "loopback of IPv6": "::1",
		"mapped": "::ffff:127.0.0.1", "NAT64": "64:ff9b::a9fe:a9fe"} {
		t.Run(name, func(t *testing.T) {
			resolveTo(t, address)
			blockedError.check(t, oauth.NewGuard(publicEndpoint).Get(t.Context(),
				"https://rebound.example/"))
		})
	}
	// The owner of a name can resolve it to 127.0.0.1.
	resolveTo(t, "127.0.0.1")
	blockedError.check(t, oauth.NewGuard("https://mine.example/mcp").Get(t.Context(),
		"https://other.example/"))
}

// Redirects are not followed, even if the host's client would follow them.
func TestRedirectsAreNotFollowed(t *testing.T) {
	followed := false
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		followed = true
	}))
	defer target.Close()
	server := httptest.NewServer(http.RedirectHandler(target.URL, http.StatusFound))
	defer server.Close()
	for _, client := range []*http.Client{nil, {}} {
		metadataError.check(t, beginAt(t, server.URL+"/mcp", client))
	}
	if followed {
		t.Error("a redirect was followed")
	}
}

func beginAt(t *testing.T, endpoint string, client *http.Client) error {
	t.Helper()
	source, err := oauth.New(endpoint, &oauth.Options{HTTPClient: client, RedirectURI: anIssuer})
	check(t, err)
	_, err = source.Begin(t.Context(), nil)
	return err
}

// resolveTo makes a test name server resolve all names to an address.
func resolveTo(t *testing.T, address string) {
	t.Helper()
	saved := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = saved })
	net.DefaultResolver = &net.Resolver{PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go answerName(far, netip.MustParseAddr(address))
			return near, nil
		}}
}

// answerName answers one question over a stream (RFC 1035, 4.2.2).
func answerName(conn net.Conn, address netip.Addr) {
	defer conn.Close()
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return
	}
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the root, the type and the class
	kind, data := uint16(1), address.AsSlice()
	if address.Is6() {
		kind = 28
	}
	answers := byte(0)
	if binary.BigEndian.Uint16(query[end-4:]) == kind {
		answers = 1
	}
	reply := append([]byte{0, 0}, query[:2]...)
	reply = append(reply, 0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0)
	reply = append(reply, query[12:end]...)
	if answers == 1 {
		reply = append(reply, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(data)))
		reply = append(reply, data...)
	}
	binary.BigEndian.PutUint16(reply, uint16(len(reply)-2))
	_, _ = conn.Write(reply)
}

// If an endpoint's name is on a private network, https to private and public addresses is allowed.
func TestNameOfAnEndpointOnAPrivateNetwork(t *testing.T) {
	resolveTo(t, "10.1.2.3")
	g := oauth.NewGuard("https://mcp.corp.example/mcp")
	for address, allowed := range map[string]bool{"10.9.9.9": true, "192.168.0.1": true,
		"93.184.216.34": true, "127.0.0.1": false, "::1": false, "169.254.169.254": false,
		"fd00:ec2::254": false} {
		if err := g.CheckAddress(address); (err == nil) != allowed {
			t.Errorf("%s: got %v", address, err)
		}
	}
	for _, target := range []string{"http://10.9.9.9/", "http://127.0.0.1/",
		"https://localhost/"} {
		if g.CheckURL(target) == nil {
			t.Errorf("%s may be asked", target)
		}
	}
}

// As long as the endpoint's name does not resolve, the endpoint counts as public.
func TestNameThatDoesNotResolveAtFirst(t *testing.T) {
	g := oauth.NewGuard("https://mcp.corp.example/mcp")
	saved := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = saved })
	net.DefaultResolver = &net.Resolver{PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no name server")
		}}
	blockedError.check(t, g.CheckAddress("10.9.9.9"))
	resolveTo(t, "10.1.2.3")
	noError.check(t, g.CheckAddress("10.9.9.9"))
}

// Addresses are checked even if the program replaces the default transport.
func TestDefaultTransportOfTheHost(t *testing.T) {
	usual := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = usual })
	http.DefaultTransport = tracingTransport{usual}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	err := oauth.NewGuard("https://192.0.2.1/mcp").Get(t.Context(), server.URL)
	wantText(t, err, "loopback")
	metadataError.check(t, beginAt(t, server.URL, nil))
}

type tracingTransport struct{ http.RoundTripper }
