package natsguard_test

import (
	"os"
	"testing"

	"github.com/rondo-mcp/rondo/internal/leaktest"
)

// TestMain lets the test binary be started again as a NATS server.
func TestMain(m *testing.M) {
	if dir := os.Getenv(storeVar); dir != "" {
		serveNATS(dir)
	}
	leaktest.Main(m)
}
