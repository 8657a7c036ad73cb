package replicahttp

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

// HearNothingFor makes the silence of all owners longer than it is.
func (f *Forwarder) HearNothingFor(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.peers.All() {
		p.heard = p.heard.Add(-d)
	}
}
