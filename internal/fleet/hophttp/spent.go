package hophttp

import (
	"crypto/sha256"
	"sync"
	"time"
)

const maxSpent = 1 << 17 // of one generation, some 8 MiB

// spentHops remembers served hops while their tickets are valid, against replays. Zero is ready.
type spentHops struct {
	mu          sync.Mutex
	now, before map[[sha256.Size]byte]struct{} // two generations
	since       time.Duration                  // when now began, in the time of tickets
	floor       time.Duration                  // older tickets are invalid
}

// takeHop returns VerdictTaken for a new hop, and "" for a served one. age is the owner's time, and
// issued its ticket's. If there are too many hops, tickets end earlier: the sender gets a new one.
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
