package oauth

import (
	"context"
	"time"
)

// A flight is work that gets another token, for all who wait for it.
type flight struct {
	done    chan struct{} // closed when it has ended
	err     error         // set before
	cancel  context.CancelCauseFunc
	limit   time.Duration
	waiters int  // nobody waits for one in the background, which counts as a waiter itself
	ending  bool // it was cancelled: it gets no token for those who come now
}

// mend waits until the token that was sent is replaced: by work, or by that of another caller.
// again says that it was, or may have been. The work has a time limit and a context of its own,
// which ends with the last caller that waits for it. A caller for whom a person may log in does not
// share the end of a refresh that was refused for good: it goes on by itself.
func (s *Source) mend(ctx context.Context, sent string, limit time.Duration,
	work func(ctx context.Context, sent string) error) (again bool, err error) {
	for {
		s.mu.Lock()
		if s.tokens != nil && s.tokens.record.Access != sent {
			s.mu.Unlock()
			return true, nil
		}
		f := s.flight
		if f == nil {
			f = s.startLocked(ctx, sent, limit, work)
		}
		ending := f.ending
		if !ending {
			f.waiters++
		}
		s.mu.Unlock()
		select {
		case <-f.done:
			if !ending && (f.limit >= limit || !isFinal(f.err)) {
				return f.err == nil, f.err
			}
		case <-ctx.Done():
			if !ending {
				s.leave(f)
			}
			return false, context.Cause(ctx)
		}
	}
}

// leave ends a flight that nobody waits for any more.
func (s *Source) leave(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.endLocked(context.Canceled)
	}
}

func (f *flight) endLocked(cause error) {
	f.ending = true
	f.cancel(cause)
}

// startLocked starts a flight. Other processes that share the store are kept out meanwhile.
func (s *Source) startLocked(ctx context.Context, sent string, limit time.Duration,
	work func(ctx context.Context, sent string) error) *flight {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f := &flight{done: make(chan struct{}), cancel: cancel, limit: limit}
	s.flight = f
	go func() {
		defer cancel(nil)
		ctx, stop := context.WithTimeout(ctx, limit)
		defer stop()
		err := s.alone(ctx, sent, work)
		s.mu.Lock()
		defer s.mu.Unlock()
		f.err, s.flight = err, nil
		close(f.done)
	}()
	return f
}

func (s *Source) alone(ctx context.Context, sent string,
	work func(ctx context.Context, sent string) error) error {
	unlock, err := s.store.Lock(ctx, s.pointerKey())
	if err != nil {
		return &StoreError{err}
	}
	defer unlock()
	return work(ctx, sent)
}
