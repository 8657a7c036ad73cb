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
	// Server configures the side of the clients: name, keys, middleware, limits. The gateway
	// declares by itself what it publishes. Zero values are the server's defaults, except
	// Roundtrip.Limits.Rounds, 32, and ListTTL, 5 s. Roundtrip.RestartExpired is refused.
	Server server.Options
	// Upstreams are the servers behind the gateway, at least one, with names that differ.
	Upstreams []Upstream
	// Logins have people log in at upstreams. Nil: calls that need a login fail.
	Logins *Logins
	// MaxCalls is how many calls of upstreams that push their questions may run, including those
	// that wait for a person. 0: 1,000, negative: no limit. A call beyond it is refused with
	// [protocol.CodeBusy] before the upstream is called. A call may take 5 minutes longer than one
	// question, including people's time.
	MaxCalls int
	// MaxCallsPerPrincipal is how many of them one authenticated principal may have. 0: 64,
	// negative: no limit. Anonymous callers together may have all but a quarter of MaxCalls where
	// others authenticate.
	MaxCallsPerPrincipal int
	// MaxConnections bounds the connections to one upstream for calls. 0: MaxCalls over HTTP, 64
	// where each is a process. One authenticated principal may use a quarter of them, anonymous
	// callers together all but a quarter where others authenticate. A call beyond is refused with
	// [protocol.CodeBusy]. It also bounds the credentials with a connection on which their lists
	// are read: the least recently used ends first. Set it above the number of people with
	// credentials of their own who come within five minutes: for each one beyond it, lists are
	// read, and processes started, anew in each call.
	MaxConnections int
	// Elicitation configures the questions of upstreams; [elicitation.OptionsFromEnv] can read it.
	// Zero values are the router's defaults, except these: Timeout is
	// Server.Roundtrip.HumanTimeout, or 10 minutes, and replaces it; MinHumanTime is that of
	// Server.Roundtrip; MaxPending is MaxCalls, and MaxPerPrincipal is MaxCallsPerPrincipal; Log
	// and Metrics are those of the gateway. AllowSecrets adds to [Upstream].Secrets. Validation is
	// always [elicitation.ValidateEnforce]: the gateway's server checks what it asks.
	Elicitation elicitation.Options
	// Log gets entries about upstreams and what they publish. Nil: none.
	Log event.LogSink
	// Metrics gets the metrics of questions, as [elicitation.Options].Metrics does, and those of
	// parked calls and of upstreams: elicitation_parked, elicitation_resumes_total by outcome, and
	// elicitation_upstream_failures_total by upstream and why. Nil: there are none.
	Metrics event.MetricSink

	// What tests alone set. 0: see maxEntries and answerTime.
	entries  int
	callTime time.Duration
}

// An Upstream is one server behind the gateway.
type Upstream struct {
	// Name is the prefix of what the upstream publishes: the tool "search" of "docs" becomes
	// "docs_search", and the resource "file:///a" becomes "docs+file:///a". It begins with a
	// letter and has lower-case letters, digits, '-' and '.' only.
	Name string
	// Connect opens a connection. [HTTP] and [Command] make such functions. It is called again
	// after a connection broke, and for each set of credentials. Calls may overlap.
	Connect func(ctx context.Context, credential Credential) (protocol.Peer, error)
	// Credential returns the credential of a caller at the upstream. Callers with equal keys share
	// connections, lists and subscriptions, so a key must name everything that the credential
	// admits. It is called for lists, too, and must be quick. The gateway itself is the zero
	// principal. An error refuses the call; a [*protocol.Error] goes to the client as it is.
	// Callers without credentials, or with some that cannot read the lists, see the gateway's own
	// lists. Nil: everybody shares one connection without credentials.
	Credential func(ctx context.Context, caller protocol.Principal) (Credential, error)
	// Unprefixed are the names of tools and prompts that are published as they are. They stay
	// reserved while the upstream is down.
	Unprefixed []string
	// Refuse are the kinds of questions that the upstream may not ask. The gateway declares the
	// others to it where the client of the call has declared them.
	Refuse []protocol.InputKind
	// Secrets admits forms that ask for what looks like a secret, such as a password. A URL is
	// the way to ask for one.
	Secrets bool
	// Era limits the upstream to one era. Default: both, modern first.
	Era protocol.Era
}

// A Credential identifies a caller at an upstream.
type Credential struct {
	// Key tells credentials apart. It appears in no log.
	Key string
	// Authorizer adds the credentials to requests over HTTP. Nil: none.
	Authorizer clienthttp.Authorizer
}

// HTTP returns the Connect function of an upstream at a URL (basic/transports/streamable-http). The
// Authorizer of a credential takes the place of that in opts, which may be nil.
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
	// answerTime is how much longer than one question a call may take: the upstream works, too.
	answerTime = 5 * time.Minute
	// maxEntries bounds the published tools, prompts, resources and templates of one upstream,
	// each. The rest is left out, which is logged once.
	maxEntries = 1000
)

// questions returns the options of the router.
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

// claimNames returns the names of the upstreams, or what is wrong with them.
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
// input and output (basic/transports/stdio). It is started once for the lists and, if it speaks an
// older revision, once for each call at a time. Idle processes end after five to six minutes, with
// their children where there are process groups.
//
// Its environment has what programs need to run, such as PATH and HOME, and no secrets of the
// gateway, such as keys. To choose more, write a function that calls [client.Command].
func Command(
	name string, args ...string,
) func(context.Context, Credential) (protocol.Peer, error) {
	return func(context.Context, Credential) (protocol.Peer, error) {
		cmd := exec.Command(name, args...)
		cmd.Env = []string{} // not nil, which is everything
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
