package elicitation

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Disposition says what became of a client's reply.
type Disposition int

// The dispositions. Only Accepted has reached the upstream as an answer.
const (
	// Unknown: no question has, or lately had, this id.
	Unknown Disposition = iota
	// Accepted: it is the outcome of the question, be it an answer or the
	// client's error.
	Accepted
	// WrongSession: the question was put to another session.
	WrongSession
	// WrongPrincipal: the question was put to this session while somebody else
	// was behind it.
	WrongPrincipal
	// Duplicate: the question has been answered.
	Duplicate
	// Expired: the question ended otherwise: it timed out, was cancelled, or
	// failed.
	Expired
	// Invalid: it comes from the right client and cannot be used. The question
	// has ended with an error.
	Invalid
)

// String names the disposition.
func (d Disposition) String() string {
	switch d {
	case Unknown:
		return "unknown"
	case Accepted:
		return "accepted"
	case WrongSession:
		return "wrong_session"
	case WrongPrincipal:
		return "wrong_principal"
	case Duplicate:
		return "duplicate"
	case Expired:
		return "expired"
	case Invalid:
		return "invalid"
	}
	return "invalid disposition"
}

// Complete hands in a response that a client sent. from is where it came from,
// as the host has authenticated it. Replies that do not end the question, those
// of strangers above all, leave it as it is. reply is not kept.
//
// On a [Bus] the reply is handed to the replica that asked. The error tells that
// it could not be: [ErrOwnerGone], or that of the bus; the disposition is then
// Unknown. Without a bus there is no error.
func (r *Router) Complete(ctx context.Context, from From, reply *protocol.Response) (Disposition, error) {
	return r.complete(ctx, from, reply)
}
