//go:build !race

package testkit

// Race reports whether the race detector is on. If so, memory and time are not measured.
const Race = false
