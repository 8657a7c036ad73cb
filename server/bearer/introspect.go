package bearer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/wire/authhttp"
)

const (
	// maxIntrospectionBytes bounds an introspection response.
	maxIntrospectionBytes = 64 << 10
	// maxIntrospections bounds the introspection requests in flight to an issuer. Others wait:
	// made-up tokens must not flood it.
	maxIntrospections = 64
)

// lookUpToken has the issuer or the host look a token up, and returns the claims of an active one.
// The end of ctx ends the wait for a free slot. A look-up in flight is not cancelled, since the
// response can be cached; it keeps the deadline of ctx.
func (i *issuer) lookUpToken(ctx context.Context, token string) (*claims, error) {
	select {
	case i.introspecting <- struct{}{}:
		defer func() { <-i.introspecting }()
	case <-ctx.Done():
		return nil, &unavailableError{issuerUnreachable, defaultRetry, ctx.Err()}
	}
	if err := ctx.Err(); err != nil { // the slot may have become free at the same time
		return nil, &unavailableError{issuerUnreachable, defaultRetry, err}
	}
	ctx, cancel := withoutCancel(ctx)
	defer cancel()
	if i.Verify != nil {
		return i.verifyByHost(ctx, token)
	}
	return i.introspectToken(ctx, token)
}

// introspectToken sends the token to the introspection endpoint of the issuer (RFC 7662, section
// 2).
func (i *issuer) introspectToken(ctx context.Context, token string) (*claims, error) {
	r, err := authhttp.NewForm(ctx, i.Introspection.URL,
		url.Values{"token": {token}, "token_type_hint": {"access_token"}})
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	authhttp.SetBasicAuth(r, i.Introspection.ClientID, i.Introspection.ClientSecret)
	body, _, err := authhttp.Send(i.http, r, maxIntrospectionBytes, http.StatusOK)
	if err != nil {
		return nil, i.introspectionError(err)
	}
	return i.readIntrospection(body)
}

// withoutCancel returns a context that ends at the deadline of ctx alone.
func withoutCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline)
}

// introspectionError returns the error of a failed introspection: the token is neither accepted nor
// refused.
func (i *issuer) introspectionError(cause error) error {
	return &unavailableError{issuerUnreachable, defaultRetry,
		fmt.Errorf("introspection by %s: %w", i.URL, cause)}
}

// readIntrospection decodes an introspection response and returns the claims of an active bearer
// token (RFC 7662, section 2.2). It refuses all other tokens.
func (i *issuer) readIntrospection(body []byte) (*claims, error) {
	c, err := readClaims(body)
	if err != nil {
		return nil, i.introspectionError(err)
	}
	var active *bool
	if err := c.readClaim("active", &active); err != nil || active == nil {
		return nil, i.introspectionError(errors.New("the response has no member active"))
	}
	var tokenType string
	switch err := c.readClaim("token_type", &tokenType); {
	case !*active:
		return nil, refuse(inactive, "", nil)
	case c.issuer != "" && c.issuer != i.URL:
		return nil, refuse(unknownIssuer, hintIssuer, describeIssuer(c))
	case err != nil, tokenType != "" && !strings.EqualFold(tokenType, "Bearer") &&
		tokenType != "access_token" && // of Hydra
		!(strings.EqualFold(tokenType, dpopScheme) && c.hasClaim("cnf")):
		return nil, refuse(badType, hintTokenType,
			fmt.Errorf("token_type is %s", errtext.Value(tokenType)))
	}
	return c, nil
}
