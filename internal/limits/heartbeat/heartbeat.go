// Package heartbeat shows the caller of a request that the request is alive
// while it waits for a person: progress notifications that say nothing new.
// Most clients give a request up that has been silent for a minute.
//
// A [Sequence] decides which values go out on one progress token, a [Timer] when
// a heartbeat is due.
package heartbeat

import (
	"context"
	"math"
	"sync"
	"time"
)

const (
	// Delay is how long a call waits before its first heartbeat: clients that
	// answer by themselves are faster.
	Delay = 2 * time.Second
	// DefaultInterval is the time between two heartbeats. Clients and proxies
	// give up what has been silent for 30 or 60 seconds.
	DefaultInterval = 15 * time.Second
	// Message is what heartbeats say to the person who waits for the call.
	Message = "waiting for an answer"
)

// part is how much of the author's smallest step all heartbeats together take:
// one of so many parts. The next value that the author reports is then larger
// than any heartbeat.
const part = 1024

// A Sequence gives the values that go out on one progress token. They rise,
// whoever reports them. The zero value is ready. It is not safe for concurrent
// use: who sends holds a lock, for values must leave in their order.
type Sequence struct {
	sent   float64 // the last value that was sent
	author float64 // the last value of the author's, 0 before the first
	total  float64 // of the author's last report, 0: not known
	step   float64 // the smallest by which the author has advanced, at most 1; 0: it has not
	beats  int     // since the author's last report
	begun  bool    // something was sent
	told   bool    // the author has reported something
}

// Report takes a value of the author's and returns the one to send. It reports
// false for a value that the client has heard already, as when a handler runs
// again.
func (s *Sequence) Report(progress, total float64) (value float64, ok bool) {
	if s.told && progress <= s.author {
		return 0, false
	}
	if step := progress - s.author; step > 0 {
		s.step = min(step, s.smallestStep())
	}
	s.author, s.told, s.total, s.beats = progress, true, total, 0
	return s.advance(progress)
}

// Beat returns the next value of a heartbeat, and the total to send with it, 0
// for none. It reports false when no larger value exists.
func (s *Sequence) Beat() (value, total float64, ok bool) {
	s.beats++
	n := float64(s.beats)
	value, ok = s.advance(s.author + s.smallestStep()/part*n/(n+1))
	if total = s.total; value > total {
		total = 0 // more than all is confusing
	}
	return value, total, ok
}

func (s *Sequence) smallestStep() float64 {
	if s.step == 0 {
		return 1
	}
	return s.step
}

// advance returns value, or the next number above what was sent.
func (s *Sequence) advance(value float64) (float64, bool) {
	if s.begun && value <= s.sent {
		value = math.Nextafter(s.sent, math.Inf(1))
	}
	if math.IsInf(value, 0) {
		return 0, false
	}
	s.begun, s.sent = true, value
	return value, true
}

// A Timer calls a function while a call waits.
type Timer struct {
	interval time.Duration
	beat     func(context.Context)
	ctx      context.Context // of the wait

	mu      sync.Mutex
	timer   *time.Timer        // nil: stopped
	cancel  context.CancelFunc // of the call of beat that runs; nil: none
	beating chan struct{}      // closed when the last call of beat has ended; nil: there was none
}

// Start calls beat after [Delay], or after interval if that is shorter, and then
// every interval, until ctx ends or [Timer.Stop]. One call ends before the next
// begins. beat must watch its context, a child of ctx that Stop ends, and must
// not panic.
func Start(ctx context.Context, interval time.Duration, beat func(context.Context)) *Timer {
	t := &Timer{interval: interval, beat: beat, ctx: ctx}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(min(Delay, interval), t.tick)
	return t
}

func (t *Timer) tick() {
	// Made for each call, because most waits are over before the first.
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

// setBeating reports false when the timer was stopped.
func (t *Timer) setBeating(cancel context.CancelFunc, ended chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil {
		return false
	}
	t.cancel, t.beating = cancel, ended
	return true
}

// Stop ends the heartbeat. When it returns no call runs and none will. A nil
// Timer is stopped.
func (t *Timer) Stop() {
	if t == nil {
		return
	}
	t.mu.Lock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if t.cancel != nil {
		t.cancel() // the call that runs returns
	}
	beating := t.beating
	t.mu.Unlock()
	if beating != nil {
		<-beating // once it has
	}
}
