package elicitation

import (
	"github.com/rondo-mcp/rondo/internal/limits/quota"

	"github.com/rondo-mcp/rondo/protocol"
)

// slots count the questions that are pending. A full router refuses questions; it never
// drops pending ones.
type slots struct {
	questions *quota.Pool[protocol.Principal] // in all and by principal
	sessions  *quota.Pool[*Session]           // by session alone
}

func newSlots(o *Options) slots {
	limit := func(n int) int64 { return int64(max(n, -1)) }
	return slots{
		questions: quota.New(quota.Options[protocol.Principal]{
			Total: limit(o.MaxPending), Share: limit(o.MaxPerPrincipal),
		}),
		sessions: quota.New(quota.Options[*Session]{
			Total: -1, Share: limit(o.MaxPerPrincipal),
		}),
	}
}

// takeForCall counts one question of a call, or returns the name of the limit that is
// reached and counts nothing.
func (s *slots) takeForCall(c *Call) (limit string) {
	p := c.origin.Principal
	switch s.questions.Take(p, 1) {
	case quota.Total:
		return "global"
	case quota.Share:
		return "principal"
	}
	if s.sessions.Take(c.origin.Session, 1) != quota.None {
		s.questions.Give(p, 1)
		return "session"
	}
	return ""
}

func (s *slots) giveBackForCall(c *Call) {
	s.questions.Give(c.origin.Principal, 1)
	s.sessions.Give(c.origin.Session, 1)
}

func (s *slots) countPending() int { return int(s.questions.Used()) }

// takeSlot takes a slot for one question of a call, or refuses it.
func (r *Router) takeSlot(c *Call) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused := c.checkUsableLocked(); refused != nil {
		return refused
	}
	if limit := r.slots.takeForCall(c); limit != "" {
		const message = "Too many elicitations are pending"
		return retryLaterError(ReasonCapacity, message, limit)
	}
	return nil
}

// freeSlot gives back the slot of one question of a call.
func (r *Router) freeSlot(c *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freeSlotLocked(c)
}

// freeSlotLocked gives back the slot of one question of a call.
func (r *Router) freeSlotLocked(c *Call) {
	r.slots.giveBackForCall(c)
	if r.draining && r.slots.countPending() == 0 {
		r.signalIdleLocked()
	}
}
