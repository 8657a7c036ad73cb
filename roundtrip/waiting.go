package roundtrip

import (
	"cmp"
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const (
	defaultMaxWaiting = 4096 // 21 KB each at most: 86 MB beside their arguments
	// defaultMaxWaitingPerPrincipal allows for gateways, which are one principal for many people.
	defaultMaxWaitingPerPrincipal = 256
	// minMaxWaitingPerSession is the least limit of one session, usually one person.
	minMaxWaitingPerSession = 64
	// maxWaitingBytes bounds the bytes of waiting requests: 64 of the largest messages by default.
	maxWaitingBytes = 256 << 20
)

const waitRetryAfter = 5 * time.Second // people need seconds at least

type waitQuotas struct {
	calls    *quota.Pool[protocol.Principal]
	bytes    *quota.Pool[protocol.Principal]
	sessions *quota.Pool[any]
}

func newWaitQuotas(o *Options) waitQuotas {
	perPrincipal := cmp.Or(int64(o.Limits.WaitingPerPrincipal), defaultMaxWaitingPerPrincipal)
	perSession := max(minMaxWaitingPerSession, perPrincipal/4)
	if perPrincipal < 0 {
		perSession = -1
	}
	return waitQuotas{
		calls: quota.New(quota.Options[protocol.Principal]{Local: protocol.LocalPrincipal(),
			Total: cmp.Or(int64(o.Limits.Waiting), defaultMaxWaiting), Share: perPrincipal}),
		bytes: quota.New(quota.Options[protocol.Principal]{Local: protocol.LocalPrincipal(),
			Total: maxWaitingBytes, Share: quota.ShareOf(maxWaitingBytes)}),
		sessions: quota.New(quota.Options[any]{Total: -1, Share: perSession}),
	}
}

const limitSession quota.Limit = "session" // beside those of package quota

// takeRoom reserves room for a call about to wait, or returns the exceeded limit.
func (q *waitQuotas) takeRoom(c *Call) quota.Limit {
	if c.Authenticates {
		q.calls.ReserveForAuthenticated()
		q.bytes.ReserveForAuthenticated()
	}
	if q.sessions.Take(c.Session, 1) != quota.None { // first, because it panics on a slice
		return limitSession
	}
	if limit := q.calls.Take(c.Principal, 1); limit != quota.None {
		q.sessions.Give(c.Session, 1)
		return limit
	}
	if limit := q.bytes.Take(c.Principal, c.waitingBytes()); limit != quota.None {
		q.calls.Give(c.Principal, 1)
		q.sessions.Give(c.Session, 1)
		return limit
	}
	return quota.None
}

func (c *Call) waitingBytes() int64 { return int64(len(c.Arguments)) + int64(c.KeptBytes) }

func (q *waitQuotas) giveRoom(c *Call) {
	q.sessions.Give(c.Session, 1)
	q.bytes.Give(c.Principal, c.waitingBytes())
	q.calls.Give(c.Principal, 1)
}

// A waitRefusedError means that too many calls wait; nothing was asked.
type waitRefusedError struct{ wire *protocol.Error }

func (e *waitRefusedError) Error() string { return e.wire.Error() }
func (e *waitRefusedError) Unwrap() error { return e.wire }

func (p *questioner) refuseForRoom(ctx context.Context, limit quota.Limit) error {
	p.observe(ctx, event.QuotaExceeded{Where: p.where, Resource: "waiting",
		Limit: string(limit), RetryAfter: waitRetryAfter})
	return &waitRefusedError{quota.Refuse(limit, waitRetryAfter,
		"too many calls wait for a person; try again in %s", waitRetryAfter)}
}

// callWait counts a call's open waits. Legacy calls have one from the start, others from their
// first wait. Its room is kept until the call ends, so an answered call is never refused later.
type callWait struct {
	mu     sync.Mutex
	quotas *waitQuotas // whose room is taken, or nil
	call   *Call
	open   int       // waits in flight
	since  time.Time // the first of them
	closed bool
	beats  *waiting.Heartbeat

	// Only in legacy revisions, and only for the goroutine that serves the call.
	until      time.Time   // end of the flow; zero: the question's context decides
	localState []byte      // claims for the next run
	requested  event.Event // the last run's questions, nil without observer
	visits     visitTable
}

func (e *exchange) closeWait() {
	if e.wait != nil {
		e.wait.closeWait()
	}
}

// beginWait counts a wait. first means that the call begins to wait; ok is false if it has ended.
func (c *callWait) beginWait(ctx context.Context,
	p *questioner) (limit quota.Limit, first, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return quota.None, false, false
	}
	if c.quotas == nil {
		if limit := p.funnel.waits.takeRoom(p.call); limit != quota.None {
			return limit, false, true
		}
		c.quotas, c.call = &p.funnel.waits, p.call
	}
	if c.open++; c.open == 1 {
		first, c.since = true, time.Now()
		if p.call.Heartbeat != nil {
			// ctx may end with its question while others are open.
			c.beats = waiting.StartHeartbeat(context.WithoutCancel(ctx), waiting.HeartbeatInterval,
				p.sendHeartbeat)
		}
	}
	return quota.None, first, true
}

