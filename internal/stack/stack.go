// Package stack makes room on the stacks of goroutines that are started for one call.
package stack

import "runtime"

// room is what a call through the layers of a server or router takes as a rule, in bytes, with what an encoder of logs or
// JSON takes below it.
const room = 5 << 10

// Grow makes room on the stack of a goroutine that has just been started. There is nothing on it yet: to grow step by step on
// the way would move all that is on it by then, several times, for a tenth of what a call costs.
//
//go:noinline
func Grow() {
	var space [room]byte
	runtime.KeepAlive(&space)
}
