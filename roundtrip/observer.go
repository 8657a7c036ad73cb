package roundtrip

import (
	"context"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// An Observer is told what happens in a [Funnel], for logs and metrics. Events
// carry no answers, no state and no secrets. Observe is called on the
// goroutine of the request, with a context that holds the request's values; it
// must return soon. Calls may overlap. Expect event types beyond those of
// today.
type Observer interface {
	Observe(ctx context.Context, event Event)
}

// An Event is one of the event types of this package.
type Event interface{ event() }

// Where tells which request an event is about.
type Where struct {
	Version protocol.Version
	Method  string
	Target  string // the name of the tool or prompt, or the URI
	Flow    string // the id of the flow, empty before it has one
	Round   int
}

// StateRejected: a requestState was refused. The client learned only the
// Reference.
type StateRejected struct {
	Where
	Reference string
	Reason    Reason
	// Err is what the [Sealer] said, or whoever read what it opened; nil when
	// the state was authentic and did not fit.
	Err error
}

// AnswersDropped: a request carried answers that were not used.
type AnswersDropped struct {
	Where
	Dropped []Dropped
}

// Resumed: a client came back with an authentic state.
type Resumed struct {
	Where
	// Waited is the time since the questions were asked: mostly a person's.
	Waited time.Duration
	// StateBytes is the length of requestState; 0 in legacy revisions, whose
	// clients carry none.
	StateBytes int
}

// InputRequested: questions, or a state to come back with, went out.
type InputRequested struct {
	Where
	Kinds      []protocol.InputKind
	StateBytes int // as in [Resumed]
	// NearLimit says that few rounds are left before the flow is ended.
	NearLimit bool
}

// FlowEnded: a flow of more than one leg came to its end. Legs counts them.
type FlowEnded struct {
	Where
	Legs int
	How  FlowEnd
}

// A FlowEnd says how a flow ended.
type FlowEnd string

// The ends of a flow.
const (
	EndComplete  FlowEnd = "complete"
	EndFailed    FlowEnd = "failed"
	EndRefused   FlowEnd = "refused"        // the handler asked again what was refused
	EndRounds    FlowEnd = "rounds"         // the cap on rounds was reached
	EndStateLost FlowEnd = "state_lost"     // the client loses the state
	EndReplayed  FlowEnd = "replay_handled" // a replay got the recorded outcome
)

// CapabilityRefused: a question could not be asked of this client.
type CapabilityRefused struct {
	Where
	Missing protocol.ClientCapabilities
}

// HandlerPanicked: a handler panicked; the client got an internal error.
type HandlerPanicked struct {
	Where
	Value any
	Stack []byte
}

// ServerBug: a handler did what it may not; the client got an internal error.
// Err names the key and the field, where there is one.
type ServerBug struct {
	Where
	Err error
}

// QuotaExceeded: a request was refused for want of room. The client may send it
// again after RetryAfter. Refusals before any middleware are [RequestRefused].
type QuotaExceeded struct {
	Where
	// Resource is what has no room: "guard", "store" or "subscriptions".
	Resource string
	// Limit is "principal" when the caller has used up its share, "server" when
	// all callers together have used up everything.
	Limit      string
	RetryAfter time.Duration
}

// SessionEvicted: a session of a legacy client was ended although it had not
// expired, to make room for another. Its client gets what it would get for an
// expired session, and opens a new one.
type SessionEvicted struct {
	// Idle is how long nothing had happened in it.
	Idle time.Duration
	// Limit is the bound that was reached: "principal" or "server".
	Limit string
}

// EphemeralKey: the funnel seals with a key that only this process has. States
// do not survive a restart and no other replica can open them.
type EphemeralKey struct{ KeyID string }

func (StateRejected) event()     {}
func (AnswersDropped) event()    {}
func (Resumed) event()           {}
func (InputRequested) event()    {}
func (FlowEnded) event()         {}
func (CapabilityRefused) event() {}
func (HandlerPanicked) event()   {}
func (ServerBug) event()         {}
func (QuotaExceeded) event()     {}
func (SessionEvicted) event()    {}
func (EphemeralKey) event()      {}

// Observers returns an observer that tells each of the given ones in order.
// Nil entries are passed over.
func Observers(list ...Observer) Observer {
	var all observers
	for _, o := range list {
		if o != nil {
			all = append(all, o)
		}
	}
	return all
}

type observers []Observer

func (list observers) Observe(ctx context.Context, event Event) {
	for _, o := range list {
		o.Observe(ctx, event)
	}
}
