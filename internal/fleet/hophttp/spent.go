package hophttp

import (
	"crypto/sha256"
	"sync"
	"time"
)

const maxSpent = 1 << 17 // of one generation, some 8 MiB

// spentHops remembers the served hops of valid tickets, against replays. The zero value is empty.
type spentHops struct {
	mu          sync.Mutex
	now, before map[[sha256.Size]byte]struct{} // two generations
	since       time.Duration                  // when now began, in the time of tickets
	floor       time.Duration                  // older tickets are invalid
}

// takeHop returns VerdictTaken for a new hop, "" for a served one, and VerdictStale if its ticket
// ended early, due to many hops. issued and age are the owner's ages at the ticket's issue and now.
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
