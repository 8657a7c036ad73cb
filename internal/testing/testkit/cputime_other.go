//go:build !unix

package testkit

import "time"

// processTime returns the wall-clock time, the nearest available measure.
func processTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
