package mcpgo_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var noError = testkit.NoError
