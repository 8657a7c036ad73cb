package elicitation_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bustest"
)

func TestHub(t *testing.T) {
	bustest.RunBus(t, func(*testing.T) (a, b elicitation.Bus) {
		hub := elicitation.NewHub()
		return hub.Bus(), hub.Bus()
	})
}
