// Package event defines the events that a funnel, a server and its transports report to an
// [Observer], for logs and metrics.
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
	// Request is the id of this request in all log entries; see roundtrip.RequestID. Empty: none.
	Request string
}

// StateRejected: a requestState was refused. The client got only the Reference.
type StateRejected struct {
	Where
	Reference string
	Reason    Reason
	// Err is the error of the sealer or decoder. For an authentic state that does not fit, it gives
	// details or is nil.
	Err error
	// KeyID is the public key id in the state, for unknown_key and foreign_ephemeral; anybody can
	// forge it.
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
	// Principal is asked; Client is self-reported, nil if unknown. Do not change them.
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

// A QuestionDigest identifies a question for an audit: it is the same in [InputRequested] and
// [Answered], and for every equal question under the same key. In flow style it covers kind, form
// and wording; in guard style kind and form. It excludes the reason in front of a repeated
// question.
type QuestionDigest [16]byte

// String returns the digest in hexadecimal.
func (d QuestionDigest) String() string {
	return string(hex.AppendEncode(make([]byte, 0, 32), d[:]))
}

// Answered: the client answered a question. There is one event for each accepted answer, including
// invalid ones; dropped answers have none.
type Answered struct {
	Where
	Key            string
	Kind           protocol.InputKind
	Decision       Decision
	Principal      protocol.Principal // who answered, if known
	QuestionDigest QuestionDigest     // zero if unsolicited
	// Asked is the question as asked; do not change it. Nil: unsolicited, or asked in an earlier
	// round, see [InputRequested].
	Asked protocol.InputRequest
	// Content is for package consent's recorder. No other package can read it.
	Content     any           `json:"-"`
	Way         Way           // of a solicited form, else empty
	Waited      time.Duration // between question and answer
	Unsolicited bool          // the question may not have been asked
}

// A Decision is the answer's decision about a question.
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

// A Rule is one that an answer can break, see server/TROUBLESHOOTING.md. The set may grow.
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

// A FlowEnd is how a flow ended.
//
//   - complete: there is a result
//   - failed: the handler failed
//   - refused: the handler repeated a refused question
//   - unseen: the client refused without showing the question
//   - rounds: the limit on rounds was reached
//   - invalid: a question got no valid answer
//   - state_lost: the client loses the state
//   - replay_handled: a replay got the outcome, or the error that it is unknown
//   - link: the result has a question's link, to answer before the call is repeated
type FlowEnd string

// A Way is how the form of a question reaches the user.
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
}

// HandlerFailed: a handler returned an error other than an [*protocol.Error] or a refusal. The
// client got its text, or Reference with roundtrip.Options.HideErrors.
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
	// Value may hold anything. Text is its text, masked as in [HandlerFailed]; empty if the call's
	// contents are unknown.
	Value any
	Text  string
	Stack []byte
}

// ServerBug: a handler misused the API; the client got an internal error. Err names key and field.
type ServerBug struct {
	Where
	Err error
}

// QuotaExceeded: a limit was reached and a request refused. The client may retry after RetryAfter.
// Refusals before any middleware are [RequestRefused]. A request with a too long _meta is not
// refused: it loses members that the protocol does not define.
type QuotaExceeded struct {
	Where
	// Resource is "guard", "store", "subscriptions", "waiting" (calls that wait for a person),
	// "tasks", or "meta" (a long _meta).
	Resource string
	// Limit is "principal" (the caller's share), "server" (the total), "session" (its waiting
	// calls), or "request" (the size of one request).
	Limit      string
	RetryAfter time.Duration
}

// PushFailed: a question pushed during a call got no answer: it could not be sent, the client
// returned an error, or it timed out. Refusals and questions withdrawn by the handler do not count.
type PushFailed struct {
	Where
	Kind protocol.InputKind
	Err  error // may repeat the client's text: escape and truncate it
	// Tolerated means that the handler went on without the answer. Otherwise the client got a
	// refusal, whatever the handler returned.
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

// LegRunning: a request was repeated while its first copy is in flight, and the client told to
// retry. Only a funnel with a guard reports it.
type LegRunning struct{ Where }

// CutOff: a request's context ended before it had a result, while a guard held its state or
// [roundtrip.Await] waited.
type CutOff struct {
	Where
	// Retriable means that the request can be sent again, since the call only waited. Otherwise its
	// outcome is unknown, and the state stays spent.
	Retriable bool
}

// StoreFailed: a guard or a store failed. If no handler had run, the client was told when to retry.
// A result is returned even if it cannot be recorded.
type StoreFailed struct {
	Where
	Resource  string // "guard", "store" or "tasks"
	Operation string // "claim", "renew", "commit" or "release"; "read" or "write"; of tasks others
	Err       error  // its text may name hosts
}

// TaskChanged: a task made progress, or ended. Method and target are those of the call that began
// it.
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
	// an unknown link); "token" (a form of another browser or login); "origin" and "host" (another
	// page or address); "over" and "late" (the visit has ended); "size"; "method"; "store" (it
	// failed).
	How        string
	Visit      string             // start of a digest of the link's id; empty: not read
	Principal  protocol.Principal // the browser's user, if known
	RemoteAddr string             // of the connection's peer, perhaps a proxy
}

// MessageRepaired: a malformed but unambiguous request was served.
type MessageRepaired struct {
	Where
	// Arguments are the names of the arguments that came as JSON text. Empty: the message was not
	// well-formed Unicode, and was read with U+FFFD.
	Arguments []string
}

// QuestionReworded: a question is repeated because another version of the application, which runs
// side by side, worded it differently.
type QuestionReworded struct {
	Where
	Key     string
	Asked   string // the version that asked first
	Version string // this one
}

// SessionEvicted: a legacy session was evicted before it expired. Its client gets the error for an
// expired session, and opens a new one.
type SessionEvicted struct {
	nowhere
	Idle  time.Duration // how long the session had been idle
	Limit string        // the limit reached: "principal" or "server"
}

// EphemeralKey: the funnel's key exists only in this process. States do not survive a restart, and
// other replicas cannot open them.
type EphemeralKey struct {
	nowhere
	KeyID string
}

// AnonymousState: the funnel first asks a caller without principal and credential. Anybody with
// such a state can answer it.
type AnonymousState struct{ Where }

// KeysEnabled: a funnel starts with a [keys.Describer]. Primary seals; every key of Enabled opens,
// Primary included. Ids are public.
type KeysEnabled struct {
	nowhere
	Primary string
	Enabled []string
}
