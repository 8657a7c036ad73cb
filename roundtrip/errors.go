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

// ErrNoRound is returned, wrapped with details, by flow-style calls outside of a handler that can
// ask, with a context that is not the handler's, and after the handler has returned.
var ErrNoRound = errors.New("no active round")

// ErrPending is returned, wrapped with the keys, by flow-style calls in a round that will ask, and
// is the cause that ends the handler's context. Handlers may return it or anything else.
var ErrPending = errors.New("the question is being asked; the handler runs again with the answer")

// ErrNotFinished is returned by [Await] if guard style has to return the question (again).
var ErrNotFinished = errors.New("the visit is not finished")

// A DeclinedError means that the user declined the question Key.
type DeclinedError struct{ Key string }

// Error names the question.
func (e *DeclinedError) Error() string { return "declined: " + e.Key }

// A CancelledError means that the user dismissed the question Key without deciding.
type CancelledError struct{ Key string }

// Error names the question.
func (e *CancelledError) Error() string { return "cancelled: " + e.Key }

// An UnseenError means that the client refused the question Key with Action, sooner than
// [Options].MinHumanTime, without showing it. It is a refusal: nobody has agreed.
type UnseenError struct {
	Key    string
	Action protocol.ElicitAction
}

// Error names the question.
func (e *UnseenError) Error() string { return "unseen: " + e.Key }

// A journalError means that the handler asks differently in each round, or twice under one key. It
// ends the flow: clients get an internal error, observers this one in an [event.ServerBug].
type journalError struct {
	key     string
	problem string
}

func (e *journalError) Error() string { return fmt.Sprintf("key %q: %s", e.key, e.problem) }

// A PushError, as from [PushRequest] or with [IfPossible], means that nothing was sent or asked.
type PushError struct {
	Method string // of the request that could not be pushed
	Cause  string
	// Missing has the capabilities that the client would have to declare; zero for other causes.
	Missing protocol.ClientCapabilities

	client string // the text for the client; if empty, a general one
}

// Error returns the cause, and an alternative if there is one.
func (e *PushError) Error() string {
	if !e.Missing.IsZero() {
		return fmt.Sprintf("push %s: %s", e.Method, e.Cause)
	}
	return fmt.Sprintf("push %s: %s; ask in rounds instead, which clients of every revision "+
		"understand: with roundtrip.Ask, or return roundtrip.InputRequired from the handler",
		e.Method, e.Cause)
}

// findRefusal returns the refusal in err's tree, or nil, preferring a person's to an unseen one.
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

// reportUnserved reports why a guard or a store could not serve a request, and returns the client's
// error, which says when to retry or, if the handler did something that must not be repeated, that
// the outcome is unknown. Any other err is a mistake of the server.
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
		what = "start the call again" // the state of this request is spent
	}
	return quota.Refuse(quota.Limit(full.Limit), after, "too many unfinished calls%s; %s in %s",
		whose, what, after.Round(time.Second))
}

const storeRetryAfter = 5 * time.Second // while a guard or store is down
