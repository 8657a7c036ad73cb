package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// The defaults of [Options].
const (
	// defaultPageSize is more than servers have: many clients show the first page alone.
	defaultPageSize = 1000
	// defaultTTL is short because lists change with deployments, and five minutes of a stale list
	// do no harm.
	defaultTTL = 5 * time.Minute
)

// Options configure a [Server]. The zero value works.
type Options struct {
	// Info names the server to clients. An empty name becomes "rondo", an empty version "0.0.0".
	Info protocol.Implementation
	// Instructions tell a model how to use the server; empty: none.
	Instructions string
	// Capabilities declares Tools, Prompts, Resources or Completions before anything is registered,
	// for servers that add some while they run, and names extensions. Registered features, and
	// announcements of changes, are declared anyway.
	Capabilities protocol.ServerCapabilities
	// Roundtrip configures tools/call, prompts/get and resources/read. An empty Audience becomes
	// Info.Name; one of the two is required beside a shared key. Its Observer must be nil: that of
	// the server gets its events, too.
	Roundtrip roundtrip.Options
	// Middleware wraps every request, outermost first.
	Middleware []Middleware
	// Observer gets the events of the server and of Roundtrip. May be nil.
	Observer event.Observer
	// PageSize is the number of definitions on a page of a list, 0: 1000, negative: all.
	PageSize int
	// ListTTL is how long clients may reuse lists, and the answer to server/discover, 0: 5 minutes,
	// negative: not at all.
	ListTTL time.Duration
	// Visible decides what a principal may see: it is called for every tool, prompt, resource and
	// template, with its name, URI or template. Hidden definitions are neither listed nor found,
	// and their updates are not announced; that a list changed is announced to every listener.
	// Caches never share lists between principals then. Calls may overlap; it is called for a whole
	// list at a time and must be quick. Nil: everything is visible.
	Visible func(p protocol.Principal, kind Kind, name string) bool
	// MaxSubscriptions is how many subscriptions may be open at once, 0: 10,000, negative: no
	// limit. One authenticated principal may have a quarter of them; anonymous clients together may
	// have all where the transport does not authenticate, else three quarters.
	MaxSubscriptions int
	// Watch is called before the first subscription to the resource at uri is acknowledged, so that
	// a server watches what somebody listens to, and then calls [Server.ResourceUpdated]. stop,
	// which may be nil, is called once the last subscriber is gone or the server closes; ctx ends
	// then, too. Subscriptions of both eras count, those of resources alone that their clients
	// could read when they subscribed. Calls for one URI never overlap. Clients choose what a
	// template matches: check uri as you do when it is read. Nil: nothing is watched.
	Watch func(ctx context.Context, uri string) (stop func())
	// NoSubscriptions neither declares nor serves subscriptions/listen, resources/subscribe and
	// listChanged, for servers whose lists and resources do not change. Changes are not announced.
	NoSubscriptions bool
	// ParseArguments accepts arguments of tools that a model sent as JSON text, such as "[1]" or
	// "5", where the input schema admits no string there: only if the arguments do not match it as
	// they came, and match it so. Handlers get the values, and the event
	// [event.MessageRepaired] names them. Arguments that are relayed stay as they are.
	ParseArguments bool
	// ShutdownWaitsForPeople has shutdowns, of the server and its transports, wait for requests
	// whose questions are with clients, as they do for running ones. Without it such requests end
	// at once, because a person may take longer than any deployment, and their callers are told to
	// call again. A tools/call gets that as the text of a failed result without retryAfterMs: its
	// handler has begun, and a client must not call a tool again by itself. Requests that only read
	// get CodeBusy with retryAfterMs.
	ShutdownWaitsForPeople bool
	// ModernOnly refuses sessions: the error of initialize names the supported revisions.
	ModernOnly bool
	// PrivateLists keeps lists and the answer to server/discover out of shared caches. Set it where
	// a middleware shows principals different things; transports that authenticate do so
	// themselves.
	PrivateLists bool

	observed bool // somebody is told what happens
}

func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Roundtrip.Audience == "" { // the default name is everybody's
		opts.Roundtrip.Audience = opts.Info.Name
	}
	opts.Roundtrip.AppVersion = cmp.Or(opts.Roundtrip.AppVersion, opts.Info.Version)
	opts.Info.Name = cmp.Or(opts.Info.Name, "rondo")
	opts.Info.Version = cmp.Or(opts.Info.Version, "0.0.0")
	if opts.Roundtrip.Observer != nil {
		return opts, errors.New("server: Roundtrip.Observer: must be nil; set Observer, which is " +
			"told what happens there, too")
	}
	opts.observed = opts.Observer != nil
	opts.Observer = event.Observers(opts.Observer)
	opts.Roundtrip.Observer = opts.Observer
	if opts.Roundtrip.Sealer == nil {
		opts.Roundtrip.Sealer = keys.EphemeralKeyring()
	}
	opts.PageSize = cmp.Or(opts.PageSize, defaultPageSize)
	opts.Capabilities = declarableCapabilities(opts.Capabilities)
	opts.MaxSubscriptions = cmp.Or(opts.MaxSubscriptions, defaultMaxSubscriptions)
	opts.ListTTL = ttlOrDefault(opts.ListTTL)
	for _, m := range opts.Middleware {
		if m == nil {
			return opts, errors.New("server: nil middleware")
		}
	}
	return opts, nil
}

// declarableCapabilities returns the part of c that an author may declare. Changes of features that
// may be added later are announced.
func declarableCapabilities(c protocol.ServerCapabilities) protocol.ServerCapabilities {
	own := protocol.ServerCapabilities{Experimental: c.Experimental, Extensions: c.Extensions,
		Completions: c.Completions}
	if c.Tools != nil {
		own.Tools = &protocol.ListCapability{ListChanged: true}
	}
	if c.Prompts != nil {
		own.Prompts = &protocol.ListCapability{ListChanged: true}
	}
	if c.Resources != nil {
		own.Resources = &protocol.ResourcesCapability{ListChanged: true, Subscribe: true}
	}
	return own
}

func ttlOrDefault(d time.Duration) time.Duration { return max(cmp.Or(d, defaultTTL), 0) }
