package hophttp

import (
	"encoding/binary"
	"net/http"
	"strings"
	"time"
)

// TicketLife is how long an owner accepts its ticket, and so how long it remembers the hops that it
// has served.
const TicketLife = 30 * time.Second

// newTicket returns a ticket: the start number of this owner and the time since then. No other
// replica reads it.
func (f *Forwarder) newTicket() string {
	age := uint64(time.Since(f.began))
	return string(binary.BigEndian.AppendUint64([]byte(f.self.Start), age))
}

// readTicket returns when a ticket was issued. It reports false for one that is not this owner's,
// or older than TicketLife.
func (f *Forwarder) readTicket(ticket string) (issued time.Duration, ok bool) {
	text, ok := strings.CutPrefix(ticket, f.self.Start)
	if !ok || len(text) != 8 {
		return 0, false
	}
	issued = time.Duration(binary.BigEndian.Uint64([]byte(text)))
	age := time.Since(f.began) - issued
	return issued, 0 <= age && age < TicketLife
}

// AnswerChallenge answers a challenge of another replica. It reports false when r is none.
// It is called before the caller is authenticated: whoever can seal a challenge has the
// key, and a proof tells nothing to others.
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
	w.Header()[headerProof] = []string{
		f.codec.Seal(KindProof, challenge[2], f.newTicket(), draining)}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// AnswerChallenges returns a handler that answers challenges of other replicas and leaves all
// else to next. It goes around what would refuse a request without credentials. Where next refuses
// the credentials of a request that was passed on, the refusal reaches the client. f may be nil.
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
				w.Header()[headerReply] = []string{f.sealReply(tokens[0], VerdictHost)}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// A Received is a request that another replica has passed on.
type Received struct{ body string }

// Receive removes what replicas say to each other from r, and returns what is known of a
// request that a replica passed on, nil: a client sent it. refused means that it must not be
// served: the response to that has been sent. RemoteAddr of r becomes that of the client.
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
		return nil, false // a client made it up: the request is served as one of a client
	}
	if verdict == VerdictTaken {
		issued, _ := f.readTicket(hop[0])
		verdict = f.spent.takeHop(tokens[0], issued, time.Since(f.began))
		if verdict == "" && r.Method == http.MethodGet {
			verdict = VerdictStale // net/http repeats a GET by itself: the sender makes another hop
		}
	}
	if verdict == "" { // without a reply the sender takes the outcome for unknown, which it is
		delete(w.Header(), headerReply)
		w.WriteHeader(http.StatusMisdirectedRequest)
		return nil, true
	}
	w.Header()[headerReply] = []string{f.sealReply(tokens[0], verdict)}
	if verdict != VerdictTaken {
		w.WriteHeader(http.StatusMisdirectedRequest)
		return nil, true
	}
	r.RemoteAddr = hop[4]
	return &Received{body: hop[2]}, false
}

// openHop returns what a token says of the request that it came with, and whether the request may
// be served; nil: a client made it up.
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

// sealReply proves that the response to a hop is this replica's.
func (f *Forwarder) sealReply(hop, verdict string) string {
	return f.codec.Seal(KindReply, digest(hop), verdict)
}

// IsBody reports whether body is the one that the other replica has sent. Receive cannot tell,
// since the body is read after it.
func (p *Received) IsBody(body []byte) bool { return digest(body) == p.body }
