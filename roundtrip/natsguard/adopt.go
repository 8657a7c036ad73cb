package natsguard

import "time"

// maxUnsure is how many claims with an unknown outcome a guard remembers. They come about
// in an outage, one for each request that waited for its claim at the time.
const maxUnsure = 16_384

// unsureKey names a claim with an unknown outcome: those of one state differ in the
// answers.
func unsureKey(key string, print [32]byte) string { return key + string(print[:]) }

// beginClaim reports whether no other Claim for the key runs. So no two of this guard can
// take one stored claim for their own.
func (g *Guard) beginClaim(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.claiming[key]; ok {
		return false
	}
	g.claiming[key] = struct{}{}
	return true
}

func (g *Guard) endClaim(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.claiming, key)
}

// addUnsure remembers a claim that was written and neither acknowledged nor refused. Its
// random bytes tell it from all others: whoever finds exactly them in the bucket knows that
// no handler has run.
func (g *Guard) addUnsure(key, owner string, e entry, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsure.Put(unsureKey(key, e.print), owner, e, 0, until)
}

// takeUnsure returns what addUnsure remembered, and forgets it: one attempt at a time may
// adopt a claim.
func (g *Guard) takeUnsure(key string, print [32]byte) (e entry, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := g.unsure.Get(unsureKey(key, print))
	if found == nil {
		return entry{}, false
	}
	e = found.Value
	g.unsure.Remove(found)
	return e, true
}
