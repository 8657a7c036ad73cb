package client

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	defaultMaxRounds = 10              // protects users from a server that never stops asking
	defaultTimeout   = 5 * time.Minute // a silent server must not block a call
)

// Options configure a [Client]. Nil and the zero value answer no questions. In every limit and
// duration, 0 means the default.
//
// The client declares exactly the capabilities that it has handlers for. Handlers may be called
// concurrently, also for the questions of one round. They must return when their context ends,
// which happens when the call ends or another question of the round fails. A handler that panics or
// returns nil fails the call, not the process.
type Options struct {
	// Info names the program to servers. Default: rondo-client, version 0.
	Info protocol.Implementation

	// ElicitForm asks the user to fill in a form (elicitation.form). Accepted content is completed
	// with the form's defaults and validated before it is sent.
	ElicitForm func(context.Context, *FormQuestion) (*protocol.ElicitResult, error)
	// ElicitURL shows a URL and opens it only with the user's consent (elicitation.url).
	ElicitURL func(context.Context, *URLQuestion) (*protocol.ElicitResult, error)
	// CreateMessage asks a model (sampling).
	CreateMessage func(context.Context, *SamplingQuestion) (*protocol.CreateMessageResult, error)
	// Sampling declares the features of CreateMessage besides text.
	Sampling protocol.SamplingCapability
	// ListRoots lists the directories that the server may work on (roots).
	ListRoots func(context.Context, *RootsQuestion) ([]protocol.Root, error)

	// AllowURL decides whether the user may be asked to visit a URL; its error fails the call.
	// Default: https, and http to loopback hosts. Always refused are credentials, deceptive
	// characters, more than 8 KiB, and the schemes javascript, vbscript, file, data and blob.
	AllowURL func(*url.URL) error

	// MaxRounds limits the retries of one call. 0: 10, negative: no retries.
	MaxRounds int
	// Timeout is the server's total time for one call, pauses included. Handlers, and a login in
	// the transport, do not count. 0: 5 minutes, negative: no limit.
	Timeout time.Duration

	// NoBusyRetry fails calls at once when the server is busy ([protocol.CodeBusy]). Otherwise a
	// request is retried when the server says (retryAfterMs), at most 3 times, within the caller's
	// deadline, Timeout and 30 s.
	NoBusyRetry bool

	// Tasks declares the tasks extension, which [Client.BeginTask] needs. [Client.CallTool] then
	// follows a task to its result, without time limit, and cancels it when its context ends.
	Tasks bool

	// Log receives log messages of LogLevel or more severe.
	Log func(context.Context, *protocol.LogMessage)
	// LogLevel is the level of requests that do not set one. Empty: no log messages.
	LogLevel protocol.LoggingLevel
	// Notification receives all other notifications except progress of [WithProgress]. All three
	// functions may be called concurrently, with the context of the notification's call.
	Notification func(context.Context, *protocol.Notification)

	// Manual has the capabilities for [Client.Begin] and [Client.Resume]. Nil: the handlers'.
	Manual *protocol.ClientCapabilities

	// RelayElicit is for gateways. It replaces ElicitForm and ElicitURL and gets the raw parameters
	// of each elicitation/create that a legacy server pushes. Forms and URLs that [Client.Begin]
	// and [Client.Resume] return are not checked. Results are encoded as received
	// ([protocol.RelayResult]). The client then declares Manual.
	RelayElicit func(ctx context.Context, params json.RawMessage) (*protocol.ElicitResult, error)

	// Warn receives problems that cause no error for the caller. It should log them.
	//   - A tool with an invalid definition is left out of a list.
	//   - A malformed result is read in spite of its faults: an entry of a list or a block of
	//     content is left out, or a text block without text is read as empty.
	//   - The client opens a session of a legacy revision because the server refused
	//     server/discover or did not answer it in time: a modern server that starts slowly is taken
	//     for a legacy one ([StreamOptions.ProbeTimeout]).
	//   - A legacy server's question must not reach a handler (a [*QuestionError]) or its handler
	//     failed (an [*AnswerError]). The server gets an error too, without the reason why a
	//     handler failed. With modern servers the call fails instead.
	//
	// Calls wait until Warn returns. It may be called concurrently. Its panics are ignored.
	Warn func(context.Context, error)

	// Era limits the client to one era. By default the client negotiates, modern first, if the peer
	// is a [protocol.LegacyPeer]. Modern opens no session; Legacy opens one without asking. A
	// server in the same process is no LegacyPeer: [New] then fails with Legacy.
	Era protocol.Era

	// Extensions are declared with the capabilities. Keys are names, values JSON objects.
	Extensions map[string]json.RawMessage
}

func (o *Options) withDefaults() (Options, error) {
	out := *cmp.Or(o, &Options{})
	if err := out.checkFields(); err != nil {
		return Options{}, err
	}
	out.Info.Name = cmp.Or(out.Info.Name, "rondo-client")
	out.Info.Version = cmp.Or(out.Info.Version, "0")
	if out.AllowURL == nil {
		out.AllowURL = urlrule.CheckSecure
	}
	out.MaxRounds = cmp.Or(out.MaxRounds, defaultMaxRounds)
	out.Timeout = cmp.Or(out.Timeout, defaultTimeout)
	return out, nil
}

func (o *Options) checkFields() error {
	if o.LogLevel != "" && !o.LogLevel.Valid() {
		return errPrefix.Errorf("options: LogLevel: unknown level %.64q", o.LogLevel)
	}
	if o.Era != 0 && o.Era != protocol.Modern && o.Era != protocol.Legacy {
		return errPrefix.Errorf("options: Era: unknown era %d", o.Era)
	}
	if err := checkSettings("Extensions", o.Extensions); err != nil || o.Manual == nil {
		return err
	}
	return cmp.Or(checkSettings("Manual.Experimental", o.Manual.Experimental),
		checkSettings("Manual.Extensions", o.Manual.Extensions))
}

func checkSettings(field string, settings map[string]json.RawMessage) error {
	for name, value := range settings {
		if jsonx.KindOf(value) != jsonx.Object || jsonx.Check(value) != nil {
			return errPrefix.Errorf("options: %s: %.64q is not a JSON object", field, name)
		}
	}
	return nil
}

func (o *Options) warn(ctx context.Context, err error) {
	if o.Warn == nil {
		return
	}
	defer func() { _ = recover() }()
	o.Warn(ctx, err)
}

func (o *Options) declaredCapabilities() protocol.ClientCapabilities {
	if o.RelayElicit != nil && o.Manual != nil {
		return *o.Manual
	}
	caps := protocol.ClientCapabilities{Extensions: o.Extensions}
	if o.Tasks {
		caps.Extensions = maps.Clone(o.Extensions)
		if caps.Extensions == nil {
			caps.Extensions = map[string]json.RawMessage{}
		}
		caps.Extensions[protocol.ExtensionTasks] = json.RawMessage("{}")
	}
	if o.ElicitForm != nil || o.ElicitURL != nil {
		caps.Elicitation = &protocol.ElicitationCapability{
			Form: o.ElicitForm != nil, URL: o.ElicitURL != nil,
		}
	}
	if o.CreateMessage != nil {
		sampling := o.Sampling
		caps.Sampling = &sampling
	}
	if o.ListRoots != nil {
		caps.Roots = &protocol.RootsCapability{}
	}
	return caps
}
