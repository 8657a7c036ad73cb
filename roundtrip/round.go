package roundtrip

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Round identifies a run of a handler.
type Round struct {
	Number int // 1: the original request, 2: its first retry, ...; 0: outside of a round

	run *run
}

// RoundOf returns the round of ctx, or the zero Round outside of a round. Middleware between funnel
// and handler runs in every round: rate limits, quotas and metrics of calls count Number 1, and
// audits group by [Round.Flow]. Middleware outside of the funnel runs before a state is verified.
//
// In older revisions a flow is one request, and a flow-style handler runs once, as Number 1.
func RoundOf(ctx context.Context) Round {
	if r := runFrom(ctx); r != nil {
		return Round{Number: r.number, run: r}
	}
	return Round{}
}

// Flow names the flow: 32 hexadecimal digits, the same in all rounds, on every replica, and in
// events ([event.Where]). Clients do not learn it. It is empty outside of a round.
func (r Round) Flow() string {
	if r.run == nil {
		return ""
	}
	r.run.mu.Lock()
	defer r.run.mu.Unlock()
	id := r.run.flowIDLocked()
	return hex.EncodeToString(id[:])
}

// Principal returns the caller, zero if anonymous or outside of a round.
func (r Round) Principal() protocol.Principal {
	if r.run == nil {
		return protocol.Principal{}
	}
	return r.run.call.Principal
}

// RefusalIn returns the refusal whose text is part of text, or nil, for hosts without the error.
func (r Round) RefusalIn(text string) error {
	if r.run == nil {
		return nil
	}
	r.run.mu.Lock()
	defer r.run.mu.Unlock()
	for _, a := range r.run.answers {
		if no := a.asRefusal(); no != nil && strings.Contains(text, no.Error()) {
			return no
		}
	}
	return nil
}
