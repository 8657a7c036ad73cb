package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

// An Access has the permissions of a request's credentials. Do not change it. Nil has no scopes.
type Access struct {
	Scopes []string // granted
	// Implies reports whether the scope have includes the scope need. Every scope includes itself.
	// Calls overlap. Nil means that no scope includes another.
	Implies func(have, need string) bool

	unlimited bool
}

// UnlimitedAccess returns access without limits by scopes, as [protocol.LocalPrincipal] has.
func UnlimitedAccess() *Access { return &Access{unlimited: true} }

// Unlimited reports whether a, which may be nil, was made by [UnlimitedAccess].
func (a *Access) Unlimited() bool { return a != nil && a.unlimited }

// Check returns nil if all scopes in need are granted or implied, otherwise a [*ScopeError].
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
	return slices.ContainsFunc(a.Scopes, func(have string) bool {
		return have == need || a.Implies != nil && a.Implies(have, need)
	})
}

// A ScopeError refuses a request whose credentials lack scopes. The server returns it for
// definitions with Scopes; handlers and middleware may return it, wrapped or not. The client gets
// [protocol.CodeInsufficientScope]. Over HTTP, unless the response is already streaming, the status
// is 403 with a challenge, after which the client can retry the request with the same state and
// better credentials. So return a ScopeError before any notification or side effect.
type ScopeError struct {
	// Need lists all required scopes, including granted ones: clients request exactly these.
	Need   []string
	Reason string // tells the user why; may be empty
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

// As lets [errors.As] find the client's error: a [*protocol.Error] with scopes in its data.
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

// checkScopes refuses a request that lacks scopes. Not inlined: frames of waiting calls stay small.
//
//go:noinline
func (request *Request) checkScopes(need []string) error {
	if len(need) == 0 {
		return nil
	}
	err := request.Access.Check(need...)
	if lack, ok := errors.AsType[*ScopeError](err); ok && request.Access == nil {
		lack.Reason = unknownAccess // other credentials would not help
	}
	return request.spellLack(err)
}

// unknownAccess is the reason if the transport does not supply scopes
// (serverhttp.Options.Authenticate): a mistake of the program.
const unknownAccess = "this server does not know the scopes of its callers"

// spellLack returns the client's error for a [*ScopeError] in err; it returns others unchanged.
func (request *Request) spellLack(err error) error {
	lack, ok := errors.AsType[*ScopeError](err)
	if !ok {
		return err
	}
	request.lack = cmp.Or(lack, &ScopeError{})
	return lack.toWire()
}

// ScopeError returns the error of a request that [Server.Serve] refused for lack of scopes, or nil.
func (a *Admission) ScopeError() *ScopeError {
	e := a.response.Error
	if e == nil || e.Code != protocol.CodeInsufficientScope {
		return nil // middleware may have answered otherwise
	}
	return a.request.lack
}

type accessKey struct{}

// WithAccess returns a context under which [Server.Handle] serves requests with access a, for hosts
// that call in process on behalf of others. Without it [protocol.LocalPrincipal] has
// [UnlimitedAccess], and other principals have none.
func WithAccess(ctx context.Context, a *Access) context.Context {
	return context.WithValue(ctx, accessKey{}, a)
}

func (s *Server) accessFrom(ctx context.Context, p protocol.Principal) *Access {
	if a, ok := ctx.Value(accessKey{}).(*Access); ok {
		return a
	}
	return s.accessOf(p)
}

func (s *Server) accessOf(p protocol.Principal) *Access {
	if p.IsLocal() {
		return s.localAccess
	}
	return nil
}

// validateScopes refuses malformed scopes (RFC 6749, 3.3).
func validateScopes(scopes []string) error {
	for _, text := range scopes {
		if !rules.IsScopeList(text) {
			return errors.New("scopes must be printable ASCII without space, quote and backslash, " +
				"and not empty")
		}
	}
	return nil
}
