package event

import "context"

// An Observer receives the events of a funnel. They contain no readable answers, states or secrets,
// except in Err of [HandlerFailed] and Value of [HandlerPanicked]. Observe runs on the request's
// goroutine and context; it must return soon. Calls may overlap. New event types may come.
type Observer interface {
	Observe(ctx context.Context, event Event)
}

// An Event is one of this package's event types. [EntryOf] and its neighbours give its log entry.
type Event interface {
	head() head
	addFields(f Fields)
	countMetrics(c counter)
	whereOf() (where Where, ok bool)
}

// Discard is an observer that ignores every event.
var Discard Observer = discard{}

type discard struct{}

func (discard) Observe(context.Context, Event) {}

// Observers returns an observer that passes each event to those of list in order, except nil and
// [Discard]. If no others are given, it returns [Discard].
func Observers(list ...Observer) Observer {
	var all observers
	for _, o := range list {
		if o != nil && o != Discard {
			all = append(all, o)
		}
	}
	switch len(all) {
	case 0:
		return Discard
	case 1:
		return all[0]
	}
	return all
}

type observers []Observer

func (list observers) Observe(ctx context.Context, e Event) {
	for _, o := range list {
		o.Observe(ctx, e)
	}
}
