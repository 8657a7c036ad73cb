//go:build unix

package drive

import (
	"syscall"
	"time"
)

// CPU is the CPU time of this process so far. Unlike the clock it does not
// count what the machine gave to others, and it counts the garbage collector.
func CPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // internal error: the arguments are right
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
