package server

import (
	"cmp"
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// The defaults of [Options].
const (
	// defaultPageSize is how many definitions a page of a list holds. Models
	// cannot use many more; clients without pagination get all there are.
	defaultPageSize = 100
	// defaultTTL is how long clients may reuse lists and the answer to server/discover. They change
	// with a deployment, rarely otherwise, and five minutes of a stale list after one do no harm.
	defaultTTL = 5 * time.Minute
)

// Options configure a [Server]. The zero value works.
type Options struct {
	// Info names the server to clients. An empty name becomes "rondo", an empty version "0.0.0".
	Info protocol.Implementation
	// Instructions tell a model how to use the server; empty: none.
	Instructions string
	// Capabilities declares Tools, Prompts, Resources or Completions even though nothing is
	// registered yet, for servers that add some while they run, and names extensions. A feature is
	// declared anyway once something is registered. What the server does by itself, such as
	// announcing changes, it declares by itself.
	Capabilities protocol.ServerCapabilities
	// Roundtrip configures the path of tools/call, prompts/get and resources/read. An empty
	// Audience becomes Info.Name; one of the two is required beside a shared key. Its Observer must
	// be nil: that of the server is told what happens there, too.
	Roundtrip roundtrip.Options
	// Middleware wraps every request, outermost first.
	Middleware []Middleware
	// Observer is told what happens, in the path of Roundtrip, too. Nil: nobody.
	Observer event.Observer
	// PageSize is how many definitions a page of a list holds, 0: 100, negative: all.
	PageSize int
	// ListTTL is how long clients may reuse lists, and the answer to server/discover, 0: 5 minutes,
	// negative: not at all.
	ListTTL time.Duration
	// Visible decides what a principal may see: it is asked for every tool, prompt, resource and
	// template, by its name, URI or template. What is hidden is neither listed nor found, and
	// nobody is told of its updates; that a list changed is announced to everybody who listens for
	// it. Lists are then never shared between principals in caches. Calls may overlap; it is asked
	// for a whole list at a time and must be quick. Nil: everybody sees everything.
	Visible func(p protocol.Principal, kind Kind, name string) bool
	// MaxSubscriptions is how many subscriptions may be open at once, 0: 10,000, negative: no
	// limit. One authenticated principal may have a quarter of them; anonymous clients together may
	// have all where the transport does not authenticate, and else all but a quarter.
	MaxSubscriptions int
	// ShutdownWaitsForPeople has shutdowns wait for requests whose questions are with clients, as
	// they do for requests that run: of the server, and of the transports that serve it. Without it
	// such requests end at once, and their callers are told to call again, for a person may take
	// longer than any deployment. A tools/call gets that as the text of a failed result, without a
	// retryAfterMs: its handler has begun, and a client must not call a tool again by itself.
	// Requests that only read get CodeBusy with one.
	ShutdownWaitsForPeople bool
	// ModernOnly refuses sessions: initialize is answered with an error that
	// names the revisions supported.
	ModernOnly bool
	// PrivateLists keeps lists and the answer to server/discover out of caches that several users
	// share. Set it where a middleware shows different things to different principals; transports
	// that authenticate do so themselves.
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

// declarableCapabilities returns the part of c that is an author's to declare. Changes of
// what may be added later are announced.
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
