package bearer

import "time"

// SetLeeway replaces the leeway. It must be called before the first request.
func (g *ResourceServer) SetLeeway(to time.Duration) { g.leeway = to }