// endWait ends a wait. It returns how long the call has waited if this was the last open wait.
func (c *callWait) endWait() (waited time.Duration, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.open == 0 {
		c.stopBeatsLocked()
		return time.Since(c.since), true
	}
	return 0, false
}

// closeWait frees the call's reserved room at its end, even if an abandoned goroutine still waits.
func (c *callWait) closeWait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.stopBeatsLocked()
	if c.quotas != nil {
		c.quotas.giveRoom(c.call)
		c.quotas = nil
	}
}

func (c *callWait) stopBeatsLocked() {
	c.beats.Stop()
	c.beats = nil
}

// sendHeartbeat runs on its own goroutine, where a panic would end the process.
func (p *questioner) sendHeartbeat(ctx context.Context) {
	defer func() {
		if v := recover(); v != nil {
			p.observe(ctx, event.HandlerPanicked{Where: p.where, Value: v, Stack: debug.Stack()})
		}
	}()
	p.call.Heartbeat(ctx)
}

// An openWait is the context of open questions. Cancelling it withdraws them.
type openWait struct {
	waiting.Context
	watched    waiting.Wait
	questioner *questioner
	wait       *callWait
	own        bool // no running call has these questions
}

// beginWaiting, for all pushed questions, marks the call as waiting until endWaiting. It fails with
// a waitRefusedError if too many calls wait, or if the flow's time is over.
func (p *questioner) beginWaiting(ctx context.Context) (*openWait, error) {
	if p.questionTimeout() <= 0 {
		return nil, errHumanTimeout
	}
	w := &openWait{questioner: p, wait: p.wait, own: p.wait == nil}
	if w.own {
		w.wait = &callWait{}
	}
	limit, first, ok := w.wait.beginWait(ctx, p)
	if !ok { // from a goroutine left behind by a handler
		w.wait, w.own = &callWait{}, true
		limit, first, _ = w.wait.beginWait(ctx, p)
	}
	if limit != quota.None {
		return nil, p.refuseForRoom(ctx, limit)
	}
	w.Context.Init(ctx)
	begun := false
	defer func() {
		if !begun { // the author's watcher panicked
			w.endWaiting()
		}
	}()
	if first {
		p.observe(ctx, event.WaitBegan{Where: p.where})
	}
	w.watched.Begin(ctx, &w.Context)
	begun = true
	return w, nil
}

// endWaiting ends the wait. Watchers are the author's code and may panic, so they come last.
func (w *openWait) endWaiting() {
	waited, last := w.wait.endWait()
	if w.own {
		w.wait.closeWait()
	}
	w.Cancel(nil)
	defer w.watched.End()
	if last {
		w.questioner.observe(&w.Context, event.WaitEnded{Where: w.questioner.where, Waited: waited})
	}
}

// awaitResume waits until the call may run again. It returns err, or the cause if ctx ends before.
//
//go:noinline
func (w *openWait) awaitResume(ctx context.Context, err error) error {
	w.watched.End()
	if cause := w.watched.Resume(ctx); err == nil {
		return cause
	}
	return err
}
