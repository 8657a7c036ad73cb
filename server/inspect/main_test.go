package inspect_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

var noError = testkit.NoError

func TestMain(m *testing.M) { testkit.Main(m) }
