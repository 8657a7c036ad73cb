package hophttp

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxSpent bounds the hops that are remembered in one generation: some 8 MiB.
const maxSpent = 1 << 17

// spentHops remembers the hops that were served while their tickets are good, so that whoever reads
// one on its way cannot have it served twice. The zero value is ready.
type spentHops struct {
	mu          sync.Mutex
	now, before map[[sha256.Size]byte]struct{} // two generations
	since       time.Duration                  // when now began, in the time of tickets
	floor       time.Duration                  // tickets of before are not good any more
}

// takeHop returns VerdictTaken for a hop that comes for the first time, and empty for one that was
// served. age is the time of its owner, and issued that of its ticket. Where more hops come than
// are remembered, tickets end earlier: the sender gets another one.
func (s *spentHops) takeHop(token string, issued, age time.Duration) (verdict string) {
	key := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	if full := len(s.now) >= maxSpent; full || s.now == nil || age-s.since >= TicketLife {
		if full {
			s.floor = s.since
		}
		s.now, s.before, s.since = map[[sha256.Size]byte]struct{}{}, s.now, age
	}
	_, spent := s.now[key]
	_, earlier := s.before[key]
	switch {
	case spent || earlier:
		return ""
	case issued < s.floor:
		return VerdictStale
	}
	s.now[key] = struct{}{}
	return VerdictTaken
}
