package roundtrip

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/protocol"
)

// This file and the others named adapter have what hosted servers, gateways and
// transports use, and authors of handlers do not.

// A Call is one arrival of a multi round-trip request: the first leg of a flowRun
// or a retry. Everything in it may be hostile; nothing is changed.
type Call struct {
	Version protocol.Version
	Method  string
	Target  string // the name of the tool or prompt, or the URI
	// Arguments is the JSON object of arguments, nil when absent.
	Arguments    json.RawMessage
	Capabilities protocol.ClientCapabilities
	// Principal is who calls; the zero value is anonymous.
	Principal protocol.Principal
	// Responses and State are the retry members of the request. Calls of legacy
	// revisions have none: what a host passes there is dropped unread.
	Responses protocol.InputResponses
	State     protocol.RequestState
	// Credential is what the caller authenticates with, as it came: the value
	// of the Authorization header, for example. Where Principal is anonymous,
	// states are bound to it: a retry with another credential is refused, also with
	// a renewed one of the same caller. Otherwise it decides nothing. It is kept out
	// of events and, but for a keyed digest, out of states.
	Credential string
	// RequestID is the id of the request in events, see [RequestID]. Empty: that
	// of the context, or a new one.
	RequestID string
	// Push puts questions to the client of a legacy revision. Nil where there
	// is no session to carry them; it is not used in modern revisions.
	Push Pusher
	// Session tells the sessions of one funnel apart, for
	// Options.Limits.WaitingPerPrincipal. Zero: the call belongs to none.
	Session SessionKey
	// Heartbeat sends one progress notification on the call's own token, while
	// the call waits for a person, after 2 s and then every 15 s: clients that give up what
	// is silent for a minute wait as long as a person needs. The funnel makes one
	// call at a time and none once the wait is over; ctx has the values of the
	// call's context and ends with the wait. Nil: the client asked for no
	// progress.
	Heartbeat func(ctx context.Context)
	// AcceptUnsolicited lets handlers read answers to questions that this flow has
	// not asked, marked Unsolicited, for clients that lose the state.
	AcceptUnsolicited bool
	// Authenticates means that callers of the host can authenticate. Anonymous ones then leave room
	// for those who do, also before the first of them has called.
	Authenticates bool
	// KeptBytes is how many bytes the host keeps for the call, while it waits for a person, beside
	// its Arguments: of the _meta of the request, for example. All calls
	// that wait may have 256 MiB of both together, and one authenticated principal a quarter.
	KeptBytes int32
	// Task lets the handler begin a task, or tells that this call is a run of one. Nil: neither.
	Task *TaskCall
	// CheckOutput, if not nil, validates the structured content (nil when
	// absent) of a tool that completes without an error.
	CheckOutput func(structured json.RawMessage) error
}

// A SessionKey stands for one session of a host. Keys are equal if the values are that
// they were made of; the zero value stands for no session.
type SessionKey struct{ session any }

// SessionKeyOf returns the key of a session, which can be a pointer to it or its id.
func SessionKeyOf[T comparable](session T) SessionKey { return SessionKey{session} }

// A Handler runs one round of a request. It may be called several times in a
// flow, each time from its start.
type Handler func(ctx context.Context) (protocol.Result, error)

// A Pusher puts a question to the client while a request runs. Connections of
// legacy revisions have one; calls may overlap.
type Pusher interface {
	// Push sends the question and waits for the answer, a bare result. It
	// calls extend whenever the client reports progress on the question. It
	// returns when ctx ends, and then notifies the client that the question is
	// withdrawn. An [*protocol.Error] is what the client said instead of an
	// answer; any other error means that it could not be asked. Ctx has the
	// values of the request, and not always those of the handler's context.
	//
	// Writing a question may take a while: a Pusher that knows when it was written calls
	// written before it returns, and the last call counts. The time of Options.MinHumanTime
	// begins then, or with Push.
	Push(ctx context.Context, question protocol.InputRequest, extend, written func()) (
		json.RawMessage, error)
}

// A VisitCompleter is a [Pusher] that can tell clients of revision 2025-11-25 that
// the visit to a URL which was asked for under an id is finished.
type VisitCompleter interface {
	CompleteVisit(ctx context.Context, elicitationID string) error
}
