//go:build !race

package testkit

// Race reports whether the race detector is on: memory and time are not measured then.
const Race = false
