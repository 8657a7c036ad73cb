package waiting

// This file has heartbeats: progress without news, as most clients give up after a silent minute.

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"
)

const (
	heartbeatDelay = 2 * time.Second // clients that answer by themselves are faster
	// HeartbeatInterval keeps clients and proxies from timing out, after 30 or 60 seconds.
	HeartbeatInterval = 15 * time.Second
	// HeartbeatMessage is shown to the person who waits for the call.
	HeartbeatMessage = "waiting for an answer"
)

// part divides the author's smallest step, so that heartbeats stay below the next value.
const part = 1024

// A ProgressSequence makes the values sent on one progress token rise, whoever reports the
// progress. The zero value is ready. It is not safe for concurrent use: the sender holds a lock,
// because values must be sent in order.
type ProgressSequence struct {
	sent   float64 // last value sent
	author float64 // the author's last value, 0 before the first
	total  float64 // of the author's last report; 0 if unknown
	step   float64 // the author's smallest advance, at most 1; 0 before the first
	beats  int     // since the author's last report
	begun  bool    // a value was sent
	told   bool    // the author has reported a value
}

// Report returns the value to send, or false if the client has it, as when a handler reruns.
func (s *ProgressSequence) Report(progress, total float64) (value float64, ok bool) {
	if s.told && progress <= s.author {
		return 0, false
	}
	if step := progress - s.author; step > 0 {
		s.step = min(step, cmp.Or(s.step, 1))
	}
	s.author, s.told, s.total, s.beats = progress, true, total, 0
	return s.advance(progress)
}

// Beat returns a heartbeat's value and its total or 0, and false if no larger value exists.
func (s *ProgressSequence) Beat() (value, total float64, ok bool) {
	s.beats++
	n := float64(s.beats)
	value, ok = s.advance(s.author + cmp.Or(s.step, 1)/part*n/(n+1))
	if total = s.total; value > total {
		total = 0 // more than the total is confusing
	}
	return value, total, ok
}

// advance returns value, or the next number above the last one sent.
func (s *ProgressSequence) advance(value float64) (float64, bool) {
	if s.begun && value <= s.sent {
		value = math.Nextafter(s.sent, math.Inf(1))
	}
	if math.IsInf(value, 0) {
		return 0, false
	}
	s.begun, s.sent = true, value
	return value, true
}

// A Heartbeat calls a function at intervals while a call waits.
type Heartbeat struct {
	interval time.Duration
	beat     func(context.Context)
	ctx      context.Context // of the wait

	mu      sync.Mutex
	timer   *time.Timer        // nil if stopped
	cancel  context.CancelFunc // of the running beat, or nil
	beating chan struct{}      // closed when the last beat has ended, or nil
}

// StartHeartbeat calls beat after [heartbeatDelay], or interval if shorter, and then every
// interval, until ctx ends or [Heartbeat.Stop] is called. Calls do not overlap. beat must watch its
// context, a child of ctx that Stop ends, and must not panic.
func StartHeartbeat(
	ctx context.Context, interval time.Duration, beat func(context.Context),
) *Heartbeat {
	t := &Heartbeat{interval: interval, beat: beat, ctx: ctx}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(min(heartbeatDelay, interval), t.tick)
	return t
}

func (t *Heartbeat) tick() {
	// Created per call, because most waits end before the first.
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	if ctx.Err() != nil || !t.setBeating(cancel, ended) {
		return
	}
	t.beat(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel = nil; t.timer != nil {
		t.timer.Reset(t.interval)
	}
}

// setBeating reports false if the timer was stopped.
func (t *Heartbeat) setBeating(cancel context.CancelFunc, ended chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil {
		return false
	}
	t.cancel, t.beating = cancel, ended
	return true
}

// Stop ends the heartbeat: no call runs or begins after it returns. A nil Heartbeat is stopped.
func (t *Heartbeat) Stop() {
	if t == nil {
		return
	}
	t.mu.Lock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if t.cancel != nil {
		t.cancel() // makes the running call return
	}
	beating := t.beating
	t.mu.Unlock()
	if beating != nil {
		<-beating // wait until it has returned
	}
}
