package elicitation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/humantime"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A QuestionStore keeps questions for forwarders that own no connection, such as processors that a
// proxy calls with what passes through it: the one that sees the reply need not be the one
// that saw the question, and none of them can be reached by name. A QuestionStore is passive: it
// holds a record for each question, and how the question ended. Package redisstore has one
// on Redis.
//
// Records are encrypted, and at most a few kilobytes. Keys are made by the router: 64
// lower-case hexadecimal digits, never used again.
//
// All methods may be called concurrently. A method that fails because the store cannot be
// reached may have done what it should: the router calls it again with the same arguments.
type QuestionStore interface {
	// Put stores a record for ttl; it may last somewhat longer. A record of the key is
	// replaced.
	Put(ctx context.Context, key string, record []byte, ttl time.Duration) error
	// Get returns a record, and how it ended, nil for one that has not. It is [ErrNoRecord]
	// when there is none.
	Get(ctx context.Context, key string) (record, end []byte, err error)
	// End records how a record ended, unless it has ended, and returns how it has. Of
	// concurrent calls one decides, and all return the same. It is ErrNoRecord when there is
	// no record.
	End(ctx context.Context, key string, end []byte) (ended []byte, err error)
}

const (
	// storeTimeout bounds one call of the store, which answers from memory.
	storeTimeout = 2 * time.Second
	// storeTotalTime bounds all calls about one reply together when the context of the host
	// has no deadline.
	storeTotalTime = 30 * time.Second
	// storeInterval is the time between two calls when one has failed.
	storeInterval = 50 * time.Millisecond
)

// ErrNoRecord means that a [QuestionStore] has no record for a key.
var ErrNoRecord = errors.New("elicitation store: no record")

// A Resolved is a reply that was claimed with [Router.Resolve].
type Resolved struct {
	// Upstream is the connection that the question came on.
	Upstream UpstreamKey
	// Response is what the upstream gets, with the id of its request.
	Response *protocol.Response
}

// Resolve takes a response that a client sent, as [Router.HandleReply] does, for hosts that
// bring it to the upstream themselves. It checks session and principal, claims the reply, and
// returns the upstream and the response for it: of all replies to a question, at whichever
// replica, one is claimed. Resolved is nil unless the disposition is [Accepted], or [Invalid],
// where the response is the error that the upstream gets.
//
// Only questions that were put with [Call.Offer] are resolved. done gets an [Outcome] with
// Resolved set.
//
// With [Options].Store the question may have been put at another replica. Resolve tries until
// ctx ends, and for 30 seconds when ctx has no deadline; the error is that of the store. The
// replica that asked learns of the answer when its question ends otherwise, at the latest by
// its timeout, and reports it as completed then. Content is checked against the form only
// where the question was put.
func (r *Router) Resolve(
	ctx context.Context, from Sender, reply *protocol.Response,
) (*Resolved, Disposition, error) {
	if reply == nil || reply.ID.IsZero() {
		return nil, Unknown, nil
	}
	p, d := r.lookUpQuestion(from, reply.ID)
	switch {
	case p != nil && p.offered:
		return r.resolveLocally(ctx, p, reply)
	case p != nil || d != Unknown || r.opts.Store == nil:
		return nil, d, nil
	}
	if !r.isFleetID(ctx, reply.ID) {
		return nil, Unknown, nil
	}
	return r.resolveStored(ctx, from, reply)
}

// resolveLocally claims the reply to a question of this router.
func (r *Router) resolveLocally(
	ctx context.Context, p *pendingQuestion, reply *protocol.Response,
) (*Resolved, Disposition, error) {
	out := p.readReply(reply)
	out.resolved = true
	if p.stored {
		if d, err := r.endRecord(ctx, p.id, out); d != Accepted {
			return nil, d, err
		}
	}
	d := p.finishByReply(out)
	if d != Accepted && d != Invalid && !(p.stored && p.isResolved()) {
		return nil, d, nil
	}
	// What ended a stored question as resolved found the claim of this call in the store.
	return newResolved(p.call.upstream, p.upstreamID, out)
}

