// Package words has the values of event fields, which are also metric labels. The types of the
// fields, in roundtrip/event, document the values.
package words

// Values of event.Reason.
const (
	ReasonTooLong          = "too_long"
	ReasonMalformed        = "malformed"
	ReasonVersion          = "unknown_format_version"
	ReasonUnknownKey       = "unknown_key"
	ReasonForeignEphemeral = "foreign_ephemeral"
	ReasonTampered         = "authentication_failed"
	ReasonExpired          = "expired"
	ReasonFlowExpired      = "flow_expired"
	ReasonFuture           = "issued_in_the_future"
	ReasonPrincipal        = "other_principal"
	ReasonMethod           = "other_method"
	ReasonTarget           = "other_target"
	ReasonAudience         = "other_audience"
	ReasonArguments        = "other_arguments"
	ReasonReplayed         = "replayed"
	ReasonSealer           = "refused_by_sealer"
	ReasonGone             = "not_in_store"
)

// Values of event.DropReason.
const (
	DropUnsolicited = "unsolicited"
	DropMalformed   = "malformed"
	DropExpired     = "expired"
	DropVersion     = "flow_version"
)

// Values of event.FlowEnd.
const (
	EndComplete  = "complete"
	EndFailed    = "failed"
	EndRefused   = "refused"
	EndUnseen    = "unseen"
	EndRounds    = "rounds"
	EndInvalid   = "invalid"
	EndStateLost = "state_lost"
	EndReplayed  = "replay_handled"
)

// Values of event.Way.
const (
	WayForm = "form"
	WayLink = "link"
	WayText = "text"
	WayTask = "task"
)

// Values of event.ForwardOutcome.
const (
	ForwardAnswered    = "answered"
	ForwardGone        = "owner_gone"
	ForwardUnknown     = "outcome_unknown"
	ForwardUnreachable = "unreachable"
	ForwardAbandoned   = "abandoned"
)

// Values of event.RefusalReason.
const (
	RefusedHost            = "host"
	RefusedOrigin          = "origin"
	RefusedUnauthenticated = "unauthenticated"
	RefusedForbidden       = "forbidden"
	RefusedCredentials     = "malformed_credentials"
	RefusedUnverified      = "unverified"
	RefusedHTTPMethod      = "http_method"
	RefusedMediaType       = "media_type"
	RefusedAccept          = "accept"
	RefusedTooLarge        = "too_large"
	RefusedTooSlow         = "too_slow"
	RefusedMalformed       = "malformed"
	RefusedVersion         = "version"
	RefusedHeaders         = "header_mismatch"
	RefusedNoSession       = "no_session"
	RefusedSessionGone     = "session_gone"
	RefusedBatch           = "batch"
	RefusedEventID         = "event_id"
	RefusedDuplicateID     = "duplicate_id"
	RefusedRequests        = "too_many_requests"
	RefusedSessions        = "too_many_sessions"
	RefusedClosing         = "closing"
	RefusedOutcomeUnknown  = "outcome_unknown"
	RefusedUnreachable     = "unreachable"
	RefusedMisdirected     = "misdirected"
)
