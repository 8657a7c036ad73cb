package elicitation

import (
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

type slots struct {
	questions *quota.Pool[protocol.Principal] // in total and by principal
	sessions  *quota.Pool[*Session]           // by session
}

func newSlots(o *Options) slots {
	total, share := int64(max(o.MaxPending, -1)), int64(max(o.MaxPerPrincipal, -1))
	return slots{
		questions: quota.New(quota.Options[protocol.Principal]{Total: total, Share: share}),
		sessions:  quota.New(quota.Options[*Session]{Total: -1, Share: share}),
	}
}

func (r *Router) takeSlot(c *Call) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused := c.checkUsableLocked(); refused != nil {
		return refused
	}
	limit, p := "", c.origin.Principal
	switch r.slots.questions.Take(p, 1) {
	case quota.Total:
		limit = "global"
	case quota.Share:
		limit = "principal"
	default:
		if r.slots.sessions.Take(c.origin.Session, 1) == quota.None {
			return nil
		}
		r.slots.questions.Give(p, 1)
		limit = "session"
	}
	return retryLaterError(ReasonCapacity, "Too many elicitations are pending", limit)
}

func (r *Router) freeSlotLocked(c *Call) {
	r.slots.questions.Give(c.origin.Principal, 1)
	r.slots.sessions.Give(c.origin.Session, 1)
	if r.draining && r.Pending() == 0 {
		r.signalIdleLocked()
	}
}

// Pending returns the number of pending questions.
func (r *Router) Pending() int { return int(r.slots.questions.Used()) }
