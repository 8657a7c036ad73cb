package roundtrip

import (
	"context"
	"encoding/hex"
)

// A Round says which run of a handler this is.
type Round struct {
	// Flow names the flow: 32 hexadecimal digits, the same in all its rounds, on every
	// replica, and in events ([event.Where]). Clients do not learn it.
	Flow string
	// Number is 1 for the original request, 2 for its first retry, and so on.
	Number int
}

// RoundOf returns the round that ctx belongs to; ok is false outside of one. It is for
// middleware between the funnel and the handler, which runs in every round: a rate limit,
// a quota or a metric of calls counts those with Number 1, and an audit groups its entries by
// Flow. Middleware outside of the funnel runs before the state of a retry is verified, and
// cannot know the round.
//
// On a connection of an older revision the rounds of a flow are within one request. A
// handler of flow style runs once there, with Number 1, however much it asks.
func RoundOf(ctx context.Context) (round Round, ok bool) {
	r := runFrom(ctx)
	if r == nil {
		return Round{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.flowIDLocked()
	return Round{Flow: hex.EncodeToString(id[:]), Number: r.number}, true
}
