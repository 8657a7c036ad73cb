package hophttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// A failure is why the owner of a session has not responded to a request.
type failure struct {
	// outcome is one of three: ForwardGone means that the owner has surely not received the
	// request, and cannot; ForwardUnreachable that it has surely not received it, and may be
	// alive; ForwardUnknown that it may have received it, and that its response, or whether there
	// will be one, is not known.
	outcome event.ForwardOutcome
	err     error
	dead    bool // the owner cannot be alive; whatever else fails may pass
	silent  bool // nothing came from its address in time
	stale   bool // it has not served the request, and may with another ticket
}

func newFailure(outcome event.ForwardOutcome, err error) *failure {
	return &failure{outcome: outcome, err: err, silent: failureOf(err).silent}
}

// IsDead reports whether the error of a hop says that the owner cannot be alive.
func IsDead(err error) bool { return failureOf(err).dead }

// failureOf returns the failure that err wraps, or one that says nothing.
func failureOf(err error) failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return *f
	}
	return failure{}
}

// Error says what is known of the owner, then why.
func (f *failure) Error() string {
	text := "the replica that owns the session cannot be reached"
	switch f.outcome {
	case words.ForwardGone:
		text = "the replica that owns the session is gone"
	case words.ForwardUnknown:
		text = "the replica that owns the session did not answer"
	}
	return text + ": " + f.err.Error()
}

// Unwrap returns why.
func (f *failure) Unwrap() error { return f.err }

// outcomeOf returns what to report of a request that ended with err. Where the client is gone
// that is what counts.
func outcomeOf(ctx context.Context, err error) event.ForwardOutcome {
	switch f := failureOf(err); {
	case err == nil:
		return words.ForwardAnswered
	case f.outcome != "" && !errors.Is(context.Cause(ctx), context.Canceled):
		return f.outcome
	}
	return words.ForwardAbandoned
}

var (
	errSilent = errors.New("the owner does not answer")
	errOther  = errors.New("the address has another process")
)

// newConnectFailure returns the failure of an owner to which there is no connection. An owner is
// dead if its address refuses connections, has another process, or is that of no replica. The
// answers to a living owner must not be thrown away, so nothing else counts as that.
func newConnectFailure(err error) *failure {
	f := newFailure(words.ForwardGone, err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	f.dead = errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errOther) ||
		errors.Is(err, replicas.ErrUnknown) || isDNS && dns.IsNotFound
	return f
}

// newChallengeFailure returns the failure of a challenge to which there is no response.
func newChallengeFailure(ctx context.Context, connected bool, err error) *failure {
	timeout, ok := errors.AsType[net.Error](err)
	_, dns := errors.AsType[*net.DNSError](err)
	switch {
	case connected && ctx.Err() != nil:
		return &failure{outcome: words.ForwardUnreachable, silent: true,
			err: fmt.Errorf("%w: %w", errSilent, err)}
	case ctx.Err() == nil && ok && timeout.Timeout() && !dns,
		errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return &failure{outcome: words.ForwardGone, silent: true,
			err: fmt.Errorf("%w: %w", errSilent, err)}
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.Is(err, syscall.EADDRNOTAVAIL): // this process lacks what it takes
		return newFailure(words.ForwardUnreachable, err)
	}
	return newConnectFailure(err)
}

// ErrorOutcomeUnknown is what a client gets whose request the owner may have received.
func ErrorOutcomeUnknown() *protocol.Error {
	return protocol.Errorf(protocol.CodeInternalError, "outcome unknown: the replica that serves "+
		"this session did not answer; what was requested may have been done")
}

// ErrorMisdirected is what a client gets whose request another replica passed on to this one,
// which does not own the session.
func ErrorMisdirected() *protocol.Error {
	return protocol.Errorf(protocol.CodeInternalError, "the request was passed on once already, "+
		"and the replica that it was passed on to does not own the session")
}
