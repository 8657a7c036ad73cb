package serverhttp

import (
	"context"
	"net/http"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// An Authority authenticates requests, says what they may do, and tells clients which
// credentials they lack (basic/authorization). Its methods are called concurrently. Their
// errors are treated as those of [Options].Authenticate.
type Authority interface {
	// Identify tells who sends a request, from its headers; it must leave the body alone.
	// An [*AuthError] chooses how the request is refused, any other error refuses it with
	// 401. Each HTTP request is identified for itself, those of a session included. A
	// request that a replica has passed on is identified again by the owner of its session.
	Identify(r *http.Request) (Identity, error)
	// Challenge returns the refusal of a request that needs more scopes than its
	// credentials have: 403, or 401 for a caller without credentials. Nil: 403 with the
	// challenge of [RFC 6750] for the scopes, without the address of metadata.
	//
	// [RFC 6750]: https://www.rfc-editor.org/rfc/rfc6750#section-3.1
	Challenge(id Identity, lack *server.ScopeError) *AuthError
}

// An Identity is what an [Authority] knows of the sender of a request.
type Identity struct {
	// Principal is who sends the request. A session belongs to the principal that opened
	// it, and sealed state to the principal that it was made for.
	Principal protocol.Principal
	// Access is what this request may do. In a session each request has its own. Nil:
	// nothing that has scopes.
	Access *server.Access
	// Values derives the context of the request's handler, for example with the claims of
	// a token. It must not add the token itself: a handler could pass it on to another
	// server. Nil: no values.
	Values func(context.Context) context.Context
}
