package serverhttp

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// The defaults of [Options].
const (
	// defaultMaxBodyBytes fits pictures and long documents, allocated as the body arrives.
	defaultMaxBodyBytes = 16 << 20
	defaultReadTimeout  = 30 * time.Second
	writeTimeout        = 30 * time.Second // of each write: streams may be long
	// keepAlive is the silence after which a response becomes a stream, and a stream gets a
	// comment. Proxies commonly close connections that are idle for 30 or 60 seconds.
	keepAlive = 25 * time.Second

	// defaultSessionTimeout is longer than a user's break. Crashed clients leave sessions behind.
	defaultSessionTimeout = 30 * time.Minute
	defaultMaxSessions    = 10_000 // some tens of megabytes if idle
	// minHandshakeBytes limits the memory for initialize of all sessions, handshakeBytes that of
	// each: it takes about 4 KiB, of which less than 1 KiB is the client's.
	minHandshakeBytes, handshakeBytes = 64 << 20, 6710
	defaultMaxSessionRequests         = 64 // without a connection
	// maxSessionBytes limits the events that a legacy session keeps for a resumption: minutes of
	// notifications, or one picture. The oldest are dropped first.
	maxSessionBytes = 1 << 20
	// maxEventBytes is the limit for all sessions. One principal may use a quarter of it, anonymous
	// clients have the same share as of sessions.
	maxEventBytes = 64 << 20
)

// Options configure a [Handler]. The zero value serves anonymous clients that are not browsers, and
// pages of the same origin. In number fields 0 means the default; a negative number is an error of
// [New] unless the field documents its meaning.
type Options struct {
	// Authenticate identifies the sender of a request by its headers; it must not read the body.
	// Sealed state is bound to the principal, and lists are kept out of shared caches. An
	// [*AuthError] chooses the refusal, any other error is 401. The observer gets its text,
	// credentials masked. Calls overlap. If nil, clients are anonymous, and can use any state.
	Authenticate func(r *http.Request) (protocol.Principal, error)
	// Authority replaces Authenticate if permissions depend on credentials: it returns scopes and
	// values for handlers, and makes the challenge for missing scopes. [New] fails if both are set.
	// If nil, requests have no scopes.
	Authority Authority

	// AllowedOrigins are the other origins whose web pages may use the endpoint, spelled as by
	// browsers: "https://app.example.com", with a port only if it is not the scheme's default,
	// without wildcards. "null" allows all pages without an origin: sandboxed ones, files. The
	// handler answers preflights and sends the CORS headers, see "Web pages" in the package
	// documentation. List developer tools on other ports of localhost too.
	AllowedOrigins []string

	// AllowedHosts are the endpoint's host names, without port. On connections to a loopback
	// address, localhost and loopback addresses are always allowed, and other names only if listed,
	// which detects pages that rebind their name to 127.0.0.1. Connections to other addresses are
	// checked only if the list is not empty. Without it, a plain http request to a private address
	// with an unlisted Origin must name an address or localhost, because a page may have rebound
	// its name: list the name of an internal http site whose own pages use the endpoint; a site
	// behind a proxy that terminates TLS needs no entry.
	AllowedHosts []string

	Limits Limits
	// ReadTimeout limits the arrival of a body; it may take an eighth more. 0 means 30 s; a
	// negative value, no limit but the [http.Server]'s.
	ReadTimeout time.Duration

	// Replicas lets any replica accept the requests of legacy sessions and forward them to the
	// owner; see "Several replicas" above. If nil, other replicas answer 404.
	Replicas *replicas.Options
	// OwnerOf returns the token of the only replica that can serve a request of revision 2026-07-28
	// with a requestState, such as a gateway's, whose calls live in one process; or "" if any can.
	// [Handler.OwnerToken] makes tokens. The serving replica checks the state. The principal comes
	// from Authenticate. Calls overlap. If nil, any replica serves such requests.
	OwnerOf func(ctx context.Context, p protocol.Principal, requestState string) string

	// StatelessLegacy serves legacy clients without sessions, so that any replica can serve any
	// request. Notifications outside of a request are dropped, and handlers that ask are refused.
	StatelessLegacy bool
	// SessionTimeout ends idle sessions without streams. 0 means 30 minutes; negative, never.
	SessionTimeout time.Duration

	tuning tuning
}

type tuning struct { // set by tests; 0 is the constant
	writeTimeout, keepAlive   time.Duration
	bytesPerSession, allBytes int64
}

