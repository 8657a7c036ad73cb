package natskv

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Errors after which another attempt may succeed: see [IsTransient].
var (
	// ErrBehind is returned when the answering server has not seen a write that
	// the leader has acknowledged, or the key went between two reads.
	ErrBehind = errors.New("the bucket is behind its leader")
	// ErrChanged is for callers whose key changed between their read and their
	// write. No function of this package returns it.
	ErrChanged = errors.New("the bucket has changed between reading and writing")
)

// Error codes with which a server refuses a request while no server leads, or while the
// cluster forms and there are not enough servers yet.
const (
	clusterNoPeers      jetstream.ErrorCode = 10005
	clusterNotAvailable jetstream.ErrorCode = 10008
	clusterNoLeader     jetstream.ErrorCode = 10009
)

// IsTransient reports whether another attempt may succeed: no server leads the
// stream at the moment, the cluster has too few servers yet for one, the answering
// server is behind, or a message was lost.
func IsTransient(err error) bool {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.ErrorCode == clusterNotAvailable || e.ErrorCode == clusterNoLeader ||
			e.ErrorCode == clusterNoPeers
	}
	for _, transient := range [...]error{
		ErrBehind, ErrChanged, context.DeadlineExceeded,
		nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, transient) {
			return true
		}
	}
	return false
}

// IsConflict reports whether a conditional write was refused because the key
// does not have the revision expected.
func IsConflict(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
