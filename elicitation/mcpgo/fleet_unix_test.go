//go:build unix

package mcpgo_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
)

// Three processes; answers arrive at another one than asked.
func TestFleet(t *testing.T) { gatewaytest.AcceptFleet(t) }
