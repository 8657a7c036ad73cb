//go:build !unix

package testkit

import "time"

// processTime is the clock, the nearest available.
func processTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
