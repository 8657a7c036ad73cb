package hophttp

import (
	"context"
	"net"
	"time"
)

func (f *Forwarder) DialWith(dial func(ctx context.Context, network, address string) (net.Conn,
	error)) {
	f.transport.DialContext = dial
}

func IsConnectDead(err error) bool { return IsDead(newConnectFailure(err)) }

func IsChallengedDead(ctx context.Context, err error) bool {
	return newChallengeFailure(ctx, false, err).dead
}

var ErrOther = errOther

type SpentHops = spentHops

const MaxSpent = maxSpent

func TakeHop(s *SpentHops, token string, issued, age time.Duration) string {
	return s.takeHop(token, issued, age)
}
