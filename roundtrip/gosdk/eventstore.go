package gosdk

import (
	"context"
	"errors"
	"iter"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// eventStore makes errors of the panics of an author's event store. The SDK calls it on
// goroutines that recover no panic, too.
type eventStore struct {
	mcp.EventStore
	adapter *Adapter
}

var errEventStorePanicked = errors.New("gosdk: the event store panicked")

// recoverPanic is deferred. It reports a panic and sets the error.
func (s *eventStore) recoverPanic(ctx context.Context, err *error) {
	if v := recover(); v != nil {
		s.adapter.reportPanic(ctx, "", v)
		*err = errEventStorePanicked
	}
}

// Open implements [mcp.EventStore].
func (s *eventStore) Open(ctx context.Context, sessionID, streamID string) (err error) {
	defer s.recoverPanic(ctx, &err)
	return s.EventStore.Open(ctx, sessionID, streamID)
}

// Append implements [mcp.EventStore].
func (s *eventStore) Append(ctx context.Context, sessionID, streamID string,
	data []byte) (err error) {
	defer s.recoverPanic(ctx, &err)
	return s.EventStore.Append(ctx, sessionID, streamID, data)
}

// After implements [mcp.EventStore]. A panic of the loop over the events goes on.
func (s *eventStore) After(ctx context.Context, sessionID, streamID string,
	index int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		inLoop, ended := false, false
		defer func() {
			if inLoop {
				return
			}
			if v := recover(); v != nil {
				s.adapter.reportPanic(ctx, "", v)
				if !ended {
					yield(nil, errEventStorePanicked)
				}
			}
		}()
		for data, err := range s.EventStore.After(ctx, sessionID, streamID, index) {
			inLoop = true
			ended = !yield(data, err)
			if inLoop = false; ended {
				return
			}
		}
	}
}

// SessionClosed implements [mcp.EventStore].
func (s *eventStore) SessionClosed(ctx context.Context, sessionID string) (err error) {
	defer s.recoverPanic(ctx, &err)
	return s.EventStore.SessionClosed(ctx, sessionID)
}
