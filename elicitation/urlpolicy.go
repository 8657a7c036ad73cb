package elicitation

import (
	"context"
	"errors"
	"net/netip"
	"net/url"

	"github.com/rondo-mcp/rondo/protocol"
)

// A URLVisit is what a URL policy is asked about.
type URLVisit struct {
	URL      string
	Upstream UpstreamKey
	Call     *Call
}

// DefaultURLPolicy allows https, and http to the client's own machine. URLs that
// carry a user name or have no host are refused: they show people one site and
// lead to another.
func DefaultURLPolicy(_ context.Context, visit URLVisit) error {
	u, err := url.Parse(visit.URL)
	switch {
	case err != nil:
		return errors.New("the URL is malformed") // err quotes it
	case u.Host == "" || u.Hostname() == "":
		return errors.New("the URL has no host")
	case u.User != nil:
		return errors.New("the URL has a user name")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return errors.New("the URL is neither https nor http on loopback")
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

func (r *Router) checkURL(ctx context.Context, c *Call, url string) *Error {
	err := r.opts.URLPolicy(ctx, URLVisit{URL: url, Upstream: c.upstream, Call: c})
	if err == nil {
		return nil
	}
	wire := protocol.Errorf(protocol.CodeInvalidParams, "Invalid elicitation request: the URL is not allowed")
	return &Error{Reason: ReasonURLPolicy, Wire: wire, Err: err}
}
