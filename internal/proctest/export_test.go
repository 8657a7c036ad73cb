package proctest

import (
	"os/exec"
	"testing"
	"time"
)

// StartWithin is Start with a patience short enough to be waited out in a test.
func StartWithin(t testing.TB, cmd *exec.Cmd, limit time.Duration) *Process {
	return start(t, cmd, limit)
}
