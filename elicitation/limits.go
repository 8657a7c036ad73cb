package elicitation

import (
	"github.com/rondo-mcp/rondo/internal/limits/quota"

	"github.com/rondo-mcp/rondo/protocol"
)

// slots count pending questions. A full router refuses questions and drops none.
type slots struct {
	questions *quota.Pool[protocol.Principal] // in all and by principal
	sessions  *quota.Pool[*Session]           // by session alone
}

func newSlots(o *Options) slots {
	total, share := int64(max(o.MaxPending, -1)), int64(max(o.MaxPerPrincipal, -1))
	return slots{
		questions: quota.New(quota.Options[protocol.Principal]{Total: total, Share: share}),
		sessions:  quota.New(quota.Options[*Session]{Total: -1, Share: share}),
	}
}

// takeSlot takes a slot for one question of a call, or refuses it.
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

// freeSlotLocked gives back the slot of one question of a call.
func (r *Router) freeSlotLocked(c *Call) {
	r.slots.questions.Give(c.origin.Principal, 1)
	r.slots.sessions.Give(c.origin.Session, 1)
	if r.draining && r.Pending() == 0 {
		r.signalIdleLocked()
	}
}

// Pending is how many questions are pending.
func (r *Router) Pending() int { return int(r.slots.questions.Used()) }
