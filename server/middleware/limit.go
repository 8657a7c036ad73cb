package middleware

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// The defaults of [Options].
const (
	// defaultMaxCalls is how many requests may run at once. With bodies of a few megabytes they fit
	// into the memory of a small machine; legs that wait for people do not run.
	defaultMaxCalls = 256
	// defaultMaxCallsPerPrincipal is of them: more than an agent with parallel tool calls needs.
	defaultMaxCallsPerPrincipal = 32
	// listensPerCall is how many subscriptions may be open for each request that may run. They
	// are cheap, and each connected client has one or two.
	listensPerCall = 4
	// callsPerListen leaves room for the windows and devices of one person.
	callsPerListen = 2
	// retryAfter is when a refused client may try again. Most legs are over in less.
	retryAfter = time.Second
)

// Limit returns a middleware that bounds how many requests run at once, in all
// and for each authenticated principal. Nobody can tell anonymous callers apart,
// so they are one account: together they may use the first number, or all but a
// quarter of it once somebody has authenticated. The local caller is bound by the
// first number only. Subscriptions do not count as calls: four times as many may be open at once,
// and half as many for one principal. opts may be nil.
//
// A request beyond a limit is refused at once with [protocol.CodeBusy], whose data tells
// retryAfterMs and whether the "server" or the "principal" limit is reached; nothing ever waits. A
// refused leg may be sent again as it is, its answers and state are not used up. Requests that are
// refused anyway take no slot.
//
// A call that waits for a person, see [roundtrip.WatchWaiting], does not run: its
// slot is free for others, and limits of its own hold for it, see
// [roundtrip.Options].Limits.Waiting. When it is answered it takes a slot again before it goes on.
// Where its principal has none left it waits for one, under its own context and time limit, and
// new requests of this principal are refused until then; those of others are not.
//
// The limits are those of the returned value: servers that share it share them.
// Place it above [Timeout] and below what sets the principal.
func Limit(opts *Options) server.Middleware {
	o := opts.orDefault()
	total := cmp.Or(o.Calls, defaultMaxCalls)
	share := cmp.Or(o.CallsPerPrincipal, defaultMaxCallsPerPrincipal)
	calls := newSlots(total, share)
	// Rounded up: a share of 1 is one subscription. What is negative stays so.
	listens := newSlots(total*listensPerCall, share-share/callsPerListen)
	return func(next server.Handler) server.Handler {
		return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
			if request.Refusal() != nil {
				return next(ctx, request)
			}
			pool := calls
			if request.Message.Method == protocol.MethodListen {
				pool = listens
			}
			if request.Authenticates() {
				pool.ReserveForAuthenticated()
			}
			if limit := pool.Take(request.Principal, 1); limit != quota.None {
				return nil, quota.Refuse(limit, retryAfter,
					"too many requests at once; try again in %s", retryAfter)
			}
			s := &callSlot{Context: ctx, pool: pool, who: request.Principal, held: true}
			defer s.releaseSlot()
			return next(s, request)
		}
	}
}

type slots = quota.Pool[protocol.Principal]

func newSlots(total, share int) *slots {
	return quota.New(quota.Options[protocol.Principal]{
		Total: int64(total), Share: int64(share), Local: protocol.LocalPrincipal(),
	})
}

// A callSlot is the context of a request. It holds a slot except while it waits for a person.
type callSlot struct {
	context.Context
	watch waiting.LazyWatch
	pool  *slots
	who   protocol.Principal

	mu       sync.Mutex
	held     bool
	waiting  bool          // for a person
	ended    bool          // the request has been answered; a goroutine of its may still wait
	resuming chan struct{} // has a token while a goroutine awaits a slot; nil: never waited
}

// Value implements context.Context.
func (s *callSlot) Value(key any) any {
	if key == waiting.Key() {
		return s.watch.Ensure(s.Context, s)
	}
	return s.Context.Value(key)
}

// SetWaiting implements [waiting.Listener].
func (s *callSlot) SetWaiting(waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = waiting
	if waiting && s.held {
		s.pool.Give(s.who, 1)
		s.held = false
	}
	if waiting && s.resuming == nil {
		s.resuming = make(chan struct{}, 1)
	}
}

// AwaitResume implements [waiting.Resumer].
func (s *callSlot) AwaitResume(ctx context.Context) error {
	select {
	case s.resuming <- struct{}{}:
		defer func() { <-s.resuming }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	needsSlot := !s.held && !s.ended && !s.waiting
	s.mu.Unlock()
	if !needsSlot {
		return nil
	}
	if err := s.pool.Await(ctx, s.who, 1); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held = !s.ended && !s.waiting; !s.held {
		s.pool.Give(s.who, 1)
	}
	return nil
}

func (s *callSlot) releaseSlot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held {
		s.pool.Give(s.who, 1)
	}
	s.held, s.ended = false, true
}
