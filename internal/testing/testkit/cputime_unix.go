//go:build unix

package testkit

import (
	"syscall"
	"time"
)

// processTime is the CPU time of this process so far, in user and in kernel mode. A busy machine
// adds nothing to it. It allocates nothing.
func processTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // internal error: the arguments are right
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
