package roundtrip

import (
	"encoding/hex"
	"time"

	"github.com/rondo-mcp/rondo/internal/form"
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
	// be joined; see [RequestID]. Empty where nothing has named it.
	Request string
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
	// KeyID is the key that the state names, for the reasons
	// [ReasonUnknownKey] and [ReasonForeignEphemeral]; it is public. Anybody can
	// name any key.
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
	// this one before it is ended, -1 where rounds are not counted ([Options].Plain).
	RoundsLeft int
}

// An AskedQuestion is a question that went out.
type AskedQuestion struct {
	Key    string // empty for questions that have none, see [Funnel.Push]
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
func (d QuestionDigest) String() string { return hex.EncodeToString(d[:]) }

// Answered: the client answered a question. What a person entered is not reported,
// only what they decided. There is one for each answer that the flow accepts, also
// for one that turns out to be invalid, and none for those that are dropped.
type Answered struct {
	Where
	Key  string // empty for questions that have none, see [Funnel.Push]
	Kind protocol.InputKind
	// Outcome is Accepted, Declined or Cancelled.
	Outcome Outcome
	// Principal is whose answer it is, as far as the host knows.
	Principal Principal
	// QuestionDigest is that of the question; zero for an unsolicited answer.
	QuestionDigest QuestionDigest
	// Waited is the time from the question to the answer.
	Waited time.Duration
	// Unsolicited says that nothing proves that the question was asked.
	Unsolicited bool
}

// AnswerInvalid: an accepted answer did not fit the question. The value is not
// reported.
type AnswerInvalid struct {
	Where
	Key string // empty for questions that have none, see [Funnel.Push]
	// Field is the property of the form, empty when the whole is at fault.
	Field string
	Rule  Rule
}

// A Rule is what an answer can break. New ones may come.
type Rule string

// The rules.
const (
	RuleRequired Rule = form.RuleRequired
	RuleType     Rule = form.RuleType
	RuleMinimum  Rule = form.RuleMinimum
	RuleMaximum  Rule = form.RuleMaximum
	RuleLength   Rule = form.RuleLength
	RuleItems    Rule = form.RuleItems // too few or too many choices
	RuleEnum     Rule = form.RuleEnum
	RuleFormat   Rule = form.RuleFormat
	RulePattern  Rule = form.RulePattern
	RuleRange    Rule = form.RuleRange // beyond what the Go type can hold
	RuleShape    Rule = form.RuleShape // the answer as a whole
	RuleOther    Rule = form.RuleOther
)

// DeclineIgnored: a person declined or cancelled, and the handler completed the
// request without having looked at that. Outcome is Declined or Cancelled. It
// points at a handler that does what it was not allowed to do. Flow style never
// causes it: there the refusal is what the call that asks returns.
type DeclineIgnored struct {
	Where
	Key     string
	Outcome Outcome
}

// FlowEnded: a flow of more than one round came to its end. Legs counts the rounds.
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
	EndInvalid   FlowEnd = "invalid"        // a question got no valid answer
	EndStateLost FlowEnd = "state_lost"     // the client loses the state
	EndReplayed  FlowEnd = "replay_handled" // a replay got the recorded outcome
)

// CapabilityRefused: a question could not be asked of this client.
type CapabilityRefused struct {
	Where
	Missing protocol.ClientCapabilities
}

