package servertest

import (
	"os/exec"
	"testing"
	"time"
)

// StartWithin starts a process with a short patience.
func StartWithin(t testing.TB, cmd *exec.Cmd, limit time.Duration) *Process {
	return startProcess(t, cmd, limit)
}
