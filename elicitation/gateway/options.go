package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// Options configure a [Gateway].
type Options struct {
	// Server configures the client side: name, keys, middleware, limits. The gateway declares its
	// published features. Zero values are the server's defaults, except that
	// Roundtrip.Limits.Rounds is 32 and ListTTL 5 s. Roundtrip.RestartExpired is refused.
	Server    server.Options
	Upstreams []Upstream // at least one, with different names
	Logins    *Logins    // nil: calls that need a login fail
	// MaxCalls limits running calls to upstreams that push questions, including those that wait for
	// a person. 0 means 1,000; a negative value means no limit. A call over the limit is refused
	// with [protocol.CodeBusy] before the upstream is called. A call may take 5 minutes longer than
	// one question, including people's time.
	MaxCalls int
	// MaxCallsPerPrincipal limits these per authenticated principal. 0 means 64; negative means no
	// limit. If some callers authenticate, anonymous ones share three quarters of MaxCalls.
	MaxCallsPerPrincipal int
	// MaxConnections limits the call connections to one upstream. 0 means MaxCalls over HTTP, and
	// 64 where each connection is a process. An authenticated principal may use a quarter of them;
	// if some callers authenticate, anonymous ones share three quarters. A call over the limit is
	// refused with [protocol.CodeBusy]. MaxConnections also limits the connections that keep lists,
	// one for each credential; the least recently used is closed. Set it above the number of users
	// with own credentials in five minutes: otherwise calls read lists and start processes.
	MaxConnections int
	// Elicitation configures the questions of upstreams; [elicitation.OptionsFromEnv] can read it.
	// Zero values are the router's defaults, except: Timeout is Server.Roundtrip.HumanTimeout, or
	// 10 minutes, and replaces HumanTimeout; MinHumanTime comes from Server.Roundtrip; MaxPending
	// is MaxCalls, and MaxPerPrincipal is MaxCallsPerPrincipal; Log and Metrics are the gateway's.
	// AllowSecrets adds to [Upstream].Secrets. Validation is always [elicitation.ValidateEnforce],
	// because the gateway's server checks what it asks.
	Elicitation elicitation.Options
	Log         event.LogSink // entries about upstreams and their published features; nil: none
	// Metrics gets the metrics of questions, as [elicitation.Options].Metrics does, and
	// elicitation_parked, elicitation_resumes_total by outcome, and
	// elicitation_upstream_failures_total by upstream and why. Nil disables metrics.
	Metrics event.MetricSink

	// Set by tests only. 0: see maxEntries and answerTime.
	entries  int
	callTime time.Duration
}

// An Upstream is one server behind the gateway.
type Upstream struct {
	// Name prefixes the names that the upstream publishes: the tool "search" of "docs" becomes
	// "docs_search", the resource "file:///a" "docs+file:///a". It begins with a letter and has
	// only lower-case letters, digits, '-' and '.'.
	Name string
	// Connect opens a connection, see [HTTP] and [Command]. It is called again after a connection
	// broke, and for each set of credentials. Calls may overlap.
	Connect func(ctx context.Context, credential Credential) (protocol.Peer, error)
	// Credential returns a caller's credential at the upstream. Callers with equal keys share
	// connections, lists and subscriptions, so a key must cover everything that the credential
	// admits. It is called for lists too, and must be quick. The zero principal is the gateway
	// itself. An error refuses the call; a [*protocol.Error] goes to the client unchanged. Callers
	// whose credentials are missing or cannot read the lists see the gateway's own lists. Nil means
	// that all callers share one connection without credentials.
	Credential func(ctx context.Context, caller protocol.Principal) (Credential, error)
	// Unprefixed tools and prompts keep their names, reserved even while the upstream is down.
	Unprefixed []string
	// Refuse lists the kinds of questions that the upstream may not ask. Others are declared to it
	// if the client of the call has declared them.
	Refuse []protocol.InputKind
	// Secrets admits forms that seem to ask for a secret, such as a password; prefer a URL.
	Secrets bool
	Era     protocol.Era // limits the upstream to one era; default: both, modern first
}

