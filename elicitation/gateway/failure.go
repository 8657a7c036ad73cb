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

// A failureKind says why an upstream failed: a field of log entries and a label of a metric.
type failureKind string

const (
	whyUnreachable failureKind = "unreachable"  // no connection, or no process
	whyTimeout     failureKind = "timeout"      // no answer in time
	whyEnded       failureKind = "ended"        // the connection or process ended before the answer
	whyStatus      failureKind = "http_status"  // an HTTP status, and no message
	whyMalformed   failureKind = "malformed"    // what arrived is no answer
	whySessionLost failureKind = "session_lost" // the upstream does not know its session any more
	whyCredentials failureKind = "credentials"  // 401 or 403, or there are none for the caller
	whyQuestion    failureKind = "question"     // a question that may not be passed on
	whyCapability  failureKind = "capability"   // the client lacks what the upstream needs
	whyError       failureKind = "error"        // an error that the upstream sent as its answer
	whyGivenUp     failureKind = "given_up"     // the client or the gateway did not wait
	whyInternal    failureKind = "internal"     // a panic in this process
)

func failureKinds() []failureKind {
	return []failureKind{whyUnreachable, whyTimeout, whyEnded, whyStatus, whyMalformed,
		whySessionLost, whyCredentials, whyQuestion, whyCapability, whyError, whyGivenUp,
		whyInternal}
}

// isFault reports whether somebody should look at the upstream.
func (k failureKind) isFault() bool {
	return k != whyCapability && k != whyError && k != whyGivenUp
}

// A failure is what the operator reads of an error of an upstream. It has nothing that the
// upstream says: that may quote an answer.
type failure struct {
	why    failureKind
	code   int64 // of an error that the upstream sent, else 0
	status int   // of HTTP, else 0
	at     int   // the byte at which JSON is not well formed, negative where there is none
}

// Errors of packages client and clienthttp, by what they say.
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

// isMalformed reports whether what the upstream sent is no answer.
func isMalformed(err error) bool {
	_, unusable := errors.AsType[*client.ResponseError](err)
	_, unreadable := errors.AsType[malformed](err)
	return unusable || unreadable
}

// failureOf returns what an error means that came under ctx.
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
	_, asked := errors.AsType[*client.QuestionError](err)
	_, refused := errors.AsType[*elicitation.Error](err)
	_, lacks := errors.AsType[undeclared](err)
	_, unhandled := errors.AsType[*unhandled](err)
	_, login := errors.AsType[*loginNeeded](err)
	switch {
	case errors.Is(err, errPanicked):
		return whyInternal
	case lacks, f.code == protocol.CodeMissingRequiredClientCapability:
		return whyCapability
	case asked, refused:
		return whyQuestion
	case isMalformed(err):
		return whyMalformed
	case unhandled, login, f.status == http.StatusUnauthorized, f.status == http.StatusForbidden:
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

// kindOfBreak returns why there is no answer at all.
func kindOfBreak(ctx context.Context, err error) failureKind {
	dial, isNet := errors.AsType[*net.OpError](err)
	late, isLate := errors.AsType[net.Error](err)
	_, isName := errors.AsType[*net.DNSError](err)
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, isProgram := errors.AsType[*exec.Error](err)
	_, isPath := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, relay.ErrExpired), errors.Is(err, context.DeadlineExceeded),
		isLate && late.Timeout():
		return whyTimeout
	case errors.Is(err, errClosed), errors.Is(err, relay.ErrClientLeft),
		errors.Is(err, context.Canceled), ctx.Err() != nil:
		return whyGivenUp
	case isNet && dial.Op == "dial", isName, isCertificate, isProgram, isPath:
		return whyUnreachable
	}
	return whyEnded
}

// addFields adds what is known.
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

// countFailure counts an error of an upstream that came under ctx.
func (g *Gateway) countFailure(ctx context.Context, u *upstream, err error) failure {
	f := failureOf(ctx, err)
	g.metrics.failures[u.config.Name](f.why).Add(1)
	return f
}

// noteFailedCall counts an error of a call, and tells the log why it failed; shown is what the
// client gets. A call that waits for a login has not failed.
func (g *Gateway) noteFailedCall(ctx context.Context, u *upstream, err, shown error) {
	if _, login := errors.AsType[*loginNeeded](err); login {
		return
	}
	f := g.countFailure(ctx, u, err)
	level := event.LevelInfo
	if f.why.isFault() {
		level = event.LevelWarn
	}
	g.log(level, "gateway.call_failed", func(out event.Encoder) {
		out.AddString("upstream", u.config.Name)
		f.addFields(out)
		if e, ok := shown.(*upstreamError); ok { // its text is the gateway's own
			out.AddString("error", e.Error())
		}
	})
}

// noteFailedConnection is noteFailedCall for a call that has no connection, unless the gateway has
// no room for it.
func (g *Gateway) noteFailedConnection(ctx context.Context, u *upstream, err error) {
	if said, ok := protocol.AsError(err); ok && said.Code == protocol.CodeBusy {
		return
	}
	g.noteFailedCall(ctx, u, err, err)
}
