package server

import (
	"context"

	"github.com/rondo-mcp/rondo/internal/inspection"
)

// Inspect tells the page of package server/inspect what runs and how full the limits are. For any
// other context it does nothing.
func (s *Server) Inspect(ctx context.Context) {
	report := inspection.From(ctx)
	if report == nil {
		return
	}
	report.Running += s.requests.Len()
	used, bound := s.hub.listening.Usage()
	report.AddLimit("subscriptions", "server.Options.MaxSubscriptions", used, bound)
	s.funnel.Inspect(ctx)
}