// A Credential identifies a caller at an upstream.
type Credential struct {
	Key        string                // tells credentials apart; never logged
	Authorizer clienthttp.Authorizer // adds credentials to HTTP requests; nil: none
}

// HTTP returns the Connect function of an upstream at a URL (basic/transports/streamable-http). A
// credential's Authorizer replaces the one in opts; opts may be nil.
func HTTP(
	url string, opts *clienthttp.Options,
) func(context.Context, Credential) (protocol.Peer, error) {
	return func(_ context.Context, credential Credential) (protocol.Peer, error) {
		var with clienthttp.Options
		if opts != nil {
			with = *opts
		}
		if credential.Authorizer != nil {
			with.Authorizer = credential.Authorizer
		}
		return clienthttp.New(url, &with)
	}
}

const (
	// answerTime is a call's limit in addition to one question's: the upstream works, too.
	answerTime = 5 * time.Minute
	// maxEntries bounds each kind of an upstream's entries. More are left out and logged once.
	maxEntries = 1000
)

func (o *Options) questions() elicitation.Options {
	with := o.Elicitation
	if with.Timeout == 0 {
		with.Timeout = cmp.Or(o.Server.Roundtrip.HumanTimeout, 10*time.Minute)
	}
	if with.MinHumanTime == 0 {
		with.MinHumanTime = o.Server.Roundtrip.MinHumanTime
	}
	with.Validation = elicitation.ValidateEnforce
	with.MaxPending = cmp.Or(with.MaxPending, o.MaxCalls, 1000)
	with.MaxPerPrincipal = cmp.Or(with.MaxPerPrincipal, o.MaxCallsPerPrincipal, 64)
	if with.Log == nil {
		with.Log = o.Log
	}
	if with.Metrics == nil {
		with.Metrics = o.Metrics
	}
	mayAsk := with.AllowSecrets
	with.AllowSecrets = func(connection elicitation.UpstreamKey) bool {
		name, _, _ := strings.Cut(string(connection), "/")
		return mayAsk != nil && mayAsk(connection) ||
			slices.ContainsFunc(o.Upstreams, func(u Upstream) bool {
				return u.Name == name && u.Secrets
			})
	}
	return with
}

func claimNames(opts *Options) ([]*upstreamNames, error) {
	if opts == nil || len(opts.Upstreams) == 0 {
		return nil, errors.New("gateway: Options.Upstreams: at least one is needed")
	}
	var claims nameClaims
	all := make([]*upstreamNames, len(opts.Upstreams))
	for i, u := range opts.Upstreams {
		var err error
		if all[i], err = claims.Add(u.Name, u.Unprefixed); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
		if u.Connect == nil {
			return nil, fmt.Errorf("gateway: upstream %q: Connect is missing", u.Name)
		}
		for _, kind := range u.Refuse {
			if kind.Method() == "" {
				return nil, fmt.Errorf("gateway: upstream %q: Refuse: %q is no kind of question",
					u.Name, kind)
			}
		}
	}
	return all, nil
}

// Command returns the Connect function of an upstream that is a program with MCP on its standard
// input and output (basic/transports/stdio). One process serves the lists; an older revision needs
// one more per concurrent call. Idle processes end after five to six minutes, with their children
// where there are process groups.
//
// The program's environment has basics such as PATH and HOME, and no secrets of the gateway. To
// change it, write a function that calls [client.Command].
func Command(
	name string, args ...string,
) func(context.Context, Credential) (protocol.Peer, error) {
	return func(context.Context, Credential) (protocol.Peer, error) {
		cmd := exec.Command(name, args...)
		cmd.Env = []string{} // not nil, which would mean the whole environment
		for _, variable := range []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM",
			"LANG", "LC_ALL", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "SYSTEMDRIVE",
			"COMSPEC", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "PATHEXT",
			"USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMFILES"} {
			if value, ok := os.LookupEnv(variable); ok {
				cmd.Env = append(cmd.Env, variable+"="+value)
			}
		}
		return client.Command(cmd, &client.CommandOptions{OwnGroup: true})
	}
}
