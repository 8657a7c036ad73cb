// Package event holds what a funnel, a server and its transports report to an [Observer], for
// logs and metrics.
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
	// Request is the id of this one request, which joins the entries of a log; see
	// roundtrip.RequestID. Empty if the request has none.
	Request string
}

// StateRejected: a requestState was refused. The client learned only the Reference.
type StateRejected struct {
	Where
	Reference string
	Reason    Reason
	// Err is the error of the sealer or of the decoder. For an authentic state that did not fit it
	// details the reason, or is nil.
	Err error
	// KeyID is the key that the state names, for the reasons unknown_key and foreign_ephemeral.
	// It is public. Anybody can name any key.
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
	// Waited is the time since the questions were asked: mostly a person's.
	Waited time.Duration
	// StateBytes is the length of requestState; 0 in legacy revisions, which have none.
	StateBytes int
}

// InputRequested: questions, or a state to come back with, went out.
type InputRequested struct {
	Where
	Kinds      []protocol.InputKind
	Questions  []AskedQuestion // in the order of Kinds
	StateBytes int             // as in [Resumed]
	RoundsLeft int             // rounds of questions that the flow may still have after this one
	Way        Way             // of forms whose link is in the result, else empty
	// Principal is who is asked, and Client what their client says of itself, nil if it does not:
	// not to be changed.
	Principal *protocol.Principal
	Client    *protocol.Implementation
}

// An AskedQuestion is a question that went out.
type AskedQuestion struct {
	Key    string
	Kind   protocol.InputKind
	Digest QuestionDigest
	// Request is the question in its words, not to be changed. Logs do not have it.
	Request protocol.InputRequest
}

// A QuestionDigest identifies what a person was asked, for an audit: it is the same in
// [InputRequested] and in [Answered], and whenever the same is asked under the same key. In flow
// style it covers kind, form and wording; in guard style, whose states do not keep the wording,
// kind and form. It does not cover the reason in front of a question that is asked again.
type QuestionDigest [16]byte

// String returns the digest in hexadecimal.
func (d QuestionDigest) String() string {
	return string(hex.AppendEncode(make([]byte, 0, 32), d[:]))
}

// Answered: the client answered a question. There is one event for each answer that the flow
// accepts, including invalid ones, and none for dropped answers.
type Answered struct {
	Where
	Key      string
	Kind     protocol.InputKind
	Decision Decision
	// Principal gave the answer, as far as the host knows.
	Principal protocol.Principal
	// QuestionDigest is zero for an unsolicited answer.
	QuestionDigest QuestionDigest
	// Asked is the question in its words, not to be changed. It is nil for an unsolicited answer,
	// and where a round before asked: [InputRequested] had the words.
	Asked protocol.InputRequest
	// Content is for the recorder of package consent. Nobody else can read the answer in it.
	Content any `json:"-"`
	// Way is that of a form, empty for other questions and for unsolicited answers.
	Way Way
	// Waited is the time from the question to the answer.
	Waited time.Duration
	// Unsolicited means that nothing proves that the question was asked.
	Unsolicited bool
}

// A Decision is what a person decided about a question.
type Decision string

// The decisions.
const (
	Accepted  Decision = "accepted"
	Declined  Decision = "declined"
	Cancelled Decision = "cancelled"
	// Unseen is the client's alone: a decline or cancel that came sooner than a person can give
	// it, see roundtrip.Options.MinHumanTime.
	Unseen Decision = "unseen"
)

// AnswerInvalid: an accepted answer did not fit the question. The value is not reported.
type AnswerInvalid struct {
	Where
	Key string
	// Field is the property of the form, empty if the rule is about the whole form.
	Field string
	Rule  Rule
}

// A Rule is what an answer can break, as server/TROUBLESHOOTING.md lists them. New ones may come.
type Rule string

// DeclineIgnored: the handler completed the request without reading that a person declined or
// cancelled, which points at a handler that acts without consent. Decision is Declined, Cancelled
// or Unseen. In flow style the call that asks returns the refusal, so the cause is a run that does
// not reach that call again. If the question has no key, the client gets a refusal instead of the
// result.
type DeclineIgnored struct {
	Where
	Key      string
	Decision Decision
}

// FlowEnded: a flow of more than one round ended. Legs counts the rounds.
type FlowEnded struct {
	Where
	Legs int
	How  FlowEnd
}

// A FlowEnd says how a flow ended.
//
//   - complete: there is a result
//   - failed: the handler failed
//   - refused: the handler asked again what was refused
//   - unseen: the client refused without showing the question
//   - rounds: the limit on rounds was reached
//   - invalid: a question got no valid answer
//   - state_lost: the client loses the state
//   - replay_handled: a replay got the outcome, or the error that none is known
//   - link: the result is the link of a question, to be answered before the call is made again
type FlowEnd string

// A Way is how the form of a question reaches the person.
//
//   - form: the client shows it
//   - link: the client shows the link of a page that has it (URL mode elicitation)
//   - text: the result of the call has the link of that page in words
//   - task: the status message of the task has it
type Way string

// CapabilityRefused: a question could not be asked of this client.
type CapabilityRefused struct {
	Where
	Missing protocol.ClientCapabilities
}

// HandlerFailed: a handler returned an error of its own, neither an [*protocol.Error] nor a
// person's refusal. The client got its text, or Reference with roundtrip.Options.HideErrors.
type HandlerFailed struct {
	Where
	// Reference is empty if the client got the text.
	Reference string
	// Err is the handler's result. Its text may hold anything.
	Err error
	// Text is the text of Err without the strings of the call's arguments, answers and state, the
	// credentials of the caller and what looks like credentials. It may be long and is not escaped.
	Text string
	// Abandoned: the client had gone, and the handler stopped because of that, as it should.
	Abandoned bool
}

