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

// A ForwardOutcome is the outcome of a request that was to be forwarded. The set is closed, so that
// it can be a label of a metric. The status that the client got is in parentheses.
//
//   - answered: the owner responded
//   - owner_gone (404): the owner cannot be reached and has surely not received the request
//   - outcome_unknown (502): the owner may have received the request
//   - unreachable (503): the function that locates replicas failed, or the owner did not answer,
//     and has surely not received the request
//   - abandoned (none, or 503): the client is gone, or this replica shuts down
type ForwardOutcome string
