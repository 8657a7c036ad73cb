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

// The defaults of the limits on calls that wait for a person.
const (
	// defaultMaxWaiting is how many calls may wait in all: with 21 KB each at most,
	// 86 MB beside their arguments.
	defaultMaxWaiting = 4096
	// defaultMaxWaitingPerPrincipal is how many of them may be one principal's.
	// A person answers one at a time; a gateway is one principal for many people.
	defaultMaxWaitingPerPrincipal = 256
	// minMaxWaitingPerSession is how many may be of one session at least, behind which there is
	// one person, as a rule. Where a principal may have more, it is a gateway.
	minMaxWaitingPerSession = 64
	// maxWaitingBytes is how many bytes of their requests may be kept together: 64 of the
	// largest messages that a server reads by default.
	maxWaitingBytes = 256 << 20
)

// waitRetryAfter is when a client may try again that was refused for want of
// room: people need seconds at least.
const waitRetryAfter = 5 * time.Second

// waitQuotas bounds the calls of a funnel that wait for a person.
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

// limitSession names the bound of one session, beside those of package quota.
const limitSession quota.Limit = "session"

// takeRoom makes room for a call that is about to wait, or returns the limit that it would exceed.
func (q *waitQuotas) takeRoom(c *Call) quota.Limit {
	if c.Authenticates {
		q.calls.ReserveForAuthenticated()
		q.bytes.ReserveForAuthenticated()
	}
	if q.sessions.Take(c.Session, 1) != quota.None { // first: it panics where a host gives it a slice
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

// A waitRefusedError means that too many calls wait already. Nothing was asked.
type waitRefusedError struct{ wire *protocol.Error }

func (e *waitRefusedError) Error() string { return e.wire.Error() }
func (e *waitRefusedError) Unwrap() error { return e.wire }

func (p *questioner) refuseForRoom(ctx context.Context, limit quota.Limit) error {
	p.observe(ctx, event.QuotaExceeded{Where: p.where, Resource: "waiting",
		Limit: string(limit), RetryAfter: waitRetryAfter})
	return &waitRefusedError{quota.Refuse(limit, waitRetryAfter,
		"too many calls wait for a person; try again in %s", waitRetryAfter)}
}

// callWait counts the open waits of a call that waits for people. A call of a legacy revision has
// one from its beginning, any other from its first wait on. Its room is kept from the first
// question to the end of the call, so a call that asks again is never refused after an answer.
type callWait struct {
	mu     sync.Mutex
	quotas *waitQuotas // of which room was taken, nil: none was
	call   *Call
	open   int       // waits under way
	since  time.Time // when the first of them began
	closed bool
	beats  *waiting.Heartbeat

	// Of a legacy revision. Only the goroutine that serves the call changes them.
	until      time.Time   // when the flow ends; zero: the context of a question decides
	localState []byte      // claims that the last run has left for the next
	requested  event.Event // that the questions of the last run go out, nil if nobody observes
	visits     visitTable
}

// closeWait ends the waiting of the call.
func (e *exchange) closeWait() {
	if e.wait != nil {
		e.wait.closeWait()
	}
}

// beginWait counts one more wait; the first of a call takes room. first reports that the call
// did not wait before. It reports ok = false if the call has ended.
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
			// Other questions may be open when that of ctx is answered and ctx ends.
			c.beats = waiting.StartHeartbeat(context.WithoutCancel(ctx), waiting.HeartbeatInterval,
				p.sendHeartbeat)
		}
	}
	return quota.None, first, true
}

// endWait ends what beginWait began. It returns how long the call has waited if no wait of it
// is open any more.
func (c *callWait) endWait() (waited time.Duration, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.open == 0 {
		c.stopBeatsLocked()
		return time.Since(c.since), true
	}
	return 0, false
}

// closeWait gives the room back at the end of the call. A goroutine that its handler left
// behind may still wait for a moment.
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

// sendHeartbeat sends one heartbeat. It runs on a goroutine of its own, where a panic would
// end the process.
func (p *questioner) sendHeartbeat(ctx context.Context) {
	defer func() {
		if v := recover(); v != nil {
			p.observe(ctx, event.HandlerPanicked{Where: p.where, Value: v, Stack: debug.Stack()})
		}
	}()
	p.call.Heartbeat(ctx)
}

// An openWait is the context of questions that a call waits for. Cancelling it withdraws them.
type openWait struct {
	waiting.Context
	watched    waiting.Wait
	questioner *questioner
	wait       *callWait
	own        bool // the questions are of no call that runs
}

// beginWaiting marks the call as waiting for a person until endWaiting is called on what it
// returns. It fails with a waitRefusedError if too many calls wait, and when the time of the flow
// is over. All questions that a client is asked while a call runs pass here.
func (p *questioner) beginWaiting(ctx context.Context) (*openWait, error) {
	if p.questionTimeout() <= 0 {
		return nil, errHumanTimeout
	}
	w := &openWait{questioner: p, wait: p.wait, own: p.wait == nil}
	if w.own {
		w.wait = &callWait{}
	}
	limit, first, ok := w.wait.beginWait(ctx, p)
	if !ok { // asked by a goroutine that a handler left behind
		w.wait, w.own = &callWait{}, true
		limit, first, _ = w.wait.beginWait(ctx, p)
	}
	if limit != quota.None {
		return nil, p.refuseForRoom(ctx, limit)
	}
	w.Context.Init(ctx)
	begun := false
	defer func() {
		if !begun { // code of the author's that watches has panicked
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

// endWaiting ends the wait. It notifies those who watch last, since they are the author's code
// and may panic.
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

// awaitResume returns when the call, whose questions are answered, may run again. It returns err,
// or the cause of ctx if that ends before. Heartbeats go on until endWaiting.
//
//go:noinline
func (w *openWait) awaitResume(ctx context.Context, err error) error {
	w.watched.End()
	if cause := w.watched.Resume(ctx); err == nil {
		return cause
	}
	return err
}
