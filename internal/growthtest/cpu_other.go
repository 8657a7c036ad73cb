//go:build !unix

package growthtest

import "time"

// cpuTime is the clock, the nearest there is.
func cpuTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
