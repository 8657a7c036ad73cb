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
	// defaultMaxBodyBytes has room for pictures and long documents. Memory is allocated as the body
	// arrives.
	defaultMaxBodyBytes = 16 << 20
	defaultReadTimeout  = 30 * time.Second
	// writeTimeout limits each write, not the response: streams may be long.
	writeTimeout = 30 * time.Second
	// keepAlive is the silence after which a response becomes a stream, and a stream gets a
	// comment. Proxies commonly close connections that were idle for 30 or 60 seconds.
	keepAlive = 25 * time.Second

	// defaultSessionTimeout is longer than a break of the user. Clients that crash leave their
	// sessions behind.
	defaultSessionTimeout = 30 * time.Minute
	// defaultMaxSessions is some tens of megabytes of idle sessions.
	defaultMaxSessions = 10_000
	// minHandshakeBytes bounds what all sessions keep of initialize, plus sessionCost for each. It
	// is handshakeBytes for each of 10,000: they take about 4 KiB, and clients send less than 1.
	minHandshakeBytes, handshakeBytes = 64 << 20, 6710
	// defaultMaxSessionRequests bounds requests that run on without a connection.
	defaultMaxSessionRequests = 64
	// maxSessionBytes bounds the events of a legacy session that are kept for a resumption: minutes
	// of chatter, or one picture. The oldest are dropped first.
	maxSessionBytes = 1 << 20
	// maxEventBytes bounds those of all sessions. One principal may use a quarter of it, anonymous
	// clients as many sessions as they may have.
	maxEventBytes = 64 << 20
)

// Options configure a [Handler]. The zero value serves anonymous clients that are not browsers, and
// pages of the same origin. Of each number 0 is the default; a negative one turns the limit off, or
// is an error of [New] where the field does not say what it means.
type Options struct {
	// Authenticate identifies the sender of a request by its headers; it must not read the body.
	// The principal binds sealed state, and lists are kept out of shared caches. An [*AuthError]
	// chooses how the request is refused, any other error refuses it with 401. The text of the
	// error is not sent: it goes to the server's observer, with the request's credentials masked.
	// Calls overlap. Nil: all clients are anonymous, and anyone can use the state of a flow.
	Authenticate func(r *http.Request) (protocol.Principal, error)
	// Authority replaces Authenticate if permissions depend on credentials: it returns scopes and
	// values for handlers, and makes the challenge for a request that lacks scopes. [New] fails if
	// both are set. Nil: requests have no scopes.
	Authority Authority

	// AllowedOrigins are the other origins whose web pages may use the endpoint, spelled as
	// browsers do: "https://app.example.com", with a port only if it is not the default of the
	// scheme. There are no wildcards. "null" allows all pages without an origin: sandboxed ones,
	// files. The handler answers preflights and sends the CORS headers, see "Web pages" in the
	// documentation of the package. Developers' tools on another port of localhost must be listed
	// as well.
	AllowedOrigins []string

	// AllowedHosts are the host names, without port, of the endpoint. Over a connection to a
	// loopback address "localhost" and loopback addresses are always allowed, and without this list
	// nothing else: a page that rebinds its name to 127.0.0.1 is recognized by it. Connections to
	// other addresses are checked if the list is not empty. Otherwise a request over plain http to
	// a private address with an Origin that is not listed must name an address or localhost,
	// because a page may have rebound its name. So an internal site whose own pages use the
	// endpoint over http lists its name here; a site behind a proxy that ends TLS need not.
	AllowedHosts []string

	// Limits bound what clients may send, and what their sessions may use.
	Limits Limits
	// ReadTimeout is how long a body may take to arrive, plus up to an eighth. 0: 30 s, negative:
	// only the [http.Server] limits it.
	ReadTimeout time.Duration

	// Replicas lets any replica accept the requests of legacy sessions, and forward them to the
	// owner of the session; see "Several replicas" above. Nil: other replicas answer 404.
	Replicas *replicas.Options
	// OwnerOf returns the token of the only replica that can serve a request of revision 2026-07-28
	// with a requestState, because a gateway's calls live in one process; empty: any can.
	// [Handler.OwnerToken] makes tokens. The replica that serves the request checks the state. The
	// principal is that of Authenticate. Calls overlap. Nil: any replica serves such requests.
	OwnerOf func(ctx context.Context, p protocol.Principal, requestState string) string

	// StatelessLegacy serves clients of legacy revisions without sessions, so that any replica can
	// serve any request. There are no questions and no notifications outside of a request: a
	// handler that asks is refused at once.
	StatelessLegacy bool
	// SessionTimeout ends a legacy session without a running request or open stream. 0: 30 minutes,
	// negative: never.
	SessionTimeout time.Duration

	tuning tuning
}

// tuning is set by tests only; 0 is the constant.
type tuning struct {
	writeTimeout, keepAlive   time.Duration
	bytesPerSession, allBytes int64
}

// Limits bound what clients may send, and what legacy sessions may use. Of each number 0 is the
// default; a negative one is an error of [New] where the field does not say what it means.
type Limits struct {
	// BodyBytes is the largest body, 0: 16 MiB, negative: 2 GiB less one, the limit of messages.
	BodyBytes int64
	// Sessions is the number of open legacy sessions, 0: 10,000. One more evicts the session that
	// has been idle longest, of the same principal if it has one, and at least for a minute. The
	// evicted client opens another session, as after Options.SessionTimeout. If there is none, the
	// new session is refused with 503. What all sessions keep of initialize is bounded in the same
	// way: by 64 MiB, or 6.5 KiB for each if there may be more than 10,000.
	Sessions int
	// SessionsPerPrincipal is the number of open legacy sessions of an authenticated principal. One
	// more evicts the principal's own, or is refused with 503. 0: a quarter of Sessions, at least
	// one, negative: no limit. A gateway that is one principal for many users may need more.
	// Anonymous clients share one account: all sessions if Authenticate is nil, else all but a
	// quarter.
	SessionsPerPrincipal int
	// RequestsPerSession is the number of running requests of a legacy session, 0: 64. More are
	// refused with 429. Calls that wait for a person do not count; see
	// [roundtrip.Limits].WaitingPerPrincipal.
	RequestsPerSession int
}

// withDefaults returns a checked copy with the defaults.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
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

// checkBounds refuses to turn off what alone bounds the memory that strangers can take.
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

// originSet returns the set of origins, which must be spelled as in headers.
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

// isSpelledOrigin reports whether a browser may send s as the origin of a page.
func isSpelledOrigin(s string) bool {
	o, ok := parseOrigin(s)
	if !ok {
		return s == "null"
	}
	for i := range len(s) {
		if s[i] >= 0x80 || s[i] >= 'A' && s[i] <= 'Z' {
			return false // names are in Punycode there
		}
	}
	return !strings.HasSuffix(s, ":") && (o.port == "" || o.port != o.defaultPort())
}

// hostSet returns the set of host names in lower case.
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
