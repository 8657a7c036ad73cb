package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// ErrNoRound is returned, wrapped with what is wrong, by the calls of flow style
// outside of a handler that can ask, with a context that is not the handler's,
// and after the handler has returned.
var ErrNoRound = errors.New("there is no round to ask in")

// ErrPending is returned, wrapped with the keys, by the calls of flow style in a round that is
// going to ask, and is the cause with which the handler's context ends then. Handlers may return it
// or anything else.
var ErrPending = errors.New("the question is being asked; the handler runs again with the answer")

// ErrNotFinished is returned by [Await] in guard style while a visit is not finished, and before it
// has been asked for: the handler returns the question then.
var ErrNotFinished = errors.New("the visit is not finished")

// A DeclinedError means that the person declined the question Key.
type DeclinedError struct{ Key string }

// Error names the question.
func (e *DeclinedError) Error() string { return "declined: " + e.Key }

// A CancelledError means that the person dismissed the question Key without deciding.
type CancelledError struct{ Key string }

// Error names the question.
func (e *CancelledError) Error() string { return "cancelled: " + e.Key }

// An UnseenError means that the client answered the question Key without showing it: with Action,
// which is decline or cancel, sooner than [Options].MinHumanTime. No person has refused, but
// nobody has agreed either, so it is a refusal all the same.
type UnseenError struct {
	Key    string
	Action protocol.ElicitAction
}

// Error names the question.
func (e *UnseenError) Error() string { return "unseen: " + e.Key }

// A journalError means that the handler does not ask the same in every round, or
// asks twice under one key. The flow ends: whatever the handler returns, the
// client gets an internal error, and the observer a [event.ServerBug] with this.
type journalError struct {
	key     string
	problem string
}

func (e *journalError) Error() string { return fmt.Sprintf("key %q: %s", e.key, e.problem) }

// A PushError means that the client cannot be asked: [PushRequest] returns it, and with
// [IfPossible] the calls of flow style. Nothing was sent.
type PushError struct {
	Method string // of the request that could not be pushed
	Cause  string
	// Missing is what the client would have to declare; zero when that is not the cause.
	Missing protocol.ClientCapabilities

	client string // the text for the client; empty: a general one
}

// Error says why, and what to do instead where that helps.
func (e *PushError) Error() string {
	if !e.Missing.IsZero() {
		return fmt.Sprintf("push %s: %s", e.Method, e.Cause)
	}
	return fmt.Sprintf("push %s: %s; ask in rounds instead, which clients of every revision "+
		"understand: with roundtrip.Ask, or return roundtrip.InputRequired from the handler",
		e.Method, e.Cause)
}

// findRefusal returns the refusal that err is or wraps, nil if there is none. Where there are
// several a person's own word comes first.
func findRefusal(err error) error {
	if declined, ok := errors.AsType[*DeclinedError](err); ok {
		return declined
	}
	if unseen, ok := errors.AsType[*UnseenError](err); ok {
		return unseen
	}
	if cancelled, ok := errors.AsType[*CancelledError](err); ok {
		return cancelled
	}
	return nil
}

// reportUnserved reports why a guard or a store could not serve a request, and returns what
// the client learns: when to send it again, or, where the handler has done what must not be
// repeated, that the outcome is not known. Any other err is a mistake of the server.
func (r responder) reportUnserved(ctx context.Context, err error) *protocol.Error {
	full, ok := errors.AsType[*store.QuotaError](err)
	if down, failed := errors.AsType[*storeError](err); !ok && failed {
		r.observeStore(ctx, down.error, down.resource, down.operation)
		if r.started && !r.giveClaimUp() {
			r.reportFlowEnd(ctx, words.EndFailed)
			return protocol.Errorf(protocol.CodeFlowEnded, "%s", outcomeUnknownText)
		}
		return quota.Refuse(quota.None, storeRetryAfter, "the server cannot reach what it keeps "+
			"of unfinished calls; send the request again in %s", storeRetryAfter)
	}
	if !ok {
		return r.reportBug(ctx, err)
	}
	after := full.RetryAfter
	if after <= 0 {
		after = copyRetryAfter
	}
	r.observe(ctx, event.QuotaExceeded{Where: r.where, Resource: full.Resource, Limit: full.Limit,
		RetryAfter: after})
	whose, what := "", "send the request again"
	if full.Limit == string(quota.Share) {
		whose = " of this caller"
	}
	if r.held != nil && r.started && !r.giveClaimUp() {
		what = "start the call again" // the state that came with this request is spent
	}
	return quota.Refuse(quota.Limit(full.Limit), after, "too many unfinished calls%s; %s in %s",
		whose, what, after.Round(time.Second))
}

// storeRetryAfter is when to come back to a server whose guard or store is down.
const storeRetryAfter = 5 * time.Second