// Limits bound client input and the resources of legacy sessions. In number fields 0 means the
// default; a negative number is an error of [New] unless the field documents its meaning.
type Limits struct {
	// BodyBytes limits a body. 0 means 16 MiB; negative, 2 GiB less one, the limit of messages.
	BodyBytes int64
	// Sessions limits open legacy sessions; 0 means 10,000. One more evicts the session that has
	// been idle longest, at least a minute, if possible of the same principal; its client opens a
	// new one, as after Options.SessionTimeout. If none is idle, the new session is refused with
	// 503. The memory of initialize is limited likewise: 64 MiB, or 6.5 KiB each if larger.
	Sessions int
	// SessionsPerPrincipal limits the open legacy sessions of an authenticated principal. One more
	// evicts another of its own, or is refused with 503. 0 means a quarter of Sessions, at least
	// one; negative, no limit. A gateway that is one principal for many users may need more.
	// Anonymous clients share all sessions if Authenticate is nil, otherwise all but a quarter.
	SessionsPerPrincipal int
	// RequestsPerSession limits the running requests of a legacy session; 0 means 64. More are
	// refused with 429. Calls that wait do not count, see [roundtrip.Limits].WaitingPerPrincipal.
	RequestsPerSession int
}

func (o *Options) withDefaults() (Options, error) {
	opts := *cmp.Or(o, &Options{})
	if opts.Authenticate != nil && opts.Authority != nil {
		return opts, errPrefix.Errorf("Authenticate and Authority are both set: use one")
	}
	if err := opts.checkBounds(); err != nil {
		return opts, err
	}
	opts.Limits.BodyBytes = cmp.Or(opts.Limits.BodyBytes, defaultMaxBodyBytes)
	if opts.Limits.BodyBytes < 0 || opts.Limits.BodyBytes > jsonx.MaxSize {
		opts.Limits.BodyBytes = jsonx.MaxSize
	}
	opts.ReadTimeout = cmp.Or(opts.ReadTimeout, defaultReadTimeout)
	opts.tuning.writeTimeout = cmp.Or(opts.tuning.writeTimeout, writeTimeout)
	opts.tuning.keepAlive = cmp.Or(opts.tuning.keepAlive, keepAlive)
	opts.SessionTimeout = cmp.Or(opts.SessionTimeout, defaultSessionTimeout)
	opts.Limits.Sessions = cmp.Or(opts.Limits.Sessions, defaultMaxSessions)
	opts.Limits.SessionsPerPrincipal = cmp.Or(opts.Limits.SessionsPerPrincipal,
		int(quota.ShareOf(int64(opts.Limits.Sessions))))
	opts.Limits.RequestsPerSession = cmp.Or(opts.Limits.RequestsPerSession,
		defaultMaxSessionRequests)
	opts.tuning.bytesPerSession = cmp.Or(opts.tuning.bytesPerSession, maxSessionBytes)
	opts.tuning.allBytes = cmp.Or(opts.tuning.allBytes, maxEventBytes)
	return opts, nil
}

// checkBounds requires the limits that protect memory from strangers.
func (o *Options) checkBounds() error {
	for _, bound := range []struct {
		field string
		value int64
	}{
		{"Limits.Sessions", int64(o.Limits.Sessions)},
		{"Limits.RequestsPerSession", int64(o.Limits.RequestsPerSession)},
	} {
		if bound.value < 0 {
			return errPrefix.Errorf("%s: must not be negative, got %d; 0 is the default",
				bound.field, bound.value)
		}
	}
	return nil
}

func originSet(origins []string) (map[string]bool, error) {
	set := make(map[string]bool, len(origins))
	for _, origin := range origins {
		if !isSpelledOrigin(origin) {
			return nil, errPrefix.Errorf("AllowedOrigins: %q must be spelled as browsers spell "+
				"an origin: scheme://host in lower case, "+
				"with a port only where it is not the scheme's own, without a path or wildcard; "+
				"or null", origin)
		}
		set[origin] = true
	}
	return set, nil
}

// isSpelledOrigin reports whether a browser may send s as an origin.
func isSpelledOrigin(s string) bool {
	o, ok := parseOrigin(s)
	if !ok {
		return s == "null"
	}
	for i := range len(s) {
		if s[i] >= 0x80 || s[i] >= 'A' && s[i] <= 'Z' {
			return false // browsers use Punycode
		}
	}
	return !strings.HasSuffix(s, ":") && (o.port == "" || o.port != o.defaultPort())
}

func hostSet(hosts []string) (map[string]bool, error) {
	set := make(map[string]bool, len(hosts))
	for _, name := range hosts {
		a, ok := parseAuthority(name)
		if strings.Count(name, ":") > 1 && name[0] != '[' {
			a, ok = parseAuthority("[" + name + "]")
		}
		if !ok || a.port != "" {
			return nil, errPrefix.Errorf("AllowedHosts: %q must be a host name or address "+
				"without port", name)
		}
		set[a.host] = true
	}
	return set, nil
}