// isResolved reports whether the question ended with an answer that Resolve claimed.
func (p *pendingQuestion) isResolved() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resolved
}

func newResolved(
	upstream UpstreamKey, id protocol.ID, out outcome,
) (*Resolved, Disposition, error) {
	o := Outcome{Result: out.result}
	if out.err != nil {
		o.Err = out.err
	}
	resolved := &Resolved{Upstream: upstream, Response: o.Response(id)}
	return resolved, dispositionOfReply(out.isInvalidReply()), nil
}

// A storedQuestion is what the record of a question says.
type storedQuestion struct {
	// Key is the place of the record in the store: whoever can write there cannot put one
	// question in the place of another.
	Key      string             `json:"key"`
	Session  string             `json:"session"`
	Issuer   string             `json:"issuer,omitzero"`
	Subject  string             `json:"subject,omitzero"`
	Local    bool               `json:"local,omitzero"`
	Upstream UpstreamKey        `json:"upstream,omitzero"`
	ID       json.RawMessage    `json:"id,omitzero"` // of the upstream's request
	Kind     protocol.InputKind `json:"kind"`
	Expires  time.Time          `json:"expires"`
}

// sender is who may answer the question.
func (q *storedQuestion) sender() Sender {
	if q.Local {
		return Sender{q.Session, protocol.LocalPrincipal()}
	}
	return Sender{q.Session, protocol.Principal{Issuer: q.Issuer, Subject: q.Subject}}
}

// idKindRecord is the first byte of a record, as idKindQuestion is that of an id.
const idKindRecord = 2

// How a question in the store ended: answeredEnd, the action and random bytes, or
// otherwiseEnd.
const (
	answeredEnd  = "answered "
	otherwiseEnd = "ended"
	errorAction  = "error" // the client answered with an error
)

func storeKey(id protocol.ID) string {
	sum := sha256.Sum256([]byte("rondo elicitation store v1\x00" + id.String()))
	return hex.EncodeToString(sum[:])
}

