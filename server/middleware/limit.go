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

const (
	// defaultMaxCalls requests fit into a small machine, even with bodies of a few megabytes.
	defaultMaxCalls = 256
	// defaultMaxCallsPerPrincipal exceeds the parallel calls of an agent.
	defaultMaxCallsPerPrincipal = 32
	// listensPerCall is high because subscriptions are cheap, and each client has one or two.
	listensPerCall = 4
	callsPerListen = 2           // for several windows and devices of a user
	retryAfter     = time.Second // most legs are shorter
)

// Limit returns a middleware that bounds concurrent requests, in total and for each authenticated
// principal. Anonymous callers count as one: together they may use the total, or three quarters
// once a caller has authenticated. The local caller has only the total limit. Subscriptions count
// separately: four times as many may be open, half as many for one principal. opts may be nil.
//
// A request over a limit is refused at once with [protocol.CodeBusy], whose data holds retryAfterMs
// and the limit, "server" or "principal"; it never waits. A refused leg may be retried unchanged:
// its answers and state are not used up. Requests refused for other reasons take no slot.
//
// While a call waits for a user, see [roundtrip.WatchWaiting], its slot is free for others;
// [roundtrip.Options].Limits.Waiting bounds such calls. After the answer it takes a slot again, or
// waits for one of its principal's, within its own context and timeout; until then new requests of
// this principal are refused, but not those of others.
//
// Servers that share the value share its limits. Place it above [Timeout], below authentication.
func Limit(opts *Options) server.Middleware {
	o := opts.orDefault()
	total := cmp.Or(o.Calls, defaultMaxCalls)
	share := cmp.Or(o.CallsPerPrincipal, defaultMaxCallsPerPrincipal)
	calls := newSlots(total, share)
	// This rounds up: a share of 1 is one subscription. A negative number stays negative.
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

// A callSlot is the context of a request, whose slot is free while it waits for a user.
type callSlot struct {
	context.Context
	watch waiting.LazyWatch
	pool  *slots
	who   protocol.Principal

	mu       sync.Mutex
	held     bool
	waiting  bool          // for a person
	ended    bool          // the request was answered; a goroutine of it may still wait
	resuming chan struct{} // has a token while a goroutine awaits a slot; nil: never waited
}

func (s *callSlot) Value(key any) any {
	if key == waiting.Key() {
		return s.watch.Ensure(s.Context, s)
	}
	return s.Context.Value(key)
}

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
