package mcpgo

import (
	"context"
	"net/http"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/wire/accepthttp"
	"github.com/rondo-mcp/rondo/protocol"
)

// maxForwardedBody bounds the body of a request for another replica, in bytes.
const maxForwardedBody = 4 << 20

// Handler returns a handler around that of mcp-go ([server.NewStreamableHTTPServer]):
//
//   - Errors of the router that a handler of the gateway returns reach the client with their
//     code and data.
//   - A request for a session that another principal has opened is refused, where
//     [Options].Principal knows both from the context of the HTTP request: mcp-go leaves a session
//     to whoever knows its id.
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
		from := d.principalOf(r.Context())
		opener := d.findOpener(r.Header.Get(hophttp.HeaderSession))
		if !opener.Anonymous() && opener != from {
			http.Error(w, "the session is that of another user", http.StatusForbidden)
			return
		}
		ctx := context.WithValue(r.Context(), openerKey{d}, from)
		ctx, refusals := d.withRefusals(ctx) // a question may go out on a GET stream
		if r.Method == http.MethodPost && !accepthttp.AdmitsEvents(r.Header) {
			ctx = context.WithValue(ctx, headerKey{d}, r.Header)
		}
		next.ServeHTTP(newRefusalWriter(w, refusals), r.WithContext(ctx))
	}), false)
	return d.forwarder.Wrap(guarded, hophttp.WrapOptions{
		MaxBody: maxForwardedBody, ForwardAnswer: d.forwardAnswer})
}

// forwardAnswer has send bring an answer to the replica that has its session.
func (d *Downstream) forwardAnswer(r *http.Request, size int,
	send func(context.Context) error) (ended bool, err error) {
	return d.router.ForwardReply(r.Context(), d.principalOf(r.Context()), size, send)
}

// openerKey is the context key of the principal of an HTTP request to a Downstream.
type openerKey struct{ clients *Downstream }

// headerKey is the context key of the header of a request whose client takes JSON alone.
type headerKey struct{ clients *Downstream }

// cannotAsk returns why no question of the call with ctx reaches the client, empty where one
// does. mcp-go would keep the question until there is a GET stream. The context of a call within
// the process may be derived from that of another request.
func (d *Downstream) cannotAsk(ctx context.Context) string {
	header, ok := ctx.Value(headerKey{d}).(http.Header)
	session := server.ClientSessionFromContext(ctx)
	if _, here := session.(*server.InProcessSession); !ok || here || session == nil {
		return ""
	}
	return d.endpoint.CannotAsk(header, session.SessionID())
}

// findOpener returns who opened the session with an id of mcp-go's, zero where that is not known.
func (d *Downstream) findOpener(id string) protocol.Principal {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.openers[id]
}

// AnswerChallenges returns a handler that answers the challenges by which other replicas
// make sure of this one, and leaves all else to next. It goes around the handler that
// authenticates, which would refuse them.
func (d *Downstream) AnswerChallenges(next http.Handler) http.Handler {
	return d.forwarder.AnswerChallenges(next)
}
