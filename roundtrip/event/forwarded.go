package event

import "time"

// RequestForwarded: a replica passed a request of a legacy session on to the replica that
// owns the session, or could not. The owner reports the request itself, as it does those
// that come to it directly.
type RequestForwarded struct {
	nowhere
	// Owner is the name of the replica that owns the session.
	Owner   string
	Outcome ForwardOutcome
	// HTTPMethod is POST, GET for a stream, or DELETE.
	HTTPMethod string
	// Status is that of the owner's response; 0: there was none.
	Status int
	// RemoteAddr is as in [RequestRefused].
	RemoteAddr string
	// Duration is the time until the response ended: streams may be long.
	Duration time.Duration
	// Err says why there was no response, nil: there was one.
	Err error
}

// A ForwardOutcome is the outcome of a request that was to be passed on. The set is
// closed, so that it can be a label of a metric.
type ForwardOutcome string

// The outcomes of [RequestForwarded], and what the client got.
const (
	ForwardAnswered ForwardOutcome = "answered" // the response of the owner
	// 404: the owner cannot be reached and has surely not received the request
	ForwardGone ForwardOutcome = "owner_gone"
	// 502: the owner may have received the request
	ForwardUnknown ForwardOutcome = "outcome_unknown"
	// 503: the function that locates replicas failed, or the owner did not answer, and has
	// surely not received the request
	ForwardUnreachable ForwardOutcome = "unreachable"
	// nothing, or 503: the client is gone, or this replica shuts down
	ForwardAbandoned ForwardOutcome = "abandoned"
)
