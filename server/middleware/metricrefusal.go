package middleware

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// refusalReasons lists why a transport can refuse a request.
func refusalReasons() []roundtrip.RefusalReason {
	return []roundtrip.RefusalReason{
		roundtrip.RefusedHost, roundtrip.RefusedOrigin, roundtrip.RefusedUnauthenticated, roundtrip.RefusedForbidden,
		roundtrip.RefusedHTTPMethod, roundtrip.RefusedMediaType, roundtrip.RefusedAccept, roundtrip.RefusedTooLarge,
		roundtrip.RefusedTooSlow, roundtrip.RefusedMalformed, roundtrip.RefusedVersion, roundtrip.RefusedHeaders,
		roundtrip.RefusedNoSession, roundtrip.RefusedSessionGone, roundtrip.RefusedBatch, roundtrip.RefusedEventID,
		roundtrip.RefusedDuplicateID, roundtrip.RefusedRequests, roundtrip.RefusedSessions, roundtrip.RefusedClosing,
	}
}

// refusalReason is the reason as logs and labels have it.
func refusalReason(reason roundtrip.RefusalReason) string {
	if slices.Contains(refusalReasons(), reason) {
		return string(reason)
	}
	return otherLabel
}

// newHTTPRefusals starts the counters at zero that rise first when something is
// wrong with the configuration. The others appear when they are needed: most
// pairs of a status and a reason never do.
func newHTTPRefusals(r *registration) *prometheus.CounterVec {
	vec := r.newCounters("http_refusals_total", "HTTP requests refused before any middleware.", "status", "reason")
	for reason, status := range map[roundtrip.RefusalReason]string{
		roundtrip.RefusedHost: "403", roundtrip.RefusedOrigin: "403", roundtrip.RefusedForbidden: "403",
		roundtrip.RefusedUnauthenticated: "401", roundtrip.RefusedSessionGone: "404",
		roundtrip.RefusedRequests: "429", roundtrip.RefusedSessions: "503",
	} {
		vec.WithLabelValues(status, string(reason))
	}
	return vec
}

// countRefused counts a request that no middleware has seen.
func (c *eventMetrics) countRefused(e roundtrip.RequestRefused) {
	if e.Status == 0 {
		c.lineRefusals.countValue(string(e.Reason))
		return
	}
	c.httpRefusals.WithLabelValues(refusalStatus(e.Status), refusalReason(e.Reason)).Inc()
}

// refusalStatus keeps the label to the statuses that a transport refuses with.
func refusalStatus(status int) string {
	switch status {
	case 200, 400, 401, 403, 404, 405, 406, 408, 413, 415, 429, 503:
		return strconv.Itoa(status)
	}
	return otherLabel
}
