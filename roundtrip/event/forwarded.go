package event

import "time"

// RequestForwarded: a replica forwarded a legacy session's request to the session's owner, or
// failed to. The owner reports the request itself like a direct one.
type RequestForwarded struct {
	nowhere
	Owner      string // the name of the replica that owns the session
	Outcome    ForwardOutcome
	HTTPMethod string        // POST, GET for a stream, or DELETE
	Status     int           // of the owner's response; 0: there was none
	RemoteAddr string        // as in [RequestRefused]
	Duration   time.Duration // until the response ended; streams may be long
	Err        error         // why there was no response, else nil
}

// A ForwardOutcome is the outcome of forwarding a request: a closed set, usable as a metric label.
// The client's status is in parentheses.
//
//   - answered: the owner responded
//   - owner_gone (404): the owner cannot be reached and has surely not received the request
//   - outcome_unknown (502): the owner may have received the request
//   - unreachable (503): locating replicas failed, or the owner did not answer, and has surely not
//     received the request
//   - abandoned (none, or 503): the client is gone, or this replica shuts down
type ForwardOutcome string
