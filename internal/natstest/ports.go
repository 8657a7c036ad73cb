package natstest

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
)

// The ports of servers lie below those of outgoing connections, so that no
// connection takes the port of a stopped server before it is started again.
const (
	firstPort = 10_000
	portCount = 20_000
)

// A process gives each port to one server, so that a server that is stopped for a
// while keeps its port. The order is random, so that two processes seldom choose
// the same port.
var (
	portOrder  = rand.Perm(portCount)
	portsGiven atomic.Uint64
)

func nextPort() int {
	n := portsGiven.Add(1) - 1
	return firstPort + portOrder[n%portCount]
}

// onFreePorts calls start, which must take new ports each time, until all of them
// are free. Only listening on a port shows whether it is.
func onFreePorts(start func() error) (err error) {
	const attempts = 100
	for range attempts {
		if err = start(); !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return err
}
