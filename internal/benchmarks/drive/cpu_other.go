//go:build !unix

package drive

import "time"

// CPU is the time by the clock: what processes use is not known here. It lets
// the package compile; what is measured with it is not comparable.
func CPU() time.Duration { return time.Duration(time.Now().UnixNano()) }
