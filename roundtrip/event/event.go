// Package event defines what funnels, servers and transports report to an [Observer].
//
//	func (o *audit) Observe(ctx context.Context, e event.Event) {
//		if answered, ok := e.(event.Answered); ok {
//			o.store(answered.Where.Flow, answered.Key, answered.Decision)
//		}
//	}
package event

import (
	"encoding/hex"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// Where identifies the request that an event is about.
type Where struct {
	Version protocol.Version
	Method  string
	Target  string // the name of the tool or prompt, or the URI
	Flow    string // the id of the flow, empty before it has one
	Round   int
	// Request is the request's id in all log entries; see roundtrip.RequestID. It may be empty.
	Request string
}

// StateRejected: a requestState was refused. The client got only the Reference.
type StateRejected struct {
	Where
	Reference string
	Reason    Reason
	// Err is the sealer's or decoder's error, the reason an authentic state does not fit, or nil.
	Err error
	// KeyID is the public id of an unknown_key or foreign_ephemeral; anybody can forge it.
	KeyID string
}

// AnswersDropped: a request carried answers that were not used.
type AnswersDropped struct {
	Where
	Dropped []Dropped
}

// Resumed: a client came back with an authentic state.
type Resumed struct {
	Where
	Waited     time.Duration // since the questions were asked: mostly a person's time
	StateBytes int           // of requestState; 0 in legacy revisions
}

// InputRequested: questions, or a state to return with, went out.
type InputRequested struct {
	Where
	Kinds      []protocol.InputKind
	Questions  []AskedQuestion // in the order of Kinds
	StateBytes int             // as in [Resumed]
	RoundsLeft int             // rounds that the flow may still ask
	Way        Way             // of forms whose link is in the result, else empty
	// Principal is the user asked; Client is self-reported, nil if unknown. Do not change them.
	Principal *protocol.Principal
	Client    *protocol.Implementation
}

// An AskedQuestion is a question that went out.
type AskedQuestion struct {
	Key     string
	Kind    protocol.InputKind
	Digest  QuestionDigest
	Request protocol.InputRequest // as asked; not logged; do not change
}

// A QuestionDigest identifies a question for an audit, in [InputRequested] and [Answered], and
// every equal question under the same key. In flow style it covers kind, form and wording; in guard
// style kind and form. It excludes the reason in front of a repeated question.
type QuestionDigest [16]byte

// String returns the digest in hexadecimal.
func (d QuestionDigest) String() string {
	return string(hex.AppendEncode(make([]byte, 0, 32), d[:]))
}

// Answered: the client answered a question. Invalid answers count, dropped ones do not.
type Answered struct {
	Where
	Key            string
	Kind           protocol.InputKind
	Decision       Decision
	Principal      protocol.Principal // who answered, if known
	QuestionDigest QuestionDigest     // zero if unsolicited
	// Asked is the question; nil if unsolicited or in an earlier [InputRequested]. Read-only.
	Asked protocol.InputRequest
	// Content is for package consent's recorder. No other package can read it.
	Content     any           `json:"-"`
	Way         Way           // of a solicited form, else empty
	Waited      time.Duration // between question and answer; zero if Given is set
	Given       time.Time     // when the user answered on a page; else zero
	Unsolicited bool          // the question may not have been asked
}

// A Decision says how a question was decided.
type Decision string

const (
	Accepted  Decision = "accepted"
	Declined  Decision = "declined"
	Cancelled Decision = "cancelled"
	// Unseen is a decline or cancel by the client itself, see roundtrip.Options.MinHumanTime.
	Unseen Decision = "unseen"
)

// AnswerInvalid: an accepted answer did not fit the question. The value is not reported.
type AnswerInvalid struct {
	Where
	Key   string
	Field string // a property of the form; empty: the whole form
	Rule  Rule
}

// A Rule is a form's rule that answers can break, see server/TROUBLESHOOTING.md. The set may grow.
type Rule string

// DeclineIgnored: the handler completed without reading a refusal, and may act without consent.
// Decision is Declined, Cancelled or Unseen. In flow style the cause is a run that does not ask the
// question again. If the question has no key, the client gets a refusal instead of the result.
type DeclineIgnored struct {
	Where
	Key      string
	Decision Decision
}

// FlowEnded: a flow of more than one round ended, after Legs rounds.
type FlowEnded struct {
	Where
	Legs int
	How  FlowEnd
}

// A FlowEnd says how a flow ended.
//
//   - complete: there is a result
//   - failed: the handler failed
//   - refused: the handler repeated a refused question
//   - unseen: the client refused without showing the question
//   - rounds: the limit on rounds was reached
//   - invalid: a question got no valid answer
//   - state_lost: the client loses the state
//   - replay_handled: a replay got the outcome, or the error that it is unknown
type FlowEnd string

// A Way says how the form of a question reaches the user.
//
//   - form: the client shows it
//   - link: the client shows the link of a page with the form (URL mode elicitation)
//   - text: the text of the call's result has the link
//   - task: the status message of the task has the link
type Way string

// CapabilityRefused: the client could not be asked a question.
type CapabilityRefused struct {
	Where
	Missing protocol.ClientCapabilities
	// AnonymousPage: the question's page was not used, because it does not serve anonymous callers.
	AnonymousPage bool
}

// HandlerFailed: a handler returned an error that is neither an [*protocol.Error] nor a refusal.
// The client got its text, or Reference if roundtrip.Options.HideErrors is set.
type HandlerFailed struct {
	Where
	Reference string // empty if the client got the text
	Err       error  // of the handler; its text may hold anything
	// Text is the text of Err without strings of the call's arguments, answers and state, the
	// caller's credentials, and apparent credentials. It may be long and is not escaped.
	Text      string
	Abandoned bool // the client had gone, and the handler stopped
}

// HandlerPanicked: a handler panicked; the client got an internal error.
type HandlerPanicked struct {
	Where
	// Value may hold anything. Text is its text, masked as in [HandlerFailed], or empty.
	Value any
	Text  string
	Stack []byte
}

// ServerBug: a handler misused the API; the client got an internal error. Err names key and field.
type ServerBug struct {
	Where
	Err error
}

// QuotaExceeded: a limit was reached and a request refused; the client may retry after RetryAfter.
// A request whose _meta is too long is served without undefined members. See also [RequestRefused].
type QuotaExceeded struct {
	Where
	// Resource is "guard", "store", "subscriptions", "waiting" (calls that wait for a person),
	// "tasks", or "meta" (a long _meta).
	Resource string
	// Limit is "principal" (the caller's share), "server", "session" (waiting calls) or "request".
	Limit      string
	RetryAfter time.Duration
}

// PushFailed: a question pushed during a call got no answer: it could not be sent, the client
// returned an error, or it timed out. Refusals and questions withdrawn by the handler do not count.
type PushFailed struct {
	Where
	Kind protocol.InputKind
	Err  error // may repeat the client's text: escape and truncate it
	// Tolerated: the handler went on without the answer; otherwise the client got a refusal.
	Tolerated bool
}

// WaitBegan: a call of a legacy revision begins to wait for a person: a question is pushed while no
// other is open. A [WaitEnded] follows, at the latest when the call ends.
type WaitBegan struct{ Where }

// WaitEnded: no question of a call is open any longer.
type WaitEnded struct {
	Where
	Waited time.Duration // while at least one was open
}

// LegRunning: with a guard, a request was repeated while in flight, and the client told to retry.
type LegRunning struct{ Where }

// CutOff: a request ended without result while a guard held its state or [roundtrip.Await] waited.
type CutOff struct {
	Where
	// Retriable: the request can be sent again. If not, its outcome is unknown and its state spent.
	Retriable bool
}

// StoreFailed: a guard or store failed. Before a handler ran, the client is told when to retry; a
// result is returned even if it cannot be recorded.
type StoreFailed struct {
	Where
	Resource  string // "guard", "store" or "tasks"
	Operation string // "claim", "renew", "commit" or "release"; "read" or "write"; or a task's
	Err       error  // its text may name hosts
}

// TaskChanged: a task made progress, or ended. Method and target are the original call's.
type TaskChanged struct {
	Where
	// Task is the start of a digest of its id; the id itself, which grants access, is never logged.
	Task string
	// Change is "begun", or "taken_over" from a dead process; "queued" for a turn to run here, and
	// "dequeued"; "runs" and "stops"; or the end: "completed", "failed", "cancelled", "expired", or
	// "died", because too many of its processes died.
	Change string
	Deaths int           // processes that died while running it, since its last progress
	Lasted time.Duration // since it began; of "dequeued", since it was queued
}

// VisitServed: a browser requested the page of a visit, see package visit.
type VisitServed struct {
	nowhere
	// How is "shown" or "finished", or why the browser was refused: "stranger" (another person or
	// unknown link); "token" (another browser or login); "origin" and "host" (another page or
	// address); "over" and "late" (the visit has ended); "size"; "method"; "store" (it failed).
	How        string
	Visit      string             // start of a digest of the link's id; empty: not read
	Principal  protocol.Principal // the browser's user, if known
	RemoteAddr string             // of the connection's peer, perhaps a proxy
}

// MessageRepaired: a malformed but unambiguous request was served.
type MessageRepaired struct {
	Where
	// Arguments names arguments that came as JSON text. If empty, bad Unicode was read as U+FFFD.
	Arguments []string
}

// QuestionReworded: a question is repeated, worded differently by another application version.
type QuestionReworded struct {
	Where
	Key     string
	Asked   string // the version that asked first
	Version string // this version
}

// SessionEvicted: a legacy session was evicted before it expired; its client opens a new one.
type SessionEvicted struct {
	nowhere
	Idle  time.Duration // how long the session had been idle
	Limit string        // the limit reached: "principal" or "server"
}

// EphemeralKey: the key of an HTTP endpoint exists only in this process. States end with the process,
// and other replicas cannot open them.
type EphemeralKey struct {
	nowhere
	KeyID string
}

// AnonymousState: for the first time the funnel asks a caller without principal and credential.
// Anybody with the state can answer.
type AnonymousState struct{ Where }

// KeysEnabled: a funnel starts with a keys.Describer. Primary is the id of the sealing key, Enabled
// the ids of all keys that open.
type KeysEnabled struct {
	nowhere
	Primary string
	Enabled []string
}
