package roundtrip

import (
	"context"

	"github.com/rondo-mcp/rondo/internal/requestid"
)

// An Observer receives the events of a [Funnel], for logs and metrics. Events
// carry no answers, no state and no secrets, but for the Err of [HandlerFailed]
// and the Value of [HandlerPanicked], which are whatever the handler made of
// what it knows. Observe is called on the goroutine of the request, with a
// context that holds the request's values; it must return soon. Calls may
// overlap. Expect event types beyond those of today.
type Observer interface {
	Observe(ctx context.Context, event Event)
}

// An Event is one of the event types of this package.
type Event interface{ event() }

// RequestID returns the id of the request that ctx belongs to, as events and
// log entries have it, for authors who log as well. It is random, names one leg
// of a flow and means nothing to the client. It is empty where nothing observes
// or logs.
func RequestID(ctx context.Context) string { return requestid.From(ctx) }

// Observers returns an observer that passes each event to the given ones in order.
// Nil entries are passed over.
func Observers(list ...Observer) Observer {
	var all observers
	for _, o := range list {
		if o != nil {
			all = append(all, o)
		}
	}
	return all
}

type observers []Observer

func (list observers) Observe(ctx context.Context, event Event) {
	for _, o := range list {
		o.Observe(ctx, event)
	}
}
