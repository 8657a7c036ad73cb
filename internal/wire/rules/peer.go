package rules

import (
	"net/netip"
	"slices"
	"strings"
)

// HeaderOutcome marks the 404 for a request whose session ended while it ran. A 404 without it
// means that the request did not run.
const HeaderOutcome = "Rondo-Outcome"

// RefusePeer returns the reason why an HTTP request may come from another machine, or "". Either
// the peer has no loopback address, or a proxy has added a forwarding header of any value. A
// browser under DNS rebinding is local: check the Host header as well.
func RefusePeer(remoteAddr string, header map[string][]string) string {
	peer, err := netip.ParseAddrPort(remoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return "the peer is not on this machine"
	}
	for name := range header {
		if strings.HasPrefix(name, "X-Forwarded-") || slices.Contains([]string{"Forwarded", "Via",
			"X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip"}, name) {
			return "a proxy forwarded the request"
		}
	}
	return ""
}
