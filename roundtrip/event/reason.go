package event

// A Reason says why a requestState was refused, for the server's log: clients get one frozen error.
//
//   - too_long: longer than roundtrip.Limits.StateBytes
//   - malformed: not a state of rondo
//   - unknown_format_version: sealed by another release
//   - unknown_key: sealed with a key that this process does not have
//   - foreign_ephemeral: sealed with the ephemeral key of another process, or before a restart
//   - authentication_failed: changed, or two secrets have the same key id
//   - expired: the answers took longer than roundtrip.Options.RoundTTL
//   - flow_expired: the flow took too long
//   - issued_in_the_future: the clock of another replica is ahead
//   - other_principal, other_method, other_target, other_audience, other_arguments: issued to
//     another caller, or for another request or service
//   - replayed: used before, with a guard
//   - refused_by_sealer: refused by the host's own sealer
//   - not_in_store: not in the StateStore
type Reason string

// A Dropped is an answer that was not used.
type Dropped struct {
	Key    string
	Reason DropReason
}

// A DropReason says why an answer was dropped.
//
//   - unsolicited: this flow did not ask the question, or the client lost the state that proves it
//   - malformed: the answer does not have the shape that its question requires
//   - expired: the state was authentic but too old, and the flow restarted
//   - flow_version: asked by another version of the flow; see roundtrip.FlowVersion
type DropReason string
