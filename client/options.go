package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/rondo-mcp/rondo/internal/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
)

// Defaults of [Options].
const (
	// DefaultMaxRounds is how many rounds of questions one call goes through:
	// honest wizards have fewer steps, and a server that never has enough must
	// not wear a person out.
	DefaultMaxRounds = 10
	// DefaultMinPause and DefaultMaxPause bound the wait before a request is
	// repeated for a server that only asked to come back: long enough not to
	// hammer a server that sheds load, short enough not to be noticed.
	DefaultMinPause = 50 * time.Millisecond
	DefaultMaxPause = 250 * time.Millisecond
	// DefaultTimeout is how long a server may take over one call, all its
	// rounds together and the person's time left out. It only stops a silent
	// server from holding a caller for ever.
	DefaultTimeout = 5 * time.Minute
	// DefaultMaxPushes is how many questions of a legacy server are open at the
	// same time: more than anybody could look at.
	DefaultMaxPushes = 16
	// MaxMaxPushes leaves transports room to refuse more.
	MaxMaxPushes = protocol.MaxBackCalls / 2
)

// Options configure a [Client]. The zero value, and nil, is a client that
// answers no questions.
//
// The capabilities that the client declares are exactly those it has a handler
// for. Handlers may be called concurrently, for the questions of one round and
// for several calls. They must return when their context ends: that of the
// call, cancelled early when another question of the round fails or the client
// is closed. A handler that panics or answers nil fails the call, not the
// process.
type Options struct {
	// Info names the program to servers. Default: rondo-client, version 0.
	Info protocol.Implementation

	// ElicitForm asks the person to fill in a form (elicitation.form). The
	// content of an accept is completed with the defaults of the form and
	// validated before it is sent.
	ElicitForm func(context.Context, *FormQuestion) (*protocol.ElicitResult, error)
	// ElicitURL asks the person to visit a URL (elicitation.url). It must show
	// the URL and get consent before it opens anything.
	ElicitURL func(context.Context, *URLQuestion) (*protocol.ElicitResult, error)
	// CreateMessage asks a model (sampling).
	CreateMessage func(context.Context, *SamplingQuestion) (*protocol.CreateMessageResult, error)
	// SamplingTools and SamplingContext declare that CreateMessage heeds tools
	// and includeContext. They count only beside CreateMessage.
	SamplingTools, SamplingContext bool
	// ListRoots lists the directories that the server may work on (roots).
	ListRoots func(context.Context, *RootsQuestion) ([]protocol.Root, error)

	// AllowURL decides whether the person may be asked to visit a URL; an
	// error refuses, and the call fails with it. It narrows nothing by itself:
	// when it is set it decides alone, except that URLs with credentials, with
	// characters that people read differently from programs, of more than 8 KiB
	// and with the schemes javascript, vbscript, file, data and blob are refused
	// whatever it says. Default: https, and http to loopback hosts.
	AllowURL func(*url.URL) error

	// MaxRounds is how many times one call may be sent again.
	// Default: [DefaultMaxRounds]; negative: never.
	MaxRounds int
	// MinPause and MaxPause bound the wait before a request is repeated when
	// the server asked nothing. The wait grows between them, with jitter.
	// Defaults: [DefaultMinPause], [DefaultMaxPause].
	MinPause, MaxPause time.Duration
	// Timeout is how long the server may take over one call in total, pauses
	// included. Time spent in handlers does not count: people take as long as
	// they take. Default: [DefaultTimeout]; negative: no limit.
	Timeout time.Duration

	// NoBusyRetry has calls fail at once when the server is busy
	// ([protocol.CodeBusy]). Otherwise a call comes back when the server says
	// (retryAfterMs), at most [MaxBusyRetries] times for each of its requests,
	// and only where the wait fits into the caller's deadline, Timeout and
	// [MaxRetryAfter].
	NoBusyRetry bool

	// Progress receives the progress of requests, as long as it increases. When
	// it is set every request asks for progress, under the caller's token or
	// one of its own. [WithProgress] does the same for one call.
	Progress func(context.Context, *protocol.Progress)
	// Log receives log messages of LogLevel or more severe.
	Log func(context.Context, *protocol.LogMessage)
	// LogLevel asks for log messages with every request that does not choose a
	// level itself. Empty: none.
	LogLevel protocol.LoggingLevel
	// Notification receives every notification that neither Progress nor Log
	// takes. The three may be called concurrently; the context is that of the
	// call the notification relates to.
	Notification func(context.Context, *protocol.Notification)

	// Cache configures the reuse of results that a server declares fresh for a
	// while. Nil means defaults: such results are reused.
	Cache *CacheOptions
	// DraftErrorCodes understands the numbers that drafts of revision
	// 2026-07-28 had for three of its errors, -32001, -32003 and -32004
	// instead of -32020 to -32022, for servers built before they changed.
	// Other servers use them for other things.
	DraftErrorCodes bool
	// Manual is what the caller of [Client.Begin] and [Client.Resume] can
	// answer: the capabilities that these two declare. Nil: those that there
	// are handlers for.
	Manual *protocol.ClientCapabilities

	// ToolRejected is told of every tool that is left out of a list because
	// its definition breaks the rules, and why. Nil: nobody is.
	ToolRejected func(context.Context, *protocol.Tool, error)

	// Era limits the client to one era. Default: both; the client finds out what
	// its server speaks, modern first, if the peer is a [protocol.LegacyPeer].
	// Modern asks nothing and opens no session; Legacy opens one at once.
	Era protocol.Era
	// Assume is the revision that an earlier client of the same server found
	// ([Client.Negotiated]); only its era matters. The server is not asked what
	// it speaks, unless it then behaves as if that were no longer true.
	Assume protocol.Version
	// LegacyChosen is told when the client opens a session of a legacy revision
	// because the server refused to say what it speaks (server/discover), or did
	// not say so in time, and why. Log it: a server that starts slowly is taken
	// for a legacy one ([StreamOptions.ProbeTimeout]). It must return soon, since
	// calls wait for it. Nil: nobody is told.
	LegacyChosen func(ctx context.Context, version protocol.Version, reason error)
	// MaxPushes is how many requests of a legacy server are put to handlers at
	// the same time; more are refused as [protocol.CodeBusy]. Default:
	// [DefaultMaxPushes], at most [MaxMaxPushes].
	MaxPushes int
	// PushFailed is told of every question of a legacy server that went without
	// an answer: a [*QuestionError] that was refused, an [*AnswerError]. The
	// server hears of it too, but not why a handler failed. Over modern
	// revisions the call fails instead. It may be called concurrently. Nil:
	// nobody is told.
	PushFailed func(context.Context, error)

	// Experimental and Extensions are declared beside the capabilities: JSON
	// objects by name.
	Experimental map[string]json.RawMessage
	Extensions   map[string]json.RawMessage
}