// HandlerPanicked: a handler panicked; the client got an internal error.
type HandlerPanicked struct {
	Where
	// Value may hold anything. Text is its text, masked as in [HandlerFailed]; empty if the
	// contents of the call are not known.
	Value any
	Text  string
	Stack []byte
}

// ServerBug: a handler misused the API; the client got an internal error. Err names the key and
// the field, if any.
type ServerBug struct {
	Where
	Err error
}

// QuotaExceeded: a limit was reached and a request was refused. The client may send it again after
// RetryAfter. Refusals before any middleware are [RequestRefused]. A request whose _meta is too
// long is not refused: it loses the members that the protocol does not define.
type QuotaExceeded struct {
	Where
	// Resource is "guard", "store", "subscriptions", "waiting" for one more call that waits for a
	// person, "tasks", or "meta" for a long _meta.
	Resource string
	// Limit is "principal" for the share of the caller, "server" for the total, "session" for
	// waiting calls of one session, and "request" for the size of one request.
	Limit      string
	RetryAfter time.Duration
}

// PushFailed: a question was pushed to the client while a call runs and got no answer: it could not
// be sent, the client answered with an error, or it timed out. A person who declines, and a
// question that the handler withdraws, are no failures.
type PushFailed struct {
	Where
	Kind protocol.InputKind
	// Err is the cause. Its text may repeat what the client sent, so escape and truncate it.
	Err error
	// Tolerated means that the handler went on: it does not need the answer, or the host lets
	// unchanged handlers do so. Otherwise the client got a refusal, whatever the handler returned.
	Tolerated bool
}

// WaitBegan: a call of a legacy revision starts to wait for a person: its first question is pushed
// to the client, or one after a time in which none was open. A [WaitEnded] follows, at the latest
// when the call ends.
type WaitBegan struct{ Where }

// WaitEnded: no question of a call is open any more.
type WaitEnded struct {
	Where
	// Waited is how long at least one was open.
	Waited time.Duration
}

// LegRunning: a request was sent again while the first copy is being served, and its client was
// told to retry. Only a funnel with a guard reports it.
type LegRunning struct{ Where }

// CutOff: the context of a request ended before the request had a result, while a guard held
// its state, or [roundtrip.Await] waited.
type CutOff struct {
	Where
	// Retriable means that the call had only waited, so that the same request can be sent again.
	// Otherwise its outcome is not known, and the state stays spent.
	Retriable bool
}

// StoreFailed: a guard or a store could not be reached. If no handler had run, the client was told
// when to retry. A result is returned even if it cannot be recorded.
type StoreFailed struct {
	Where
	Resource  string // "guard", "store" or "tasks"
	Operation string // "claim", "renew", "commit" or "release"; "read" or "write"; of tasks others
	Err       error  // its text may name hosts
}

// TaskChanged: a task made progress, or ended. It belongs to no single request: method and target
// are those of the call that began the task.
type TaskChanged struct {
	Where
	// Task is the beginning of the digest of its id. Logs never have the id, which grants access to
	// the task.
	Task string
	// Change is "begun", or "taken_over" from a process that ended; "queued" for a turn to run
	// here, and "dequeued"; "runs" and "stops"; or the end: "completed", "failed", "cancelled",
	// "expired", or "died", because too many processes that ran it ended.
	Change string
	// Deaths counts the processes that ran it and ended since its last progress.
	Deaths int
	// Lasted is the time since it began, and of "dequeued" since it was queued.
	Lasted time.Duration
}

// VisitServed: a browser came to the page of a visit, see package visit. The metrics count it, and
// the log has it.
type VisitServed struct {
	nowhere
	// How is "shown" or "finished", or why the browser was turned away: "stranger", that is another
	// person or a link that leads nowhere; "token", a form of another browser or login; "origin"
	// and "host", a page or an address that is not this one; "over" and "late", the visit has
	// ended; "size"; "method"; "store", which could not be asked.
	How string
	// Visit is the start of a digest of the link's id, empty where it was not read.
	Visit string
	// Principal uses the browser, as far as it is known.
	Principal protocol.Principal
	// RemoteAddr is the peer of the connection, which may be a proxy.
	RemoteAddr string
}

// MessageRepaired: a request was served although a part of it was malformed in a way that leaves
// one reading.
type MessageRepaired struct {
	Where
	// Arguments are the names of the arguments that came as JSON text. Empty: some text of the
	// message was not well-formed Unicode, and was read with U+FFFD.
	Arguments []string
}

// QuestionReworded: a question is asked again because another version of the application worded
// the one that was answered: two versions run side by side.
type QuestionReworded struct {
	Where
	Key     string
	Asked   string // the version that asked before
	Version string // this one
}

// SessionEvicted: a session of a legacy client was evicted before it expired, to make room for
// another. Its client gets the error for an expired session, and opens a new one.
type SessionEvicted struct {
	nowhere
	// Idle is how long the session had been idle.
	Idle time.Duration
	// Limit is the bound that was reached: "principal" or "server".
	Limit string
}

// EphemeralKey: a server gets an HTTP endpoint, and its funnel seals with a key that only this
// process has. States do not survive a restart, and no other replica can open them.
type EphemeralKey struct {
	nowhere
	KeyID string
}

// AnonymousState: the funnel asks an anonymous caller, with neither principal nor credential, for
// the first time. Whoever has such a state can answer in the caller's place.
type AnonymousState struct{ Where }

// KeysEnabled: a funnel starts with a sealer that names its keys, as keys.Keyring does. Primary
// seals; every key of Enabled opens, Primary included. Ids are public.
type KeysEnabled struct {
	nowhere
	Primary string
	Enabled []string
}