// HandlerFailed: a handler returned an error of its own, neither an
// [*protocol.Error] nor a refusal of the person's. The client got its text, or,
// with [Options].HideErrors, Reference.
type HandlerFailed struct {
	Where
	// Reference is what the client was given in the place of the text; empty
	// where it has the text.
	Reference string
	// Err is what the handler returned. Its text may hold anything.
	Err error
	// Text is the text of Err without the strings of the call's arguments,
	// answers and state, without the credentials of the caller and what looks
	// like those of others. It may be long and is not escaped.
	Text string
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
// again after RetryAfter. Refusals before any middleware are [RequestRefused].
type QuotaExceeded struct {
	Where
	// Resource is what has no room: "guard", "store", "subscriptions", or
	// "waiting" for one more call that waits for a person.
	Resource string
	// Limit is "principal" when the caller has used up its share, "server" when
	// all callers together have used up everything, and "session" when calls of
	// one session that wait have.
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
	// Tolerated says that the handler went on: it said that it can do without an
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
// and its client was told to send it again in a moment. Only a funnel with a [Guard] notices.
type LegRunning struct{ Where }

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

// KeysEnabled: a funnel starts with a [Sealer] that names its keys, as [Keyring]
// does. Primary seals; every key of Enabled opens, Primary among them. Ids are
// public.
type KeysEnabled struct {
	Primary string
	Enabled []string
}

// RequestRefused: a transport refused a request, or something that should have
// been one, before any middleware saw it. Middleware, and the log lines and
// metrics it makes, know nothing of such a request.
//
// Everything in it may be logged: it holds no credentials, cookies, session ids
// or arguments. RequestID and the text of Err may still repeat what a peer
// chose, so escape and cut them.
type RequestRefused struct {
	// Transport is "http", "stream" for lines on stdio and the like, or empty
	// where the server refused whatever any of them brought, since it is closing.
	Transport string
	Reason    RefusalReason
	// Status is that of the HTTP response. 0 on a stream of lines; 200 where one
	// message of a batch was refused and the others were served.
	Status int
	// Code is that of the JSON-RPC error the client got.
	Code int64
	// RequestID is the JSON text of the request's id; empty where it has none or
	// it could not be read.
	RequestID string
	// RemoteAddr is the address of the peer as the HTTP server knows it. Behind a
	// proxy it is the proxy's. Empty on a stream.
	RemoteAddr string
	// Principal is who was refused for want of room. Other refusals come before
	// or without authentication and leave it empty.
	Principal Principal
	// Err says why, for the operator, and names the option that would admit the
	// request where there is one. It is never nil, and not what the client was
	// told. What an authentication hook returned can be found in it with
	// errors.Is and errors.As; its text has the request's credentials masked.
	Err error
}

// A RefusalReason says why a request was refused before any middleware. The set
// is closed, so that it can be a label of a metric.
type RefusalReason string

// The reasons of [RequestRefused], and the HTTP status of each.
const (
	// 403: Host names no host of this endpoint
	RefusedHost RefusalReason = "host"
	// 403: a web page of this origin may not use it
	RefusedOrigin          RefusalReason = "origin"
	RefusedUnauthenticated RefusalReason = "unauthenticated" // 401
	// 403: authenticated, and not permitted
	RefusedForbidden  RefusalReason = "forbidden"
	RefusedHTTPMethod RefusalReason = "http_method" // 405
	// 415: Content-Type or Content-Encoding
	RefusedMediaType RefusalReason = "media_type"
	RefusedAccept    RefusalReason = "accept"    // 406
	RefusedTooLarge  RefusalReason = "too_large" // 413
	RefusedTooSlow   RefusalReason = "too_slow"  // 408
	// 400: no JSON, no message, no message for a server
	RefusedMalformed RefusalReason = "malformed"
	RefusedVersion   RefusalReason = "version"         // 400: a revision that is not served
	RefusedHeaders   RefusalReason = "header_mismatch" // 400: headers and body do not agree
	RefusedNoSession RefusalReason = "no_session"      // 400: the request names no session
	// 404: unknown, ended, or another principal's
	RefusedSessionGone RefusalReason = "session_gone"
	RefusedBatch       RefusalReason = "batch" // 400: the revision has no batches
	// 400: Last-Event-ID names nothing that is kept
	RefusedEventID RefusalReason = "event_id"
	// stream: a request with this id is running
	RefusedDuplicateID RefusalReason = "duplicate_id"
	RefusedRequests    RefusalReason = "too_many_requests" // 429: too many are running
	RefusedSessions    RefusalReason = "too_many_sessions" // 503: too many are open
	RefusedClosing     RefusalReason = "closing"           // 503: the server shuts down
)

func (StateRejected) event()     {}
func (AnswersDropped) event()    {}
func (Answered) event()          {}
func (AnswerInvalid) event()     {}
func (DeclineIgnored) event()    {}
func (Resumed) event()           {}
func (InputRequested) event()    {}
func (FlowEnded) event()         {}
func (CapabilityRefused) event() {}
func (HandlerFailed) event()     {}
func (HandlerPanicked) event()   {}
func (ServerBug) event()         {}
func (QuotaExceeded) event()     {}
func (PushFailed) event()        {}
func (WaitBegan) event()         {}
func (WaitEnded) event()         {}
func (LegRunning) event()        {}
func (SessionEvicted) event()    {}
func (EphemeralKey) event()      {}
func (KeysEnabled) event()       {}
func (RequestRefused) event()    {}
