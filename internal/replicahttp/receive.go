package replicahttp

import (
	"crypto/sha256"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/replica"
)

// A Received is a request that another replica has passed on.
type Received struct{ body [sha256.Size]byte }

// Receive removes what replicas say to each other from r, and returns what is known of a
// request that a replica passed on, nil: a client sent it. refused says that it must not be
// served: the response to that has been sent. RemoteAddr of r becomes that of the client.
func (f *Forwarder) Receive(w http.ResponseWriter, r *http.Request) (p *Received, refused bool) {
	tokens := r.Header[headerHop]
	for _, key := range [...]string{headerHop, headerChallenge, headerProof, headerReply} {
		delete(r.Header, key)
	}
	if len(tokens) != 1 {
		return nil, false
	}
	hop, ok := f.codec.OpenHop(tokens[0])
	if !ok {
		return nil, false // a client made it up: the request is served as one of a client
	}
	verdict := replica.Taken
	sessions := r.Header[HeaderSession]
	switch {
	case len(sessions) != 1 || sha256.Sum256([]byte(sessions[0])) != hop.Session ||
		r.Method != hop.Method:
		verdict = replica.Misdirected
	case !f.channels.Admit(hop.Channel, hop.Sequence):
		verdict = replica.StaleChannel
	}
	token, err := f.codec.SealReply(replica.Reply{Channel: hop.Channel, Sequence: hop.Sequence,
		Verdict: verdict})
	if err == nil {
		w.Header()[headerReply] = []string{token}
	}
	if err != nil || verdict != replica.Taken {
		w.WriteHeader(http.StatusMisdirectedRequest)
		return nil, true
	}
	r.RemoteAddr = hop.RemoteAddr
	return &Received{hop.Body}, false
}

// IsBody reports whether body is the one that the other replica has sent. Receive cannot tell,
// since the body is read after it.
func (p *Received) IsBody(body []byte) bool { return sha256.Sum256(body) == p.body }
