package rules

import (
	"net/netip"
	"slices"
	"strings"
)

// HeaderOutcome is in the response 404 to a request whose session ended while it ran: without it
// such a response means that the request has not run.
const HeaderOutcome = "Rondo-Outcome"

// RefusePeer returns why an HTTP request may come from another machine, empty if it does not: its
// peer has no loopback address, or a proxy has passed it on, whatever the proxy's header says. The
// browser of a page that has rebound its name is on this machine: compare the header Host as well.
func RefusePeer(remoteAddr string, header map[string][]string) string {
	peer, err := netip.ParseAddrPort(remoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return "the peer is not of this machine"
	}
	for name := range header {
		if strings.HasPrefix(name, "X-Forwarded-") || slices.Contains([]string{"Forwarded", "Via",
			"X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip"}, name) {
			return "a proxy has passed the request on"
		}
	}
	return ""
}
