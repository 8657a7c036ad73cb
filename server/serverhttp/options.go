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
	// defaultMaxBodyBytes is the size limit of a message: room for pictures and long
	// documents. Memory is used in proportion to what arrives.
	defaultMaxBodyBytes = 16 << 20
	// defaultReadTimeout is how long a body may take to arrive. At its end
	// even the largest body needs no more than a slow phone line.
	defaultReadTimeout = 30 * time.Second
	// writeTimeout is how long a client may leave what is written to it unread: each write, not the
	// response, for streams may be long. A client that reads nothing for that long has stopped.
	writeTimeout = 30 * time.Second
	// keepAlive is after how much quiet a response becomes a stream, and a comment is sent on it,
	// which finds out whether the client is still there. Proxies commonly close what has been idle
	// for 30 or 60 seconds.
	keepAlive = 25 * time.Second

	// defaultSessionTimeout is how long a legacy session may be idle. Clients
	// that crash leave theirs behind; people come back from lunch.
	defaultSessionTimeout = 30 * time.Minute
	// defaultMaxSessions bounds the legacy sessions that are open at once: some
	// tens of megabytes when all are idle.
	defaultMaxSessions = 10_000
	// minHandshakeBytes bounds what all sessions keep of initialize, with sessionCost for each
	// besides. It is handshakeBytes for each of 10,000: they take about 4 KiB themselves, and
	// clients send less than 1.
	minHandshakeBytes, handshakeBytes = 64 << 20, 6710
	// defaultMaxSessionRequests is how many requests of one legacy session run
	// at once. They go on without a connection, so nothing else bounds them.
	defaultMaxSessionRequests = 64
	// maxSessionBytes is how much of what a legacy session has said is kept for its client to
	// ask for again: minutes of chatter, or one picture. The oldest is dropped first; a client
	// that wants it is refused.
	maxSessionBytes = 1 << 20
	// maxEventBytes is the same for all sessions together. One principal may use a quarter of it,
	// anonymous clients as many sessions as they may have.
	maxEventBytes = 64 << 20
)

// Options configure a [Handler]. The zero value serves anonymous clients that are not browsers, and
// pages of the same origin. Of each number 0 is the default; a negative one turns the limit off, or
// is an error of [New] where the field does not say what it means.
type Options struct {
	// Authenticate tells who sends a request, from its headers; it must leave the body alone. The
	// principal binds sealed state, and lists are kept out of shared caches. An [*AuthError]
	// chooses how a request is refused, any other error refuses it with 401. The error's text is
	// not sent: it goes to the server's observer, with what the request says in confidence masked.
	// Calls overlap. Nil: all clients are anonymous, and the state of a multi round-trip flow
	// serves whoever holds it.
	Authenticate func(r *http.Request) (protocol.Principal, error)
	// Authority takes the place of Authenticate where what a request may do depends on its
	// credentials: it knows of scopes, gives handlers values, and makes the challenge for a
	// request that lacks scopes. [New] fails if both are set. Nil: requests have no scopes.
	Authority Authority

	// AllowedOrigins are the origins of web pages that may use the endpoint beside those of the
	// same origin, spelled as browsers spell them: "https://app.example.com", with a port only
	// where it is not the scheme's own. There are no wildcards. "null" admits all pages without an
	// origin, whoever made them: sandboxed ones, files.
	//
	// The handler answers the preflights of their browsers and sends the CORS headers that a client
	// in a page needs, with refusals too; see "Web pages" in the documentation of the package.
	// Pages that use the endpoint through another origin of the same machine, such as developers'
	// tools on another port of localhost, must be listed as well.
	AllowedOrigins []string

	// AllowedHosts are the names, without port, under which the endpoint may be addressed.
	// Connections to a loopback address always may say "localhost" or a loopback address, and
	// without this list nothing else: a page that rebinds its own name to 127.0.0.1 gives itself
	// away by it. Connections to other addresses are checked if the list is not empty, and else
	// where a page may have rebound its name to a private address: a request with an Origin that is
	// not listed, over plain http, must name an address or localhost there. So an internal site
	// whose own pages use the endpoint over http lists its name here. One behind a proxy that ends
	// TLS need not, nor clients that are no browsers.
	AllowedHosts []string

	// Limits bound what clients may send, and what their sessions may use.
	Limits Limits
	// ReadTimeout is how long a body may take to arrive, 0: 30 s, negative: as long as the
	// [http.Server] says. Those that take longer are given up within another eighth of it.
	ReadTimeout time.Duration

	// Replicas lets any replica take the requests of legacy sessions: one that is not the
	// owner of a session passes them on; see "Several replicas" above. Nil: a session is
	// served by its own replica alone, and others answer 404.
	Replicas *replicas.Options
	// OwnerOf returns the token of the replica that alone can serve a request of revision
	// 2026-07-28 with a requestState, and empty where any can: a gateway's calls live in one
	// process. [Handler.OwnerToken] makes tokens. The state has not been checked; the replica
	// that serves the request checks it. The principal is that of Authenticate. Calls overlap.
	// Nil: any replica serves such requests.
	OwnerOf func(ctx context.Context, p protocol.Principal, requestState string) string

	// StatelessLegacy serves clients of legacy revisions without sessions, so
	// that any replica can take any request: initialize is answered without a
	// session id, every request stands for itself, and nothing can be asked or
	// told beside it. A handler that asks gets a refusal at once.
	StatelessLegacy bool
	// SessionTimeout is how long a legacy session may be idle, with no request running and no
	// stream open, before it ends. 0: 30 minutes, negative: for ever.
	SessionTimeout time.Duration

	tuning tuning
}

// tuning is what only tests set; 0 is the constant.
type tuning struct {
	writeTimeout, keepAlive   time.Duration
	bytesPerSession, allBytes int64
}

// Limits bound what clients may send, and what legacy sessions may use. Of each number 0 is the
// default; a negative one is an error of [New] where the field does not say what it means.
type Limits struct {
	// BodyBytes is the largest body that is read, 0: 16 MiB,
	// negative: no limit but 2 GiB less one, which is as long as messages get.
	BodyBytes int64
	// Sessions is how many legacy sessions may be open at once. For one more the session is ended
	// that has been idle longest, of the same principal if it has one: no request runs and no
	// stream is open in it, and nothing has happened for a minute. Its client is told, as after
	// Options.SessionTimeout, to open another. Where there is none the new one is refused with 503.
	// 0: 10,000. What all of them keep of what their clients said at initialize is bounded in the
	// same way: by 64 MiB, or 6.5 KiB for each where there may be more than 10,000.
	Sessions int
	// SessionsPerPrincipal is how many legacy sessions one authenticated principal may have open,
	// so that nobody locks everybody else out; one more makes the principal's own that has been
	// idle longest go, or is refused with 503. Those that are deleted or expire count no more. 0: a
	// quarter of Sessions, at least one, negative: no limit. A gateway that is one principal for
	// many users may need more. Anonymous clients cannot be told apart: together they may have all
	// sessions where Authenticate is nil, and else all but a quarter.
	SessionsPerPrincipal int
	// RequestsPerSession is how many requests of one legacy session may run at once, 0: 64. Those
	// above are refused with 429. Calls that wait for a person do not run; those have a limit of
	// their own, see [roundtrip.Limits].WaitingPerPrincipal.
	RequestsPerSession int
}

// withDefaults returns a copy that can be relied on.
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
