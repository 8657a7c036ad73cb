package gosdk

import (
	"context"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
)

// Handler returns a handler around that of the SDK ([mcp.NewStreamableHTTPHandler]):
//
//   - A client that ends its session with DELETE while it is asked frees its questions at
//     once, and the upstream gets [elicitation.MessageNoSession]. The SDK alone would wait
//     for its handlers, and so for the answer.
//   - A request for a session that another principal has opened ([Options].Principal) is
//     refused. The SDK compares the ids of users of its tokens alone.
//   - A client that accepts one of the two media types alone gets responses of that type. Of
//     a call that is answered with JSON alone its questions go out on the client's open GET
//     stream; without one the upstream gets an error that says so, and nobody is asked.
//   - With [Options].Replicas requests for a session reach the replica that has it. An answer to a
//     question is accepted within a second, and sent on until that replica has it: see
//     [elicitation.Router.ForwardReply].
//
// The host's authentication goes around it, and [Downstream.AnswerChallenges] around that.
func (d *Downstream) Handler(next http.Handler) http.Handler {
	guarded := d.endpoint.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := d.findSession(r.Header.Get(hophttp.HeaderSession))
		if session != nil && !session.opener.Anonymous() &&
			session.opener != d.principalOf(r) {
			http.Error(w, "the session is that of another user", http.StatusForbidden)
			return
		}
		if session != nil && r.Method == http.MethodDelete {
			session.detach()
		}
		next.ServeHTTP(w, r)
	}), false)
	return d.forwarder.Wrap(guarded, hophttp.WrapOptions{
		MaxBody: maxForwardedBody, ForwardAnswer: d.forwardAnswer})
}

// forwardAnswer has send bring an answer to the replica that has its session.
func (d *Downstream) forwardAnswer(r *http.Request, size int,
	send func(context.Context) error) (ended bool, err error) {
	return d.router.ForwardReply(r.Context(), d.principalOf(r), size, send)
}

// maxForwardedBody bounds the body of a request for another replica, in bytes. It is that of
// the SDK's handler.
const maxForwardedBody = 4 << 20

// findSession returns the session with an id of the SDK's, nil if there is none.
func (d *Downstream) findSession(id string) *attachedSession {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byID[id]
}

// AnswerChallenges returns a handler that answers the challenges by which other replicas
// make sure of this one, and leaves all else to next. It goes around the handler that
// authenticates, which would refuse them.
func (d *Downstream) AnswerChallenges(next http.Handler) http.Handler {
	return d.forwarder.AnswerChallenges(next)
}
