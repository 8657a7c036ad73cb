// Package event holds what a funnel, a server and its transports report to an [Observer], for
// logs and metrics.
package event

import (
	"encoding/hex"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// Where tells which request an event is about.
type Where struct {
	Version protocol.Version
	Method  string
	Target  string // the name of the tool or prompt, or the URI
	Flow    string // the id of the flow, empty before it has one
	Round   int
	// Request is the id of this one request, by which the entries of a log can
	// be joined; see roundtrip.RequestID. Empty where nothing has named it.
	Request string
}

// StateRejected: a requestState was refused. The client learned only the
// Reference.
type StateRejected struct {
	Where
	Reference string
	Reason    Reason
	// Err is what the sealer said, or whoever read what it opened. When the state was
	// authentic and did not fit, it says more than the reason, or is nil.
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
	// StateBytes is the length of requestState; 0 in legacy revisions, whose
	// clients carry none.
	StateBytes int
}

// InputRequested: questions, or a state to come back with, went out.
type InputRequested struct {
	Where
	Kinds []protocol.InputKind
	// Questions are what is asked, in the order of Kinds.
	Questions  []AskedQuestion
	StateBytes int // as in [Resumed]
	// RoundsLeft is how many more rounds of questions the flow may have after
	// this one before it is ended.
	RoundsLeft int
	// Principal is who is asked, and Client the name that their client gives itself.
	Principal protocol.Principal
	Client    string
}

// An AskedQuestion is a question that went out.
type AskedQuestion struct {
	Key    string
	Kind   protocol.InputKind
	Digest QuestionDigest
}

// A QuestionDigest stands for what a person was asked, for an audit: it is the
// same in [InputRequested] and in [Answered], and whenever the same is asked
// under the same key. In flow style it covers kind, form and wording; in guard
// style, whose states do not keep the wording, kind and form. The reason in
// front of a question that is asked again is no part of it.
type QuestionDigest [16]byte

// String returns the digest in hexadecimal.
func (d QuestionDigest) String() string {
	return string(hex.AppendEncode(make([]byte, 0, 32), d[:]))
}

// Answered: the client answered a question. What a person entered is not reported,
// only what they decided. There is one for each answer that the flow accepts, also
// for one that turns out to be invalid, and none for those that are dropped.
type Answered struct {
	Where
	Key      string
	Kind     protocol.InputKind
	Decision Decision
	// Principal is whose answer it is, as far as the host knows.
	Principal protocol.Principal
	// QuestionDigest is that of the question; zero for an unsolicited answer.
	QuestionDigest QuestionDigest
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
	// Unseen is the client's alone: a decline or cancel that came sooner than a person can have
	// given it, see roundtrip.Options.MinHumanTime.
	Unseen Decision = "unseen"
)

// AnswerInvalid: an accepted answer did not fit the question. The value is not
// reported.
type AnswerInvalid struct {
	Where
	Key string
	// Field is the property of the form, empty when the whole is at fault.
	Field string
	Rule  Rule
}

// A Rule is what an answer can break, as server/TROUBLESHOOTING.md lists them. New ones may come.
type Rule string

// DeclineIgnored: a person declined or cancelled, and the handler completed the
// request without having looked at that. Decision is Declined, Cancelled or Unseen. It
// points at a handler that does what it was not allowed to do. In flow style the
// refusal is what the call that asks returns, and the cause is a run that does not
// come to that call again. If the question has no key the client then gets a refusal
// in the place of the result.
type DeclineIgnored struct {
	Where
	Key      string
	Decision Decision
}

// FlowEnded: a flow of more than one round came to its end. Legs counts the rounds.
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
type FlowEnd string

// CapabilityRefused: a question could not be asked of this client.
type CapabilityRefused struct {
	Where
	Missing protocol.ClientCapabilities
}

// HandlerFailed: a handler returned an error of its own, neither an
// [*protocol.Error] nor a refusal of the person's. The client got its text, or,
// with roundtrip.Options.HideErrors, Reference.
type HandlerFailed struct {
	Where
	// Reference is what the client was given in the place of the text; empty
	// where it has the text.
	Reference string
	// Err is the handler's result. Its text may hold anything.
	Err error
	// Text is the text of Err without the strings of the call's arguments,
	// answers and state, without the credentials of the caller and what looks
	// like those of others. It may be long and is not escaped.
	Text string
	// Abandoned: the client had gone, and the handler stopped because of that, as it should.
	Abandoned bool
}

// HandlerPanicked: a handler panicked; the client got an internal error.
type HandlerPanicked struct {
	Where
	// Value may hold anything. Text is what fmt makes of it, masked as in
	// [HandlerFailed]; empty where the contents of the call are not known.
	Value any
	Text  string
	Stack []byte
}

// ServerBug: a handler did what it may not; the client got an internal error.
// Err names the key and the field, where there is one.
type ServerBug struct {
	Where
	Err error
}

// QuotaExceeded: a request was refused for want of room. The client may send it
// again after RetryAfter. Refusals before any middleware are [RequestRefused]. A request whose
// _meta is too long is not refused: it loses what the protocol does not define of it.
type QuotaExceeded struct {
	Where
	// Resource is what has no room: "guard", "store", "subscriptions",
	// "waiting" for one more call that waits for a person, or "meta" for a long _meta.
	Resource string
	// Limit is "principal" when the caller has used up its share, "server" when
	// all callers together have used up everything, "session" when calls of
	// one session that wait have, and "request" for what one request may bring.
	Limit      string
	RetryAfter time.Duration
}

// PushFailed: a question was to be put to the client while a call runs, and
// nobody answered it: it could not be sent, the client answered with an error, or
// nobody answered in time. A person who declines, and a question that the handler
// withdraws, are no failures.
type PushFailed struct {
	Where
	Kind protocol.InputKind
	// Err says why. Its text may repeat what the client said, so escape and cut
	// it.
	Err error
	// Tolerated means that the handler went on: it said that it can do without an
	// answer, or the host lets handlers that were not changed for it. Otherwise
	// the client got a refusal, whatever the handler returned.
	Tolerated bool
}

// WaitBegan: a call of a legacy revision waits for a person from now on: its first
// question is put to the client, or one after a time in which none was open. A
// [WaitEnded] follows, at the latest when nothing asks for the call any more.
type WaitBegan struct{ Where }

// WaitEnded: no question of a call is open any more.
type WaitEnded struct {
	Where
	// Waited is how long there was one at least.
	Waited time.Duration
}

// LegRunning: a request was sent a second time while the first is being served,
// and its client was told to send it again in a moment. Only a funnel with a guard notices.
type LegRunning struct{ Where }

// CutOff: the context of a request ended before the request had a result, and a guard had
// its state, or [roundtrip.Await] waited.
type CutOff struct {
	Where
	// Retriable means that only waiting was reached, so that the same request can be sent
	// again. Otherwise its outcome is not known, and the state stays spent.
	Retriable bool
}

// StoreFailed: a guard or a store of states could not be asked. Where nothing had run that must
// not run twice the client was told when to send the request again. A result goes out even if
// it cannot be recorded.
type StoreFailed struct {
	Where
	Resource  string // "guard", "store" or "tasks"
	Operation string // "claim", "renew", "commit" or "release"; "read" or "write"; of tasks others
	Err       error  // its text may name hosts
}

// TaskChanged: a task went on, or is over. It is about no one request: method and target are those of
// the call that began it.
type TaskChanged struct {
	Where
	// Task are the first digits of the digest of its id, which logs do not have: who has an id may
	// have the task.
	Task string
	// Change is what happened: "begun", or "taken_over" from a process that ended; "queued" for a
	// turn to run here, and "dequeued"; "runs" and "stops"; or how it is over: "completed",
	// "failed", "cancelled", "expired", or "died", because too many processes that ran it ended.
	Change string
	// Deaths are how many processes ended that ran it, since it got further.
	Deaths int
	// Lasted is the time since it began, and of "dequeued" since it was queued.
	Lasted time.Duration
}

// QuestionReworded: a question is asked once more, since the one that was answered was worded
// by another version of the application: two of them run side by side.
type QuestionReworded struct {
	Where
	Key     string
	Asked   string // the version that asked before
	Version string // this one
}

// SessionEvicted: a session of a legacy client was ended although it had not
// expired, to make room for another. Its client gets what it would get for an
// expired session, and opens a new one.
type SessionEvicted struct {
	nowhere
	// Idle is how long nothing had happened in it.
	Idle time.Duration
	// Limit is the bound that was reached: "principal" or "server".
	Limit string
}

// EphemeralKey: the funnel seals with a key that only this process has. States
// do not survive a restart and no other replica can open them.
type EphemeralKey struct {
	nowhere
	KeyID string
}

// AnonymousState: for the first time a funnel asks a caller of whom nothing is known, no
// principal and no credential. Whoever has such a state can answer in the caller's place.
type AnonymousState struct{ Where }

// KeysEnabled: a funnel starts with a sealer that names its keys, as keys.Keyring
// does. Primary seals; every key of Enabled opens, Primary among them. Ids are
// public.
type KeysEnabled struct {
	nowhere
	Primary string
	Enabled []string
}
