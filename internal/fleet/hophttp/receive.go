package hophttp

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strings"
	"sync"
	"time"
)

// TicketLife is how long an owner accepts its ticket and remembers served hops.
const TicketLife = 30 * time.Second

// readTicket returns when a ticket was issued, and whether it is this owner's and not expired.
func (f *Forwarder) readTicket(ticket string) (issued time.Duration, ok bool) {
	text, ok := strings.CutPrefix(ticket, f.self.Start)
	if !ok || len(text) != 8 {
		return 0, false
	}
	issued = time.Duration(binary.BigEndian.Uint64([]byte(text)))
	age := time.Since(f.began) - issued
	return issued, 0 <= age && age < TicketLife
}

// AnswerChallenge answers another replica's challenge, or returns false for other requests. Call it
// before authentication: only holders of the key can seal a challenge, and proofs reveal nothing.
func (f *Forwarder) AnswerChallenge(w http.ResponseWriter, r *http.Request) bool {
	tokens := r.Header[headerChallenge]
	delete(r.Header, headerChallenge)
	if len(tokens) != 1 {
		return false
	}
	challenge, ok := f.codec.Open(KindChallenge, tokens[0])
	if !ok {
		return false // a client made it up
	}
	if (Owner{Name: challenge[0], Start: challenge[1]}) != f.self {
		w.WriteHeader(http.StatusMisdirectedRequest)
		return true
	}
	draining := ""
	if f.draining.Load() {
		draining = "1"
	}
	// Only this owner reads its ticket: its start number and the time since.
	ticket := binary.BigEndian.AppendUint64([]byte(f.self.Start), uint64(time.Since(f.began)))
	w.Header()[headerProof] = []string{
		f.codec.Seal(KindProof, challenge[2], string(ticket), draining)}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// AnswerChallenges returns a handler that answers challenges and leaves other requests to next. Put
// it around handlers that refuse requests without credentials. If next refuses a forwarded
// request's credentials, the client gets the refusal. f may be nil.
func (f *Forwarder) AnswerChallenges(next http.Handler) http.Handler {
	if f == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.AnswerChallenge(w, r) {
			return
		}
		if tokens := r.Header[headerHop]; len(tokens) == 1 {
			if _, verdict := f.openHop(r, tokens[0]); verdict == VerdictTaken {
				w.Header().Set(headerReply, f.codec.Seal(KindReply, digest(tokens[0]), VerdictHost))
			}
		}
		next.ServeHTTP(w, r)
	})
}

// A Received is a request forwarded by another replica.
type Received struct{ body string }

// Receive removes the replicas' headers from r and returns the forwarded request, nil if r is a
// client's. If refused, r is answered and must not be served. RemoteAddr of r becomes the client's.
func (f *Forwarder) Receive(w http.ResponseWriter, r *http.Request) (p *Received, refused bool) {
	tokens := r.Header[headerHop]
	for _, key := range [...]string{headerHop, headerChallenge, headerProof, headerReply} {
		delete(r.Header, key)
	}
	if len(tokens) != 1 {
		return nil, false
	}
	hop, verdict := f.openHop(r, tokens[0])
	if hop == nil {
		return nil, false // a client made it up: serve the request as a client's
	}
	if verdict == VerdictTaken {
		issued, _ := f.readTicket(hop[0])
		verdict = f.spent.takeHop(tokens[0], issued, time.Since(f.began))
		if verdict == "" && r.Method == http.MethodGet {
			verdict = VerdictStale // net/http repeats a GET by itself: the sender makes another hop
		}
	}
	delete(w.Header(), headerReply)
	if verdict != "" { // else the sender, without a reply, treats the outcome as unknown
		w.Header().Set(headerReply, f.codec.Seal(KindReply, digest(tokens[0]), verdict))
	}
	if verdict != VerdictTaken {
		w.WriteHeader(http.StatusMisdirectedRequest)
		return nil, true
	}
	r.RemoteAddr = hop[4]
	return &Received{body: hop[2]}, false
}

// openHop returns a token's fields and a verdict on its request, or nil if a client made it up.
func (f *Forwarder) openHop(r *http.Request, token string) (hop []string, verdict string) {
	hop, ok := f.codec.Open(KindHop, token)
	if !ok {
		return nil, ""
	}
	ticket, session, method := hop[0], hop[1], hop[3]
	switch ids := r.Header[HeaderSession]; {
	case len(ids) != 1 || digest(ids[0]) != session || r.Method != method:
		return hop, VerdictMisdirected
	}
	if _, ok := f.readTicket(ticket); !ok {
		return hop, VerdictStale
	}
	return hop, VerdictTaken
}

// IsBody reports whether the other replica sent this body, which is read after Receive.
func (p *Received) IsBody(body []byte) bool { return digest(body) == p.body }

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
