package client

import (
	"github.com/rondo-mcp/rondo/internal/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
)

// checkURL decides whether a person may be asked to visit what a server sent
// (client/elicitation, "URL Mode", safe URL handling).
func (h *questionHandlers) checkURL(q *protocol.ElicitURL) error {
	u, err := urlrule.Parse(q.URL)
	if err != nil {
		return err
	}
	return h.opts.AllowURL(u)
}
