package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// Defaults of [Options].
const (
	// defaultMaxRounds is how many rounds of questions one call goes
	// through. Honest wizards have fewer steps; the limit protects people
	// from a server that never stops asking.
	defaultMaxRounds = 10
	// defaultMinPause and defaultMaxPause bound the wait before a request
	// is repeated for a server that sent state and no questions: long
	// enough not to overload a server that sheds load, short enough not to
	// be noticed.
	defaultMinPause = 50 * time.Millisecond
	defaultMaxPause = 250 * time.Millisecond
	// defaultTimeout is how long a server may take over one call, all its
	// rounds together, not counting the time that handlers take. It is
	// generous: it only keeps a silent server from blocking a caller for
	// ever.
	defaultTimeout = 5 * time.Minute
	// defaultMaxPushes is how many questions of a legacy server are open at
	// the same time: as many as a server of revision 2026-07-28 may ask in
	// one round, so that calls in parallel are served in both eras.
	defaultMaxPushes = maxQuestions
)

// maxPushesCap is the highest Options.MaxPushes. The rest of
// protocol.MaxBackCalls is for refusals: a transport that runs out of it stops
// reading.
const maxPushesCap = protocol.MaxBackCalls / 2

// Options configure a [Client]. The zero value, and nil, is a client that
// answers no questions. For every limit and duration, 0 is the default, and a
// negative value has the meaning that its field documents.
//
// The client declares exactly those capabilities that it has a handler for.
// Handlers may be called concurrently, for the questions of one round and for
// several calls. They must return when their context ends: it is that of the
// call, and is cancelled early when another question of the round fails or the
// client is closed. A handler that panics or returns nil fails the call, not
// the process.
type Options struct {
	// Info names the program to servers. Default: rondo-client, version 0.
	Info protocol.Implementation

	// ElicitForm asks the person to fill in a form (elicitation.form). The
	// content of an accept is completed with the defaults of the form and
	// validated before it is sent.
	ElicitForm func(context.Context, *FormQuestion) (*protocol.ElicitResult, error)
	// ElicitURL asks the person to visit a URL (elicitation.url). It must
	// show the URL and get consent before it opens anything.
	ElicitURL func(context.Context, *URLQuestion) (*protocol.ElicitResult, error)
	// CreateMessage asks a model (sampling).
	CreateMessage func(context.Context, *SamplingQuestion) (*protocol.CreateMessageResult, error)
	// SamplingTools and SamplingContext declare that CreateMessage supports
	// tools and includeContext. They have no effect without CreateMessage.
	SamplingTools, SamplingContext bool
	// ListRoots lists the directories that the server may work on (roots).
	ListRoots func(context.Context, *RootsQuestion) ([]protocol.Root, error)

	// AllowURL decides whether the person may be asked to visit a URL. If
	// it returns an error, the call fails with it. It replaces the default
	// rule, but these are refused in any case: URLs with credentials, with
	// characters that people read differently from programs, of more than 8
	// KiB, and with the schemes javascript, vbscript, file, data and blob.
	// Default: https, and http to loopback hosts.
	AllowURL func(*url.URL) error

	// MaxRounds is how many times one call may be sent again. 0:
	// 10, negative: never.
	MaxRounds int
	// MinPause and MaxPause bound the wait before a request is repeated
	// when the server asked nothing. The wait grows between them, with
	// jitter. 0: 50 ms and 250 ms; if one is
	// negative there is no wait.
	MinPause, MaxPause time.Duration
	// Timeout is how long the server may take over one call in total,
	// pauses included. Time spent in handlers, or in a login that the
	// transport waits for, does not count, since people take as long as
	// they need. 0: 5 minutes, negative: no limit.
	Timeout time.Duration

	// NoBusyRetry makes calls fail at once when the server is busy
	// ([protocol.CodeBusy]). Otherwise a request is sent again when the
	// server says (retryAfterMs), at most 3 times, and only
	// if the wait fits into the caller's deadline, Timeout and
	// 30 s.
	NoBusyRetry bool

	// Progress receives the progress of requests, as long as it increases.
	// If it is set, every request asks for progress, under the caller's
	// token or one of the client's. [WithProgress] does the same for one
	// call.
	Progress func(context.Context, *protocol.Progress)
	// Log receives log messages of LogLevel or more severe.
	Log func(context.Context, *protocol.LogMessage)
	// LogLevel asks for log messages with every request that does not
	// choose a level itself. Empty: none.
	LogLevel protocol.LoggingLevel
	// Notification receives every notification that neither Progress nor
	// Log receives. The three may be called concurrently. Their context is
	// that of the call that the notification belongs to.
	Notification func(context.Context, *protocol.Notification)

	// Cache configures the reuse of results that a server declares fresh
	// for a while. Nil means defaults: such results are reused.
	Cache *CacheOptions
	// DraftErrorCodes makes the client understand the codes that drafts of
	// revision 2026-07-28 had for three of its errors: -32001, -32003 and
	// -32004 instead of -32020 to -32022. Set it for servers built on a
	// draft only: others use these codes for other errors.
	DraftErrorCodes bool
	// Manual are the capabilities that [Client.Begin] and [Client.Resume]
	// declare: what their caller can answer. Nil: those that there are
	// handlers for.
	Manual *protocol.ClientCapabilities

	// ToolRejected is called for every tool that is left out of a list
	// because its definition is invalid, with the reason. It may be nil.
	ToolRejected func(context.Context, *protocol.Tool, error)

	// Malformed is called with what is wrong in a result that is read all the same: entries of a
	// list that are left out because they cannot be read, and blocks of text without text, which
	// are read as empty. It may be nil.
	Malformed func(context.Context, error)

	// Era limits the client to one era. Default: both. The client then
	// finds out what its server speaks, modern first, if the peer is a
	// [protocol.LegacyPeer]. With Modern it opens no session, with Legacy
	// it opens one without asking. A server in the same process is no
	// LegacyPeer: [New] fails with Legacy then.
	Era protocol.Era
	// Assume is the revision that an earlier client of the same server
	// found ([Client.Negotiated]); only its era matters. The client then
	// does not ask the server what it speaks, unless a response shows that
	// the assumption no longer holds.
	Assume protocol.Version
	// LegacyChosen is called when the client opens a session of a legacy
	// revision because the server refused server/discover or did not answer
	// it in time. The reason says which. Log it: a modern server that
	// starts slowly is taken for a legacy one
	// ([StreamOptions.ProbeTimeout]). Calls wait until it returns. It may
	// be nil.
	LegacyChosen func(ctx context.Context, version protocol.Version, reason error)
	// MaxPushes is how many requests of a legacy server are put to handlers
	// at the same time. More are refused with [protocol.CodeBusy]. 0:
	// 100, negative: no limit of its own. Half of
	// [protocol.MaxBackCalls] is the maximum in any case.
	MaxPushes int
	// PushFailed is called for a question of a legacy server that must not be
	// put to a handler, with a [*QuestionError], or whose handler failed, with
	// an [*AnswerError]. It is not called for requests that are malformed,
	// undeclared, one too many, or withdrawn. The server gets an error too,
	// without the reason why a handler failed. With modern servers the call
	// fails instead. It may be called concurrently, and may be nil.
	PushFailed func(context.Context, error)

	// Experimental and Extensions are declared with the capabilities: JSON
	// objects by name.
	Experimental map[string]json.RawMessage
	Extensions   map[string]json.RawMessage
}

