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

// A failure is why the owner of a session did not respond to a request.
type failure struct {
	// ForwardGone means that the owner did not and will not receive the request;
	// ForwardUnreachable, that it did not, but may be alive; ForwardUnknown, that it may have.
	outcome event.ForwardOutcome
	err     error
	dead    bool // the owner cannot be alive; other failures may be temporary
	silent  bool // nothing came from its address in time
	stale   bool // the owner refused the ticket, but may accept another one
}

func newFailure(outcome event.ForwardOutcome, err error) *failure {
	return &failure{outcome: outcome, err: err, silent: failureOf(err).silent}
}

// IsDead reports whether a hop's error proves that the owner is dead.
func IsDead(err error) bool { return failureOf(err).dead }

// failureOf returns the failure that err wraps, or an empty one.
func failureOf(err error) failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return *f
	}
	return failure{}
}

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

func (f *failure) Unwrap() error { return f.err }

// outcomeOf returns the outcome to report. A client that is gone takes precedence.
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

// newConnectFailure returns the failure to connect to an owner. To lose no answers, it is dead only
// if its address refuses connections, has another process, or belongs to no replica.
func newConnectFailure(err error) *failure {
	f := newFailure(words.ForwardGone, err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	f.dead = errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errOther) ||
		errors.Is(err, replicas.ErrUnknown) || isDNS && dns.IsNotFound
	return f
}

// newChallengeFailure returns the failure of a challenge without a response.
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
		errors.Is(err, syscall.EADDRNOTAVAIL): // this process lacks descriptors or ports
		return newFailure(words.ForwardUnreachable, err)
	}
	return newConnectFailure(err)
}

// ErrorOutcomeUnknown returns the client's error if the owner may have received the request.
func ErrorOutcomeUnknown() *protocol.Error {
	return protocol.Errorf(protocol.CodeInternalError, "outcome unknown: the replica that serves "+
		"this session did not answer; what was requested may have been done")
}

// ErrorMisdirected is the error for a request forwarded to a replica that does not own its session.
func ErrorMisdirected() *protocol.Error {
	return protocol.Errorf(protocol.CodeInternalError, "the request was already forwarded once, "+
		"to a replica that does not own the session")
}
