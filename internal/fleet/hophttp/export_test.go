package hophttp

import (
	"context"
	"net"
	"time"
)

// DialWith has the forwarder reach owners by a function of the test.
func (f *Forwarder) DialWith(dial func(ctx context.Context, network, address string) (net.Conn,
	error)) {
	f.transport.DialContext = dial
}

// IsConnectDead reports whether an owner to which there is no connection cannot be alive.
func IsConnectDead(err error) bool { return IsDead(newConnectFailure(err)) }

// IsChallengedDead is the same for an owner that has not answered a challenge.
func IsChallengedDead(ctx context.Context, err error) bool {
	return newChallengeFailure(ctx, false, err).dead
}

// ErrOther is errOther.
var ErrOther = errOther

// SpentHops and MaxSpent are those of a forwarder.
type SpentHops = spentHops

const MaxSpent = maxSpent

// TakeHop takes a hop.
func TakeHop(s *SpentHops, token string, issued, age time.Duration) string {
	return s.takeHop(token, issued, age)
}