// withDefaults returns a copy of o in which every limit has its effective
// value. It fails if a field is not valid.
func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	if err := out.checkFields(); err != nil {
		return Options{}, err
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
		out.MaxRounds = defaultMaxRounds
	}
	out.setPauses()
	if out.MaxPushes == 0 {
		out.MaxPushes = defaultMaxPushes
	}
	if out.MaxPushes < 0 || out.MaxPushes > maxPushesCap {
		out.MaxPushes = maxPushesCap
	}
	if out.Timeout == 0 {
		out.Timeout = defaultTimeout
	}
	return out, nil
}

// checkFields refuses values that would be left out of requests or make every
// server refuse them. Assume may be a revision that this client does not know:
// a newer program may have stored it.
func (o *Options) checkFields() error {
	if o.LogLevel != "" && !o.LogLevel.Valid() {
		return errPrefix.Errorf("options: LogLevel: unknown level %.64q", o.LogLevel)
	}
	if o.Era != 0 && o.Era != protocol.Modern && o.Era != protocol.Legacy {
		return errPrefix.Errorf("options: Era: unknown era %d", o.Era)
	}
	if err := checkSettings("", o.Experimental, o.Extensions); err != nil || o.Manual == nil {
		return err
	}
	return checkSettings("Manual.", o.Manual.Experimental, o.Manual.Extensions)
}

// checkSettings checks that the settings of capabilities are JSON objects. The
// options that hold them are fields of owner.
func checkSettings(owner string, experimental, extensions map[string]json.RawMessage) error {
	for name, value := range experimental {
		if jsonx.KindOf(value) != jsonx.Object || jsonx.Check(value) != nil {
			return errPrefix.Errorf("options: %sExperimental: %.64q is not a JSON object", owner,
				name)
		}
	}
	for name, value := range extensions {
		if jsonx.KindOf(value) != jsonx.Object || jsonx.Check(value) != nil {
			return errPrefix.Errorf("options: %sExtensions: %.64q is not a JSON object", owner,
				name)
		}
	}
	return nil
}

// setPauses sets MinPause and MaxPause to their effective values, both 0 for no
// wait.
func (o *Options) setPauses() {
	if o.MinPause < 0 || o.MaxPause < 0 {
		o.MinPause, o.MaxPause = 0, 0
		return
	}
	if o.MinPause == 0 {
		o.MinPause = defaultMinPause
	}
	if o.MaxPause == 0 {
		o.MaxPause = defaultMaxPause
	}
	o.MaxPause = max(o.MaxPause, o.MinPause)
}

// declaredCapabilities returns what the handlers can answer.
func (o *Options) declaredCapabilities() protocol.ClientCapabilities {
	caps := protocol.ClientCapabilities{Experimental: o.Experimental, Extensions: o.Extensions}
	if o.ElicitForm != nil || o.ElicitURL != nil {
		caps.Elicitation = &protocol.ElicitationCapability{
			Form: o.ElicitForm != nil, URL: o.ElicitURL != nil,
		}
	}
	if o.CreateMessage != nil {
		caps.Sampling = &protocol.SamplingCapability{Context: o.SamplingContext,
			Tools: o.SamplingTools}
	}
	if o.ListRoots != nil {
		caps.Roots = &protocol.RootsCapability{}
	}
	return caps
}
