package oauth

import (
	"context"
	"time"
)

// A flight is work that gets another token, for all who wait for it.
type flight struct {
	done    chan struct{} // closed when it has ended
	err     error         // set before
	cancel  context.CancelFunc
	waiters int // the work ends with the last of them, unless it is in the background
}

// mend waits until the token that was sent is replaced: by work, or by that of another caller.
// again says that it was, or may have been. The work has a time limit and a context of its own: no
// caller ends it that is not the last.
func (s *Source) mend(ctx context.Context, sent string, limit time.Duration,
	work func(ctx context.Context, sent string) error) (again bool, err error) {
	s.mu.Lock()
	if s.tokens != nil && s.tokens.record.Access != sent {
		s.mu.Unlock()
		return true, nil
	}
	f := s.flight
	if f == nil {
		f = s.startLocked(ctx, sent, limit, work)
	}
	f.waiters++
	s.mu.Unlock()
	select {
	case <-f.done:
		return f.err == nil, f.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.cancel()
	}
	return false, context.Cause(ctx)
}

// startLocked starts a flight. Other processes that share the store are kept out meanwhile.
func (s *Source) startLocked(ctx context.Context, sent string, limit time.Duration,
	work func(ctx context.Context, sent string) error) *flight {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	f := &flight{done: make(chan struct{}), cancel: cancel}
	s.flight = f
	go func() {
		defer cancel()
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
		return err
	}
	defer unlock()
	return work(ctx, sent)
}
