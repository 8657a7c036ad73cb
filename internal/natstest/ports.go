package natstest

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
)

// The ports of servers lie below those that outgoing connections take, so that
// a server that was stopped can be started on its port again.
const (
	firstPort = 10_000
	portCount = 20_000
)

// A process gives each port to one server, in an order of its own: one that
// another test has stopped for a while keeps its port, and two processes seldom
// want the same.
var (
	portOrder  = rand.Perm(portCount)
	portsGiven atomic.Uint64
)

func nextPort() int {
	n := portsGiven.Add(1) - 1
	return firstPort + portOrder[n%portCount]
}

// onFreePorts calls start, which takes new ports each time, until none of them
// is somebody else's. Whether one is free only who listens on it can tell.
func onFreePorts(start func() error) (err error) {
	const attempts = 100
	for range attempts {
		if err = start(); !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return err
}
