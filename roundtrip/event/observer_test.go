package event_test

import (
	"context"
	"testing"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

type counter int

func (c *counter) Observe(context.Context, event.Event) { *c++ }

func TestObserversPassOnToEach(t *testing.T) {
	var a, b counter
	event.Observers(&a, nil, &b, event.Discard).Observe(t.Context(), event.EphemeralKey{KeyID: "x"})
	if a != 1 || b != 1 {
		t.Errorf("told %d and %d, want 1 each", a, b)
	}
	if event.Observers(nil, event.Discard) != event.Discard || event.Observers(nil, &a) != &a {
		t.Error("observers of none, or of one, are made anew")
	}
}
