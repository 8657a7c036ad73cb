package middleware

import (
	"context"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// The defaults of [LimitOptions].
const (
	// DefaultMaxCalls is how many requests may run at once. With bodies of a
	// few megabytes they fit into the memory of a small machine; legs that
	// wait for people do not run.
	DefaultMaxCalls = 256
	// DefaultMaxCallsPerPrincipal is how many of them may be one principal's:
	// more than an agent with parallel tool calls needs, an eighth of all.
	DefaultMaxCallsPerPrincipal = 32
	// DefaultMaxListens is how many subscriptions may be open at once. They
	// are cheap, and each connected client has one or two.
	DefaultMaxListens = 1024
	// DefaultMaxListensPerPrincipal leaves room for the windows and devices of
	// one person.
	DefaultMaxListensPerPrincipal = 16
	// DefaultRetryAfter is when a refused client may try again. Most legs are
	// over in less.
	DefaultRetryAfter = time.Second
)

// LimitOptions configure [Limit]. Numbers: 0 is the default, negative is no
// limit.
type LimitOptions struct {
	// Calls is how many requests may run at once, 0: [DefaultMaxCalls].
	Calls int
	// CallsPerPrincipal is how many of them may be one authenticated
	// principal's, 0: [DefaultMaxCallsPerPrincipal].
	CallsPerPrincipal int
	// Listens is how many subscriptions/listen may be open at once, 0:
	// [DefaultMaxListens]. They do not count as calls.
	Listens int
	// ListensPerPrincipal is how many of them may be one authenticated
	// principal's, 0: [DefaultMaxListensPerPrincipal].
	ListensPerPrincipal int
	// RetryAfter is what refused clients are told, 0 or less:
	// [DefaultRetryAfter].
	RetryAfter time.Duration
}

// Limit returns a middleware that bounds how many requests run at once, in all
// and for each authenticated principal. Anonymous and local callers are bound
// by the first number only: who they are is not known, so one would use up the
// share of another. opts may be nil.
//
// A request beyond a limit is refused at once with [protocol.CodeBusy], whose
// data tells retryAfterMs and whether the "server" or the "principal" limit is
// reached; nothing ever waits. A refused leg may be sent again as it is, its
// answers and state are not used up. Requests that are refused anyway take no
// slot.
//
// The limits are those of the returned value: servers that share it share them.
// Place it above [Timeout] and below what sets the principal.
func Limit(opts *LimitOptions) server.Middleware {
	var o LimitOptions
	if opts != nil {
		o = *opts
	}
	if o.RetryAfter <= 0 {
		o.RetryAfter = DefaultRetryAfter
	}
	calls := newSlots(orDefault(o.Calls, DefaultMaxCalls), orDefault(o.CallsPerPrincipal, DefaultMaxCallsPerPrincipal))
	listens := newSlots(orDefault(o.Listens, DefaultMaxListens), orDefault(o.ListensPerPrincipal, DefaultMaxListensPerPrincipal))
	return func(next server.Handler) server.Handler {
		return func(ctx context.Context, in *server.Incoming) (protocol.Result, error) {
			if in.Refusal() != nil {
				return next(ctx, in)
			}
			s := calls
			if in.Request.Method == protocol.MethodListen {
				s = listens
			}
			who := in.Principal
			if full := s.take(who); full != "" {
				return nil, busy(full, o.RetryAfter)
			}
			defer s.give(who)
			return next(ctx, in)
		}
	}
}

// orDefault leaves negative numbers alone: they turn a limit off.
func orDefault(n, byDefault int) int {
	if n == 0 {
		return byDefault
	}
	return n
}

func busy(full string, retryAfter time.Duration) *protocol.Error {
	e := protocol.Errorf(protocol.CodeBusy, "too many requests at once; try again in %s", retryAfter)
	return e.WithData(struct {
		RetryAfterMs int64  `json:"retryAfterMs"`
		Limit        string `json:"limit"`
	}{max(1, retryAfter.Milliseconds()), full})
}

// slots counts requests that run.
type slots struct {
	max, maxEach int // negative: no limit

	mu    sync.Mutex
	taken int
	each  map[roundtrip.Principal]int // of authenticated principals with a slot
}

func newSlots(limit, limitEach int) *slots {
	return &slots{max: limit, maxEach: limitEach, each: map[roundtrip.Principal]int{}}
}

// take takes a slot for who. When there is none it returns which limit is
// reached. The principal's comes first: it is the one that the caller can do
// something about.
func (s *slots) take(who roundtrip.Principal) (full string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.maxEach >= 0 && s.each[who] >= s.maxEach && authenticated(who):
		return "principal"
	case s.max >= 0 && s.taken >= s.max:
		return "server"
	}
	s.taken++
	if authenticated(who) {
		s.each[who]++
	}
	return ""
}

// give returns a slot that who has taken.
func (s *slots) give(who roundtrip.Principal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if !authenticated(who) {
		return
	}
	if s.each[who]--; s.each[who] == 0 {
		delete(s.each, who)
	}
}

func authenticated(who roundtrip.Principal) bool {
	return !who.Anonymous() && who != roundtrip.Local()
}
