//go:build unix

package growthtest

import (
	"syscall"
	"time"
)

// cpuTime is the CPU time of this process so far. A busy machine does not add
// to it.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // internal error: the arguments are right
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
