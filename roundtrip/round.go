package roundtrip

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Round says which run of a handler this is.
type Round struct {
	// Number is 1 for the original request, 2 for its first retry, and so on; 0 outside of a round.
	Number int

	run *run
}

// RoundOf returns the round that ctx belongs to, the zero Round outside of one. It is for
// middleware between the funnel and the handler, which runs in every round: a rate limit, a quota
// or a metric of calls counts those with Number 1, and an audit groups its entries by [Round.Flow].
// Middleware outside of the funnel runs before the state of a retry is verified.
//
// On a connection of an older revision the rounds of a flow are within one request. A handler of
// flow style runs once there, with Number 1, however much it asks.
func RoundOf(ctx context.Context) Round {
	if r := runFrom(ctx); r != nil {
		return Round{Number: r.number, run: r}
	}
	return Round{}
}

// Flow names the flow: 32 hexadecimal digits, the same in all its rounds, on every replica, and
// in events ([event.Where]). Clients do not learn it. It is empty outside of a round.
func (r Round) Flow() string {
	if r.run == nil {
		return ""
	}
	r.run.mu.Lock()
	defer r.run.mu.Unlock()
	id := r.run.flowIDLocked()
	return hex.EncodeToString(id[:])
}

// Principal returns who the call is of, the zero value for anonymous callers and outside of a
// round.
func (r Round) Principal() protocol.Principal {
	if r.run == nil {
		return protocol.Principal{}
	}
	return r.run.call.Principal
}

// RefusalIn returns the refusal whose text is in text, as the error of calls in flow style, nil for
// none: for hosts that have a text alone of a handler's error.
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
