package event

import "time"

// RequestForwarded: a replica forwarded a request of a legacy session to the replica that owns the
// session, or failed to. The owner reports the request itself, as it does direct ones.
type RequestForwarded struct {
	nowhere
	// Owner is the name of the replica that owns the session.
	Owner      string
	Outcome    ForwardOutcome
	HTTPMethod string        // POST, GET for a stream, or DELETE
	Status     int           // of the owner's response; 0: there was none
	RemoteAddr string        // as in [RequestRefused]
	Duration   time.Duration // until the response ended: streams may be long
	Err        error         // why there was no response; nil: there was one
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
