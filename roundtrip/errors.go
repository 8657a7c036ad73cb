package roundtrip

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Reason says why a requestState was refused. It is for the server's own
// log; clients get one frozen error whatever the reason.
type Reason string

// The reasons.
const (
	ReasonTooLong          Reason = "too_long"
	ReasonMalformed        Reason = "malformed"
	ReasonVersion          Reason = "unknown_format_version"
	ReasonUnknownKey       Reason = "unknown_key"
	ReasonForeignEphemeral Reason = "foreign_ephemeral"
	ReasonTampered         Reason = "authentication_failed"
	ReasonExpired          Reason = "expired"
	ReasonFlowExpired      Reason = "flow_expired"
	ReasonFuture           Reason = "issued_in_the_future"
	ReasonPrincipal        Reason = "other_principal"
	ReasonMethod           Reason = "other_method"
	ReasonTarget           Reason = "other_target"
	ReasonAudience         Reason = "other_audience"
	ReasonArguments        Reason = "other_arguments"
	ReasonReplayed         Reason = "replayed"
	ReasonSealer           Reason = "refused_by_sealer"
	ReasonGone             Reason = "not_in_store"
)

// A rejection is a refused state: the reason stays here, the client gets the
// frozen error.
type rejection struct {
	reason Reason
	err    error // of the sealer, for unwrapping in tests and logs
}

func (r *rejection) Error() string {
	if r.err != nil {
		return fmt.Sprintf("request state: %s: %v", r.reason, r.err)
	}
	return fmt.Sprintf("request state: %s", r.reason)
}

func (r *rejection) Unwrap() error { return r.err }

// invalidState is the one error for every refused state. It says nothing that
// would help an attacker find out why; reference ties it to the server's log.
func invalidState(reference string) *protocol.Error {
	e := &protocol.Error{Code: protocol.CodeInvalidParams, Message: "Invalid or expired requestState"}
	return e.WithData(struct {
		Reason    string `json:"reason"`
		Reference string `json:"reference"`
	}{"invalid_request_state", reference})
}

func newReference() string { return uuid.NewString() }

// A PushError is returned by calls that push a request to the client, such as
// a server's live elicitation, where the connection cannot carry one. Nothing
// was sent.
type PushError struct {
	Method string // of the request that could not be pushed
	Cause  string
	// Missing is what the client would have to declare; zero when that is not
	// the cause.
	Missing protocol.ClientCapabilities

	client string // what a client is told; empty: that it could not be asked
}

// Error says why, and what to do instead where that helps.
func (e *PushError) Error() string {
	if !e.Missing.IsZero() {
		return fmt.Sprintf("push %s: %s", e.Method, e.Cause)
	}
	return fmt.Sprintf("push %s: %s; return roundtrip.InputRequired from the handler instead", e.Method, e.Cause)
}

// internalError is what a client learns of a server's mistake.
func internalError() *protocol.Error {
	return &protocol.Error{Code: protocol.CodeInternalError, Message: "internal error"}
}
