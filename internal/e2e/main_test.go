package e2e_test

import (
	"os"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// TestMain lets the test binary be started again as one of several servers.
func TestMain(m *testing.M) {
	if os.Getenv(replicaVar) != "" {
		os.Exit(runReplica(os.Stdin, os.Stdout))
	}
	if os.Getenv(taskVar) != "" {
		os.Exit(runTaskServer())
	}
	testkit.Main(m)
}
