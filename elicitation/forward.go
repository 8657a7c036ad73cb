package elicitation

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// replyPatience is how long a client waits until another replica has its reply. It is
	// less than the two seconds that hosts promise: proxies need time, too.
	replyPatience = time.Second
	// forwardStopTime is how long Shutdown waits for functions of the host whose context has
	// ended.
	forwardStopTime = time.Second

	// maxForwards is how many replies may be on their way in the background, and
	// maxForwardsPerPrincipal how many of one principal: four times the questions that a
	// principal may have by default.
	maxForwards             = 1024
	maxForwardsPerPrincipal = 64
	// maxForwardBytes and maxForwardBytesPerPrincipal bound what is kept of them, in bytes:
	// two of the largest bodies that the adapters pass on.
	maxForwardBytes             = 64 << 20
	maxForwardBytesPerPrincipal = 8 << 20
)

// replyForwards are the replies that are on their way to other replicas.
type replyForwards struct {
	count, bytes *quota.Pool[protocol.Principal]
	running      sync.WaitGroup     // of those that are kept
	stopped      context.Context    // ends when Shutdown waits no longer
	stop         context.CancelFunc // ends stopped
}

func newReplyForwards() *replyForwards {
	local := protocol.LocalPrincipal()
	f := &replyForwards{
		count: quota.New(quota.Options[protocol.Principal]{
			Total: maxForwards, Share: maxForwardsPerPrincipal, Local: local}),
		bytes: quota.New(quota.Options[protocol.Principal]{
			Total: maxForwardBytes, Share: maxForwardBytesPerPrincipal, Local: local}),
	}
	f.stopped, f.stop = context.WithCancel(context.Background())
	return f
}

// ForwardReply has send bring a reply to the replica whose question it answers, where a gateway
// has several. It is for transports that pass the requests of a session on to the replica that has
// it; the adapters call it. send tries until it has succeeded, knows that it cannot, or its
// context ends; the context has the values of ctx.
//
// No client waits for a replica that is stopped or cut off. Where send returns within a second,
// ended is true and err is what it returned. Otherwise ended is false. A nil err means that the
// client gets 202, and that send goes on in the background: for [Options].MaxTimeout at most, since
// no question lasts longer. Else err is an [*Error] that is [ReasonCapacity] or [ReasonShutdown],
// the client gets 503, and the context of send has ended. Capacity is 64 replies and 8 MiB for each
// principal, and 1,024 replies and 64 MiB in all; size is the length of this one in bytes.
//
// A reply of the background that send does not bring is reported as [EventReplyLost], and counted.
// [Router.Shutdown] waits for those that are on their way.
func (r *Router) ForwardReply(
	ctx context.Context, from protocol.Principal, size int, send func(ctx context.Context) error,
) (ended bool, err error) {
	refused := r.beginForward(from, int64(size))
	limit := r.opts.MaxTimeout
	if refused != nil {
		limit = replyPatience
	}
	began := time.Now()
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	unwatch := context.AfterFunc(r.forwards.stopped, cancel)
	sent, answered := make(chan error), make(chan struct{})
	go func() {
		err := recoverToError(func() error { return send(sending) })
		reason := r.reasonOfLoss(sending)
		unwatch()
		cancel()
		select {
		case sent <- err:
		case <-answered:
			if err != nil && refused == nil {
				r.reportLostReply(from, reason, err, time.Since(began))
			}
		}
		if refused == nil {
			r.endForward(from, int64(size))
		}
	}()
	patience := time.NewTimer(replyPatience)
	defer patience.Stop()
	select {
	case err := <-sent:
		outOfTime := err != nil && errors.Is(sending.Err(), context.DeadlineExceeded)
		if refused == nil || !outOfTime {
			return true, err
		}
	case <-patience.C:
	}
	close(answered)
	if refused != nil {
		return false, r.recordRejection(ctx, refused, AuditEvent{Principal: from}, nil)
	}
	return false, nil
}

// beginForward takes room for one reply, or says why it is not kept in the background.
func (r *Router) beginForward(from protocol.Principal, size int64) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return shutdownError()
	}
	f := r.forwards
	limit := f.count.Take(from, 1)
	if limit == quota.None {
		if limit = f.bytes.Take(from, size); limit == quota.None {
			f.running.Add(1)
			return nil
		}
		f.count.Give(from, 1)
	}
	return retryLaterError(ReasonCapacity, "Too many replies wait for other replicas",
		string(limit))
}

func (r *Router) endForward(from protocol.Principal, size int64) {
	r.forwards.count.Give(from, 1)
	r.forwards.bytes.Give(from, size)
	r.forwards.running.Done()
}

// reasonOfLoss says why a reply whose context is sending would be lost now.
func (r *Router) reasonOfLoss(sending context.Context) Reason {
	switch {
	case r.forwards.stopped.Err() != nil:
		return ReasonShutdown
	case errors.Is(sending.Err(), context.DeadlineExceeded):
		return ReasonTimeout
	}
	return ReasonDelivery
}

// reportLostReply reports a reply that its client takes for delivered and that is lost.
func (r *Router) reportLostReply(
	from protocol.Principal, reason Reason, err error, took time.Duration,
) {
	r.metrics.lost(reason).Add(1)
	if r.recordsEvents() {
		r.emitEvent(context.Background(), &AuditEvent{
			Kind: EventReplyLost, Time: time.Now(), Principal: from, Reason: reason,
			Err: escapeForLog(redact.HideURLSecrets(err.Error())), Duration: took,
		})
	}
}

// awaitForwards waits until no reply is on its way. When ctx ends first it ends them all, and
// returns the cause of ctx.
func (r *Router) awaitForwards(ctx context.Context) error {
	if r.forwards.count.Used() == 0 {
		return nil
	}
	idle := make(chan struct{})
	go func() {
		r.forwards.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	r.forwards.stop()
	limit := time.NewTimer(forwardStopTime)
	defer limit.Stop()
	select {
	case <-idle:
	case <-limit.C:
	}
	return context.Cause(ctx)
}
