package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os/exec"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/relay"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

type failureKind string

const (
	whyUnreachable failureKind = "unreachable"  // no connection, or no process
	whyTimeout     failureKind = "timeout"      // no answer in time
	whyEnded       failureKind = "ended"        // the connection or process ended before the answer
	whyStatus      failureKind = "http_status"  // an HTTP status without a message
	whyMalformed   failureKind = "malformed"    // invalid answer
	whySessionLost failureKind = "session_lost" // the upstream no longer knows the session
	whyCredentials failureKind = "credentials"  // 401 or 403, or no credentials for the caller
	whyQuestion    failureKind = "question"     // a question that must not be passed on
	whyCapability  failureKind = "capability"   // the client lacks a required capability
	whyError       failureKind = "error"        // the upstream answered with an error
	whyGivenUp     failureKind = "given_up"     // the client or the gateway cancelled
	whyInternal    failureKind = "internal"     // a panic in this process
)

func failureKinds() []failureKind {
	return []failureKind{whyUnreachable, whyTimeout, whyEnded, whyStatus, whyMalformed,
		whySessionLost, whyCredentials, whyQuestion, whyCapability, whyError, whyGivenUp,
		whyInternal}
}

// A failure describes an upstream's error for the log. It quotes nothing that was sent.
type failure struct {
	why    failureKind
	code   int64 // of the upstream's error, else 0
	status int   // of HTTP, else 0
	at     int   // offset of malformed JSON, else negative
}

// Interfaces that errors of packages client and clienthttp implement.
type (
	undeclared interface {
		error
		MissingCapabilities() protocol.ClientCapabilities
	}
	malformed interface {
		error
		MalformedAt() int
	}
	answeredWithStatus interface {
		error
		HTTPStatus() int
	}
)

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func isMalformed(err error) bool {
	return isA[*client.ResponseError](err) || isA[malformed](err)
}

func failureOf(ctx context.Context, err error) failure {
	f := failure{at: -1}
	if m, ok := errors.AsType[malformed](err); ok {
		f.at = m.MalformedAt()
	}
	if s, ok := errors.AsType[answeredWithStatus](err); ok {
		f.status = s.HTTPStatus()
	}
	if said, ok := protocol.AsError(err); ok && !isMalformed(err) {
		f.code = said.Code
	}
	f.why = f.kindOf(ctx, err)
	return f
}

func (f *failure) kindOf(ctx context.Context, err error) failureKind {
	switch {
	case errors.Is(err, errPanicked):
		return whyInternal
	case isA[undeclared](err), f.code == protocol.CodeMissingRequiredClientCapability:
		return whyCapability
	case isA[*client.QuestionError](err), isA[*elicitation.Error](err):
		return whyQuestion
	case isMalformed(err):
		return whyMalformed
	case isA[*unhandled](err), isA[*loginNeeded](err),
		f.status == http.StatusUnauthorized, f.status == http.StatusForbidden:
		return whyCredentials
	case errors.Is(err, protocol.ErrSessionGone):
		return whySessionLost
	case f.code != 0:
		return whyError
	case f.status != 0:
		return whyStatus
	}
	return kindOfBreak(ctx, err)
}

func kindOfBreak(ctx context.Context, err error) failureKind {
	dial, isNet := errors.AsType[*net.OpError](err)
	late, isLate := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, relay.ErrExpired), errors.Is(err, context.DeadlineExceeded),
		isLate && late.Timeout():
		return whyTimeout
	case errors.Is(err, errClosed), errors.Is(err, relay.ErrClientLeft),
		errors.Is(err, context.Canceled), ctx.Err() != nil:
		return whyGivenUp
	case isNet && dial.Op == "dial", isA[*net.DNSError](err), isA[*exec.Error](err),
		isA[*tls.CertificateVerificationError](err), isA[*fs.PathError](err):
		return whyUnreachable
	}
	return whyEnded
}

func (f failure) addFields(out event.Encoder) {
	out.AddString("why", string(f.why))
	if f.code != 0 {
		out.AddInt64("code", f.code)
	}
	if f.status != 0 {
		out.AddInt64("status", int64(f.status))
	}
	if f.at >= 0 {
		out.AddInt64("at", int64(f.at))
	}
}

func (g *Gateway) countFailure(ctx context.Context, u *upstream, err error) failure {
	f := failureOf(ctx, err)
	g.metrics.failures[u.config.Name](f.why).Add(1)
	return f
}

// noteFailedCall counts and logs a call's error, unless it waits for a login.
func (g *Gateway) noteFailedCall(ctx context.Context, u *upstream, err, shown error) {
	if isA[*loginNeeded](err) {
		return
	}
	f := g.countFailure(ctx, u, err)
	level := event.LevelWarn // the upstream needs attention
	if f.why == whyCapability || f.why == whyError || f.why == whyGivenUp {
		level = event.LevelInfo
	}
	g.log(level, "gateway.call_failed", func(out event.Encoder) {
		out.AddString("upstream", u.config.Name)
		f.addFields(out)
		if e, ok := shown.(*upstreamError); ok { // the gateway's own text
			out.AddString("error", e.Error())
		}
	})
}
