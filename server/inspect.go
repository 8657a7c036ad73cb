package server

import (
	"context"
	"time"

	"github.com/rondo-mcp/rondo/internal/inspection"
)

// Inspect reports running requests and limits to the page of server/inspect, which made ctx.
func (s *Server) Inspect(ctx context.Context) {
	report := inspection.From(ctx)
	if report == nil {
		return
	}
	report.Running += s.requests.Len()
	report.Describe("Server", s.opts.Info.Name+" "+s.opts.Info.Version)
	report.Describe("Up for", inspection.Took(time.Since(s.started)))
	used, bound := s.hub.listening.Usage()
	report.AddLimit("subscriptions", "server.Options.MaxSubscriptions", used, bound)
	s.funnel.Inspect(ctx)
}
