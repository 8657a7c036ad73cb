package natsguard_test

import (
	"os"
	"testing"

	"github.com/rondo-mcp/rondo/internal/leaktest"
)

// TestMain lets the test binary be started again as a NATS server or a till.
func TestMain(m *testing.M) {
	if dir := os.Getenv(storeVar); dir != "" {
		serveNATS(dir)
	}
	if url := os.Getenv(tillVar); url != "" {
		serveTill(url, os.Getenv(chargesVar))
	}
	leaktest.Main(m)
}
