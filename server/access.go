package server

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

// An Access is what the credentials of a request permit. Requests share it, so it must not
// be changed. Nil permits nothing that has scopes.
type Access struct {
	// Scopes are the scopes that were granted.
	Scopes []string
	// Implies reports whether the granted scope have includes the scope need. A scope always
	// includes itself. Calls overlap. Nil: scopes include nothing else.
	Implies func(have, need string) bool

	unlimited bool
}

// UnlimitedAccess returns the access of callers that no scopes restrict, such as
// [protocol.LocalPrincipal] over standard input and output and in process.
func UnlimitedAccess() *Access { return &Access{unlimited: true} }

// Unlimited reports whether a was made by [UnlimitedAccess]. a may be nil.
func (a *Access) Unlimited() bool { return a != nil && a.unlimited }

// Check returns nil if all scopes of need were granted or are implied, else a [*ScopeError]
// that names all of them. a may be nil.
func (a *Access) Check(need ...string) error {
	for _, scope := range need {
		if !a.permits(scope) {
			return &ScopeError{Need: slices.Clone(need)}
		}
	}
	return nil
}

func (a *Access) permits(need string) bool {
	if a == nil || a.unlimited {
		return a != nil
	}
	for _, have := range a.Scopes {
		if have == need || a.Implies != nil && a.Implies(have, need) {
			return true
		}
	}
	return false
}

// A ScopeError refuses a request whose credentials lack scopes. The server returns it for what has
// Scopes; handlers and middleware may return it, wrapped or not. The client gets an error with code
// [protocol.CodeInsufficientScope]. Over HTTP, unless the response has begun as a stream, the
// status is 403 with a challenge by which the client can get better credentials and send the same
// request again, with the same state. So a handler returns a ScopeError before it notifies the
// client of anything and before it does anything.
type ScopeError struct {
	// Need are all scopes that the request needs, including those that were granted: clients ask
	// for these.
	Need []string
	// Reason tells the user why. It may be empty.
	Reason string
}

// Error names the scopes.
func (e *ScopeError) Error() string {
	if e == nil {
		return "server: insufficient scope"
	}
	return "server: " + e.message()
}

func (e *ScopeError) message() string {
	text := "insufficient scope"
	if len(e.Need) > 0 {
		text += ": needs " + strings.Join(e.Need, " ")
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// As lets [errors.As] find the error that the client gets: a [*protocol.Error] with the scopes in
// the member scopes of its data.
func (e *ScopeError) As(target any) bool {
	wire, ok := target.(**protocol.Error)
	if ok {
		*wire = e.toWire()
	}
	return ok
}

func (e *ScopeError) toWire() *protocol.Error {
	if e == nil {
		e = &ScopeError{}
	}
	return protocol.Errorf(protocol.CodeInsufficientScope, "%s", e.message()).
		WithData(struct {
			Scopes []string `json:"scopes"`
		}{append([]string{}, e.Need...)})
}

// checkScopes refuses a request whose access lacks scopes. It is not inlined into frames that
// lie under a call that waits.
//
//go:noinline
func (request *Request) checkScopes(need []string) error {
	if len(need) == 0 {
		return nil
	}
	err := request.Access.Check(need...)
	if lack, ok := errors.AsType[*ScopeError](err); ok && request.Access == nil {
		lack.Reason = unknownAccess // no other credentials help
	}
	return request.spellLack(err)
}

// unknownAccess is the reason where the transport knows nothing of scopes, as with
// serverhttp.Options.Authenticate: a mistake of the program.
const unknownAccess = "this server does not know the scopes of its callers"

// spellLack returns the error that the client gets for a [*ScopeError] in err, and notes the
// refusal in the request. It returns other errors, and nil, as they are.
func (request *Request) spellLack(err error) error {
	lack, ok := errors.AsType[*ScopeError](err)
	if !ok {
		return err
	}
	if lack == nil {
		lack = &ScopeError{}
	}
	request.lack = lack
	return lack.toWire()
}

// ScopeError returns the error with which [Server.Serve] refused the request for lack of scopes,
// else nil. A transport that knows of credentials tells the client which to get.
func (a *Admission) ScopeError() *ScopeError {
	e := a.response.Error
	if e == nil || e.Code != protocol.CodeInsufficientScope {
		return nil // middleware may have answered otherwise
	}
	return a.request.lack
}

type accessKey struct{}

// WithAccess returns a context under which [Server.Handle] serves requests with access a,
// for hosts that call in process on behalf of others. Without it requests of
// [protocol.LocalPrincipal] have [UnlimitedAccess], and requests of others none.
func WithAccess(ctx context.Context, a *Access) context.Context {
	return context.WithValue(ctx, accessKey{}, a)
}

func (s *Server) accessFrom(ctx context.Context, p protocol.Principal) *Access {
	if a, ok := ctx.Value(accessKey{}).(*Access); ok {
		return a
	}
	return s.accessOf(p)
}

// accessOf returns the access of p where the context has none.
func (s *Server) accessOf(p protocol.Principal) *Access {
	if p.IsLocal() {
		return s.localAccess
	}
	return nil
}

// validateScopes refuses what cannot be a scope (RFC 6749, 3.3): it could not be granted.
func validateScopes(scopes []string) error {
	for _, text := range scopes {
		if !rules.IsScopeList(text) {
			return errors.New("scopes must be printable ASCII without space, quote and backslash, " +
				"and not empty")
		}
	}
	return nil
}
