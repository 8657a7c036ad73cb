package roundtrip

import (
	"context"
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// A QuotaError says that a [Guard] or a [StateStore] has no room. It has stored
// nothing. The client gets [protocol.CodeBusy] and may send the request again
// after RetryAfter.
type QuotaError struct {
	// Resource is what has no room, for logs: "guard" or "store".
	Resource string
	// Limit is "principal" when the caller has used up its share, "server" when
	// all callers together have used up everything.
	Limit string
	// RetryAfter is when there may be room again, 0: in a second.
	RetryAfter time.Duration
}

// Error tells which bound was reached.
func (e *QuotaError) Error() string {
	if e.Limit == string(quota.Share) {
		return e.Resource + ": the principal has used up its share"
	}
	return e.Resource + ": full"
}

// defaultQuotaRetry is when to come back where a guard or store does not say.
const defaultQuotaRetry = time.Second

// reportUnserved reports why a guard or a store could not serve a request, and
// returns what the client learns: for want of room when to come back, otherwise
// an internal error.
func (p *exchange) reportUnserved(ctx context.Context, err error) *protocol.Error {
	full, ok := errors.AsType[*QuotaError](err)
	if !ok {
		return p.reportBug(ctx, err)
	}
	after := full.RetryAfter
	if after <= 0 {
		after = defaultQuotaRetry
	}
	p.observe(ctx, QuotaExceeded{p.where, full.Resource, full.Limit, after})
	whose, what := "", "send the request again"
	if full.Limit == string(quota.Share) {
		whose = " of this caller"
	}
	if p.claimID != "" && p.started {
		what = "start the call again" // the state that came with this request is spent
	}
	return quota.Refuse(quota.Limit(full.Limit), after, "too many unfinished calls%s; %s in %s",
		whose, what, after.Round(time.Second))
}
