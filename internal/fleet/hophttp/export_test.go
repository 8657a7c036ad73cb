package hophttp

import (
	"context"
	"net"
)

// DialWith has the forwarder reach owners by a function of the test.
func (f *Forwarder) DialWith(dial func(ctx context.Context, network, address string) (net.Conn,
	error)) {
	f.transport.DialContext = dial
}

// IsSurelyGone is isSurelyGone.
var IsSurelyGone = isSurelyGone

// ErrOther is errOther.
var ErrOther = errOther
