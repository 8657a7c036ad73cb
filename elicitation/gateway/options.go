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
	// Server configures the side of the clients: name, keys, middleware, limits. What the
	// gateway publishes is declared by itself. Zero values are the server's defaults, but for
	// Roundtrip.Limits.Rounds, which is 32, and ListTTL, which is 5 s. Roundtrip.RestartExpired is
	// refused.
	Server server.Options
	// Upstreams are the servers behind the gateway, at least one, with names that differ.
	Upstreams []Upstream
	// Logins have people log in at upstreams. Nil: calls that need a login fail.
	Logins *Logins
	// MaxCalls is how many calls of upstreams that push their questions may run, those that wait
	// for a person included. 0: 1,000, negative: no limit. What is over it is refused with
	// [protocol.CodeBusy] before the upstream is called. A call may take 5 minutes more than one
	// question, people's time included.
	MaxCalls int
	// MaxCallsPerPrincipal is how many of them one authenticated principal may have. 0: 64,
	// negative: no limit. Anonymous callers together may have all but a quarter of MaxCalls where
	// others authenticate.
	MaxCallsPerPrincipal int
	// MaxConnections is how many connections one upstream is given at most for calls. 0: MaxCalls
	// over HTTP, 64 where each is a process. One authenticated principal may use a quarter of
	// them, anonymous callers together all but a quarter where others authenticate. A call beyond
	// is refused with [protocol.CodeBusy]. As many credentials have connections on which their
	// lists are read; with one more, those of the caller that has not come for longest end. Set it
	// above the number of people with credentials of their own who come within five minutes: for
	// each one beyond it, lists are read, and processes started, anew in each call.
	MaxConnections int
	// Elicitation configures the questions of upstreams, as [elicitation.OptionsFromEnv] reads it
	// for example. Zero values are the router's defaults, but for these: Timeout is
	// Server.Roundtrip.HumanTimeout, or 10 minutes, and takes its place; MinHumanTime is that of
	// Server.Roundtrip; MaxPending is MaxCalls, and MaxPerPrincipal is MaxCallsPerPrincipal; Log
	// and Metrics are those of the gateway. AllowSecrets admits what [Upstream].Secrets does
	// not. Validation is [elicitation.ValidateEnforce], since the
	// gateway's server checks what it asks.
	Elicitation elicitation.Options
	// Log is told what happens to upstreams and to what they publish. Nil: nobody.
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
	// Credential returns what a caller is known as at the upstream. Connections, lists and
	// subscriptions are shared by callers with equal keys, so a key must name everything that
	// the credential admits. It is called for lists, too, and must be quick. The gateway itself
	// is the zero principal. An error refuses the call; a [*protocol.Error] goes to the client as
	// it is. Who has no credentials, or none with which the lists can be read, sees those that
	// the gateway itself is shown. Nil: everybody shares one connection without credentials.
	Credential func(ctx context.Context, caller protocol.Principal) (Credential, error)
	// Unprefixed are the names of tools and prompts that are published as they are. They stay
	// reserved while the upstream is down.
	Unprefixed []string
	// Refuse are the kinds of questions that the upstream may not ask. The gateway declares the
	// others to it if the client of the call has declared them, too.
	Refuse []protocol.InputKind
	// Secrets admits forms that ask for what looks like a secret, such as a password. A URL is
	// the way to ask for one.
	Secrets bool
	// Era limits the upstream to one era. Default: both, modern first.
	Era protocol.Era
}

// A Credential is what a caller is known as at an upstream.
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
	// answerTime is how much longer a call may take than one question: the upstream works, too.
	answerTime = 5 * time.Minute
	// maxEntries is how many tools, prompts, resources or templates of one upstream are
	// published, each: more than a person or a model looks through. An upstream with more
	// resources has templates for them. The rest is left out, and the log says so, once.
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

// Command returns the Connect function of an upstream that is a program, spoken to over its
// standard input and output (basic/transports/stdio). It is started once for the lists and once for
// each call at a time, if it speaks an older revision; those that nobody uses end after five to six
// minutes, and their children with them, where there are process groups.
//
// Of the environment it gets what programs need to run, PATH and HOME among it, and nothing that
// the gateway alone may know, such as keys. To choose more, write a function that calls
// [client.Command].
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
