package gosdk

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/rondo-mcp/rondo/internal/replicahttp"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// Handler returns a handler around that of the SDK ([mcp.NewStreamableHTTPHandler]):
//
//   - A client that ends its session with DELETE while it is asked frees its questions at
//     once, and the upstream gets [elicitation.MessageNoSession]. The SDK alone would wait
//     for its handlers, and so for the answer.
//   - With [Options].Replicas requests for a session reach the replica that has it.
//
// The host's authentication goes around it, and [Downstream.AnswerChallenges] around that.
func (d *Downstream) Handler(next http.Handler) http.Handler {
	ending := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			d.detachDeleted(r)
		}
		next.ServeHTTP(w, r)
	})
	if d.forwarder == nil {
		return ending
	}
	return d.forwarder.Wrap(ending, replicahttp.WrapOptions{MaxBody: maxForwardedBody})
}

// maxForwardedBody bounds the body of a request for another replica, in bytes. It is that of
// the SDK's handler.
const maxForwardedBody = 4 << 20

// detachDeleted detaches the session that r ends. Like the SDK it refuses a caller other
// than the one who opened the session, if that one was authenticated.
func (d *Downstream) detachDeleted(r *http.Request) {
	id, user := r.Header.Get(replicahttp.HeaderSession), ""
	if id == "" {
		return
	}
	if token := auth.TokenInfoFromContext(r.Context()); token != nil {
		user = token.UserID
	}
	d.mu.Lock()
	var found *attachedSession
	for _, session := range d.sessions {
		if session.id == id && (session.user == "" || session.user == user) {
			found = session
		}
	}
	d.mu.Unlock()
	if found != nil {
		found.detach()
	}
}

// AnswerChallenges returns a handler that answers the challenges by which other replicas
// make sure of this one, and leaves all else to next. It goes around the handler that
// authenticates, which would refuse them.
func (d *Downstream) AnswerChallenges(next http.Handler) http.Handler {
	if d.forwarder == nil {
		return next
	}
	return d.forwarder.AnswerChallenges(next)
}

// newForwarder returns the forwarder of the replicas, nil where nothing is passed on.
func newForwarder(r *serverhttp.Replicas) (*replicahttp.Forwarder, error) {
	if r == nil {
		return nil, nil
	}
	return replicahttp.NewFromConfig(&replicahttp.Config{
		Name: r.Name, Keys: r.Keys, Locate: r.Locate, TLS: r.TLS,
	})
}
