package elicitation

import (
	"context"

	"github.com/rondo-mcp/rondo/internal/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
)

// A URLVisit is what a URL policy is asked about.
type URLVisit struct {
	URL      string
	Upstream UpstreamKey
	Call     *Call
}

// DefaultURLPolicy allows https, and http to the client's own machine. URLs that
// carry a user name, have no host, are longer than 8 KiB or have characters that
// people read differently from programs are refused.
func DefaultURLPolicy(_ context.Context, visit URLVisit) error {
	_, err := urlrule.Check(visit.URL)
	return err
}

// checkURL holds a URL against the rule that no policy can lift, then against
// the policy of the options.
func (r *Router) checkURL(ctx context.Context, c *Call, url string) *Error {
	_, err := urlrule.Parse(url)
	if err == nil {
		err = r.opts.URLPolicy(ctx, URLVisit{URL: url, Upstream: c.upstream, Call: c})
	}
	if err == nil {
		return nil
	}
	wire := protocol.Errorf(protocol.CodeInvalidParams, "Invalid elicitation request: the URL is not allowed")
	return &Error{Reason: ReasonURLPolicy, Wire: wire, Err: err}
}
