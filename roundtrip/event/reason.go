package event

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

// A Dropped answer came with a request and was not used.
type Dropped struct {
	Key    string
	Reason DropReason
}

// A DropReason says why an answer was dropped.
type DropReason string

// The reasons.
const (
	// DropUnsolicited: the answer is to a question that this flow did not ask,
	// or the client lost the state that proves that it did.
	DropUnsolicited DropReason = "unsolicited"
	// DropMalformed: the answer has not the shape that its question requires.
	DropMalformed DropReason = "malformed"
	// DropExpired: the state was authentic but too old, and the flow restarted.
	DropExpired DropReason = "expired"
	// DropVersion: the answer was given to another version of the flow; see
	// roundtrip.FlowVersion.
	DropVersion DropReason = "flow_version"
)
