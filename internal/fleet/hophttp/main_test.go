package hophttp_test

import (
	"os"
	"testing"

	"github.com/rondo-mcp/rondo/internal/leaktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(ownerVariable) != "" {
		serveAsOwner()
		return
	}
	leaktest.Main(m)
}