// withDefaults returns a copy of o in which every limit is set.
func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Info.Name == "" {
		out.Info.Name = "rondo-client"
	}
	if out.Info.Version == "" {
		out.Info.Version = "0"
	}
	if out.AllowURL == nil {
		out.AllowURL = urlrule.CheckSecure
	}
	if out.MaxRounds == 0 {
		out.MaxRounds = DefaultMaxRounds
	}
	if out.MinPause <= 0 {
		out.MinPause = DefaultMinPause
	}
	if out.MaxPause <= 0 {
		out.MaxPause = DefaultMaxPause
	}
	out.MaxPause = max(out.MaxPause, out.MinPause)
	if out.MaxPushes <= 0 {
		out.MaxPushes = DefaultMaxPushes
	}
	out.MaxPushes = min(out.MaxPushes, MaxMaxPushes)
	if out.Timeout == 0 {
		out.Timeout = DefaultTimeout
	}
	return out
}

// capabilities returns what the handlers can answer, and nothing else.
func (o *Options) capabilities() protocol.ClientCapabilities {
	caps := protocol.ClientCapabilities{Experimental: o.Experimental, Extensions: o.Extensions}
	if o.ElicitForm != nil || o.ElicitURL != nil {
		caps.Elicitation = &protocol.ElicitationCapability{
			Form: o.ElicitForm != nil, URL: o.ElicitURL != nil,
		}
	}
	if o.CreateMessage != nil {
		caps.Sampling = &protocol.SamplingCapability{Context: o.SamplingContext, Tools: o.SamplingTools}
	}
	if o.ListRoots != nil {
		caps.Roots = &protocol.RootsCapability{}
	}
	return caps
}
