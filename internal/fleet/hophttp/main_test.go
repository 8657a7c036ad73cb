package hophttp_test

import (
	"os"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(ownerVariable) != "" {
		serveAsOwner()
		return
	}
	testkit.Main(m)
}
