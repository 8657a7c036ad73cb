package elicitation

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/protocol"
)

// explainFailure returns the cause of a question's end, fit for logs.
func (c *Call) explainFailure(err *Error) (text string) {
	switch {
	case err.Err == nil:
		return ""
	case err.Reason == ReasonDelivery && c.via.frames == nil:
		// An SDK's error may quote the answer that it could not read or write.
		return describeErrorKind(err.Err)
	case err.Reason == ReasonDelivery:
		c.router.callHost("redactor", func() { // the error may quote the question
			text = c.router.redactMessage(redact.HideURLSecrets(err.Err.Error()))
		})
		return text
	case err.Reason == ReasonInvalidReply:
		return escapeForLog(err.Err.Error()) // our own text, which quotes nothing
	}
	return ""
}

// describeErrorKind describes an error without its text: its name, errno or root type.
func describeErrorKind(err error) string {
	for _, known := range [...]error{
		errStuck, context.DeadlineExceeded, context.Canceled, io.EOF, io.ErrUnexpectedEOF,
		io.ErrClosedPipe, net.ErrClosed, os.ErrDeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return fmt.Sprintf("error of type %T", err)
}

func (r *Router) redactMessage(message string) string {
	if r.opts.Redactor != nil {
		message = r.opts.Redactor(message)
	}
	return escapeForLog(message)
}

const maxText = 256 // characters logged of a peer's text

func escapeForLog(s string) string { return redact.EscapeText(s, maxText) }

// peekMessage returns a refused question's message, "" if unreadable or over the limits.
func peekMessage(params json.RawMessage) string {
	if len(params) > maxSchemaBytes+maxOutsideSchema {
		return ""
	}
	return findText(params, "message")
}

func (r *Router) subjectOf(p protocol.Principal) string {
	if p.Anonymous() || p.IsLocal() {
		return ""
	}
	return escapeForLog(r.opts.Subject(p))
}

func digestOf(p protocol.Principal) string {
	sum := sha256.Sum256([]byte(p.Issuer + "\x00" + p.Subject))
	return hex.EncodeToString(sum[:8])
}

// newID returns 128 random bits in hexadecimal.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// bareID returns a router id without its quotes on the wire.
func bareID(id protocol.ID) string {
	s := id.String()
	return s[1 : len(s)-1]
}
