package bearer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

const (
	maxHostCalls = 64   // running host functions; further calls wait for a slot, or get 503
	maxScopes    = 1000 // scopes from [Issuer].ScopesOf
)

// callHost calls a host function that may hang: ctx ends the wait with 503. Panics become errors.
func callHost[T any](ctx context.Context, slots chan struct{}, call func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return none, postpone(hostSilent, defaultRetry, ctx.Err())
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: errors.New("panic")} // remains if the host calls runtime.Goexit
		defer func() {
			if p := recover(); p != nil {
				r = result{err: fmt.Errorf("panic: %v", p)}
			}
			<-slots
			done <- r
		}()
		value, err := call()
		r = result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, postpone(hostSilent, defaultRetry, ctx.Err())
	}
}

// ErrInactive is the error of [Issuer].Verify for an invalid token.
var ErrInactive = errors.New("bearer: the token is not active")

// verifyByHost returns the claims from [Issuer].Verify. If they have no audience, it is ClientID.
func (i *issuer) verifyByHost(ctx context.Context, token string) (*claims, error) {
	t, err := callHost(ctx, i.hostCalls, func() (*Token, error) { return i.Verify(ctx, token) })
	switch {
	case errors.Is(err, ErrInactive):
		return nil, refuse(inactive, "", nil)
	case err == nil && t == nil:
		err = errors.New("it returned neither a token nor an error")
	case err == nil && t.Issuer != "" && t.Issuer != i.URL:
		return nil, refuse(unknownIssuer, hintIssuer,
			fmt.Errorf("Issuer.Verify returned the issuer %s", errtext.Value(t.Issuer)))
	}
	if err != nil {
		return nil, postpone(issuerUnreachable, defaultRetry,
			fmt.Errorf("Issuer.Verify of %s: %w", i.URL, err))
	}
	c := &claims{issuer: i.URL, subject: t.Subject, clientID: t.ClientID, expiry: t.Expiry,
		audience: slices.Clone(t.Audience), scopes: slices.Clone(t.Scopes)}
	if len(c.audience) == 0 && c.clientID != "" {
		c.audience = []string{c.clientID}
	}
	aud, err := json.Marshal(c.audience)
	c.all = map[string]json.RawMessage{"aud": aud} // present, even if it is empty
	return c, err
}

func (g *ResourceServer) findScopes(ctx context.Context, i *issuer, t *Token) ([]string, error) {
	if i.ScopesOf == nil {
		return t.Scopes, nil
	}
	scopes, err := callHost(ctx, g.hostCalls, func() ([]string, error) { return i.ScopesOf(t) })
	switch {
	case isRefusal(err): // the call has not returned
		return nil, err
	case err != nil:
	case len(scopes) > maxScopes:
		err = fmt.Errorf("%d scopes, more than %d", len(scopes), maxScopes)
	case slices.ContainsFunc(scopes, func(s string) bool { return !rules.IsScopeList(s) }):
		err = errors.New("a scope that RFC 6749 does not allow (section 3.3)")
	}
	if err != nil {
		return nil, refuse(badScopes, hintScopes, err)
	}
	return slices.Clone(scopes), nil
}
