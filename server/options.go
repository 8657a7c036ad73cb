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

const (
	// defaultPageSize exceeds the lists of most servers: many clients show only the first page.
	defaultPageSize = 1000
	defaultTTL      = 5 * time.Minute // lists change with deployments; short staleness is harmless
)

// Options configure a [Server]. The zero value works.
type Options struct {
	// Info names the server to clients. If empty, the name is "rondo" and the version "0.0.0".
	Info protocol.Implementation
	// Instructions tell a model how to use the server; may be empty.
	Instructions string
	// Capabilities declares Tools, Prompts, Resources or Completions before any are registered, and
	// names extensions. Registered features and announcements of changes are declared anyway.
	Capabilities protocol.ServerCapabilities
	// Roundtrip configures tools/call, prompts/get and resources/read. An empty Audience becomes
	// Info.Name; a shared key requires one of the two. Its Observer must be nil: see Observer.
	Roundtrip  roundtrip.Options
	Middleware []Middleware // wraps every request, outermost first
	// Observer gets the events of the server and of Roundtrip. May be nil.
	Observer event.Observer
	// PageSize is the number of definitions on a page of a list; 0 means 1000, negative means all.
	PageSize int
	// ListTTL is how long clients may cache lists and discovery; 0 means 5 minutes, negative never.
	ListTTL time.Duration
	// Visible reports whether p may see a tool, prompt, resource or template with that name, URI or
	// template. Hidden definitions are neither listed nor found, and their updates are not
	// announced; list changes are announced to every listener. Caches never share lists then. Calls
	// may overlap; it is called for every entry and must be fast. If nil, all are visible.
	Visible func(p protocol.Principal, kind Kind, name string) bool
	// MaxSubscriptions limits open subscriptions; 0 means 10,000, negative means no limit. One
	// principal may have a quarter; anonymous clients share all, or three quarters if the transport
	// authenticates.
	MaxSubscriptions int
	// Watch is called before the first subscription to the resource at uri is acknowledged, so that
	// the server watches only what is subscribed to; it then calls [Server.ResourceUpdated]. When
	// the last subscriber is gone or the server closes, ctx ends and stop, which may be nil, is
	// called. Subscriptions of both eras count if their client could read the resource when it
	// subscribed. Calls for one URI never overlap. Clients choose the parts that match a template:
	// validate uri as when reading it. If nil, nothing is watched.
	Watch func(ctx context.Context, uri string) (stop func())
	// NoSubscriptions disables subscriptions/listen, resources/subscribe and listChanged.
	NoSubscriptions bool
	// ParseArguments accepts arguments that a model sent as JSON text, such as "[1]" or "5", where
	// the input schema admits no string, but only if the original arguments do not match the schema
	// and the parsed ones do. [event.MessageRepaired] names them. Relayed arguments stay unchanged.
	ParseArguments bool
	// ShutdownWaitsForPeople makes shutdowns of the server and its transports also wait for
	// requests that are waiting for users. Without it such requests end at once, because a user may
	// take longer than any deployment, and callers are told to call again. For a tools/call this is
	// the text of a failed result without retryAfterMs: its handler has begun, so clients must not
	// retry automatically. Requests that only read get CodeBusy.
	ShutdownWaitsForPeople bool
	// ModernOnly refuses sessions: the error of initialize lists the supported revisions.
	ModernOnly bool
	// PrivateLists keeps lists and the answer to server/discover out of shared caches. Set it if a
	// middleware shows principals different lists; transports that authenticate set it themselves.
	PrivateLists bool

	observed bool // there is an observer
}

func (o *Options) withDefaults() (Options, error) {
	opts := *cmp.Or(o, &Options{})
	if opts.Roundtrip.Audience == "" { // the default name is not unique
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
	opts.Capabilities = setAnnouncements(opts.Capabilities, true)
	opts.MaxSubscriptions = cmp.Or(opts.MaxSubscriptions, defaultMaxSubscriptions)
	opts.ListTTL = max(cmp.Or(opts.ListTTL, defaultTTL), 0)
	for _, m := range opts.Middleware {
		if m == nil {
			return opts, errors.New("server: nil middleware")
		}
	}
	return opts, nil
}

// setAnnouncements returns c with the promises to announce changes, or without them.
func setAnnouncements(c protocol.ServerCapabilities, announces bool) protocol.ServerCapabilities {
	if c.Tools != nil {
		c.Tools = &protocol.ListCapability{ListChanged: announces}
	}
	if c.Prompts != nil {
		c.Prompts = &protocol.ListCapability{ListChanged: announces}
	}
	if c.Resources != nil {
		c.Resources = &protocol.ResourcesCapability{ListChanged: announces, Subscribe: announces}
	}
	return c
}
