package mcpgo

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/replicahttp"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// maxForwardedBody bounds the body of a request for another replica, in bytes.
const maxForwardedBody = 4 << 20

// Handler returns a handler around that of mcp-go ([server.NewStreamableHTTPServer]):
//
//   - Errors of the router that a handler of the gateway returns reach the client with their
//     code and data.
//   - With [Options].Replicas requests for a session reach the replica that has it.
//
// The host's authentication goes around it, and [Downstream.AnswerChallenges] around that.
func (d *Downstream) Handler(next http.Handler) http.Handler {
	refusing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		ctx, refusals := d.withRefusals(r.Context())
		next.ServeHTTP(newRefusalWriter(w, refusals), r.WithContext(ctx))
	})
	if d.forwarder == nil {
		return refusing
	}
	return d.forwarder.Wrap(refusing, replicahttp.WrapOptions{MaxBody: maxForwardedBody})
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