// storeQuestion puts the record of a question into the store, if there is one and the host
// delivers the question itself.
func (p *pendingQuestion) storeQuestion(ctx context.Context) *Error {
	r := p.router
	if r.opts.Store == nil || !p.offered {
		return nil
	}
	principal := p.call.origin.Principal
	record := storedQuestion{
		Key:     storeKey(p.id),
		Session: p.call.origin.Session.info.ID, Issuer: principal.Issuer,
		Subject: principal.Subject, Local: principal.IsLocal(), Upstream: p.call.upstream,
		Kind: p.kind, Expires: time.Now().Add(r.opts.MaxTimeout),
	}
	if !p.upstreamID.IsZero() {
		record.ID = json.RawMessage(p.upstreamID.String())
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	data, err := jsonx.Encode(record)
	var sealed string
	if err == nil {
		sealed, err = r.opts.Keys.Seal(ctx, append([]byte{idKindRecord}, data...))
	}
	if err == nil {
		ttl := r.opts.MaxTimeout + storeTotalTime
		err = r.opts.Store.Put(ctx, storeKey(p.id), []byte(sealed), ttl)
	}
	if err != nil {
		// Without the record an answer at another replica would get lost.
		const message = "The other replicas of the gateway cannot be reached"
		refused := retryLaterError(ReasonStore, message, "")
		refused.Err = err
		return refused
	}
	p.stored = true
	return nil
}

// resolveStored claims the reply to a question of another replica.
func (r *Router) resolveStored(
	ctx context.Context, from Sender, reply *protocol.Response,
) (*Resolved, Disposition, error) {
	q, end, err := r.readRecord(ctx, reply.ID)
	switch {
	case errors.Is(err, ErrNoRecord):
		return nil, Unknown, nil
	case err != nil:
		return nil, Unknown, err
	}
	switch asked := q.sender(); {
	case asked.Session != from.Session:
		return nil, WrongSession, nil
	case asked.Principal != from.Principal:
		return nil, WrongPrincipal, nil
	case end != nil:
		return nil, dispositionOfEnd(end), nil
	case time.Now().After(q.Expires):
		return nil, Expired, nil
	}
	var id protocol.ID
	if q.ID != nil {
		if id, err = protocol.ParseID(q.ID); err != nil {
			return nil, Unknown, fmt.Errorf("elicitation store: record: %w", err)
		}
	}
	shadow := &pendingQuestion{router: r, kind: q.Kind}
	out := shadow.readReply(reply)
	if d, err := r.endRecord(ctx, reply.ID, out); d != Accepted {
		return nil, d, err
	}
	return newResolved(q.Upstream, id, out)
}

// readReply returns the outcome of a question that the client answered.
func (p *pendingQuestion) readReply(reply *protocol.Response) outcome {
	if reply.Error != nil {
		wire := *reply.Error
		wire.Data = cloneJSON(wire.Data)
		return p.readError(&wire)
	}
	return p.readResult(reply.Result)
}

// readRecord returns the record of a question and how it ended.
func (r *Router) readRecord(
	ctx context.Context, id protocol.ID,
) (q *storedQuestion, end []byte, err error) {
	var sealed []byte
	err = retryStore(ctx, func(ctx context.Context) (err error) {
		sealed, end, err = r.opts.Store.Get(ctx, storeKey(id))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	plaintext, err := r.opts.Keys.Open(ctx, string(sealed))
	if err == nil && (len(plaintext) == 0 || plaintext[0] != idKindRecord) {
		err = errors.New("not a record")
	}
	q = &storedQuestion{}
	if err == nil {
		err = jsonx.Decode(plaintext[1:], q)
	}
	if err == nil && q.Key != storeKey(id) {
		err = errors.New("of another question")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("elicitation store: record: %w", err)
	}
	return q, end, nil
}

// endRecord claims the answer of a question in the store. Accepted means that this call
// has; otherwise the disposition is what becomes of the answer.
func (r *Router) endRecord(
	ctx context.Context, id protocol.ID, out outcome,
) (Disposition, error) {
	action := errorAction
	if out.result != nil {
		action = string(out.result.Action)
	}
	mine := answeredEnd + action + " " + newID()
	var ended []byte
	err := retryStore(ctx, func(ctx context.Context) (err error) {
		ended, err = r.opts.Store.End(ctx, storeKey(id), []byte(mine))
		return err
	})
	switch {
	case errors.Is(err, ErrNoRecord):
		return Expired, nil
	case err != nil:
		return Unknown, err
	case string(ended) == mine:
		return Accepted, nil
	}
	return dispositionOfEnd(ended), nil
}

func dispositionOfEnd(end []byte) Disposition {
	if strings.HasPrefix(string(end), answeredEnd) {
		return Duplicate
	}
	return Expired
}

// retryStore calls f until it succeeds, there is no record, or the time is up.
func retryStore(ctx context.Context, f func(context.Context) error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, storeTotalTime)
		defer cancel()
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, storeTimeout)
		err := f(attempt)
		cancel()
		if err == nil || errors.Is(err, ErrNoRecord) {
			return err
		}
		if humantime.Sleep(ctx, storeInterval) != nil {
			return fmt.Errorf("elicitation store: %w", err)
		}
	}
}

// endStored ends the record of a question that ends here, so that no other replica claims an
// answer any more. When one has, that is the outcome.
func (p *pendingQuestion) endStored(out outcome) outcome {
	if !p.stored || out.resolved {
		return out
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.call.ctx), storeTimeout)
	defer cancel()
	ended, err := p.router.opts.Store.End(ctx, storeKey(p.id), []byte(otherwiseEnd))
	if err != nil || !strings.HasPrefix(string(ended), answeredEnd) {
		return out // the record expires with the question
	}
	action, _, _ := strings.Cut(strings.TrimPrefix(string(ended), answeredEnd), " ")
	answered := outcome{state: stateCompleted, replied: true, resolved: true}
	if action == errorAction {
		answered.state = stateFailed
		answered.err = &Error{Reason: ReasonClientError, Wire: protocol.Errorf(
			protocol.CodeInternalError, "The client's error went to the upstream already")}
		return answered
	}
	answered.result = &protocol.ElicitResult{Action: protocol.ElicitAction(action)}
	return answered
}
