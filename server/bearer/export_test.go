package bearer

import "time"

// SetLeeway replaces the leeway, before the first request.
func (g *ResourceServer) SetLeeway(to time.Duration) { g.leeway = to }
