package bearer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/wire/authhttp"
)

const (
	maxIntrospectionBytes = 64 << 10
	maxIntrospections     = 64 // in flight to an issuer; further look-ups wait
)

// beginLookUp waits for a look-up's slot, which the caller must free unless there is an error.
func (i *issuer) beginLookUp(ctx context.Context, p *presented) error {
	select {
	case i.introspecting <- struct{}{}:
	case <-ctx.Done():
		return postpone(issuerUnreachable, defaultRetry, ctx.Err())
	}
	err := ctx.Err() // the slot may have become free when ctx ended
	if err != nil {
		err = postpone(issuerUnreachable, defaultRetry, err)
	} else if !p.known {
		if pause := i.failures.take(p.source); pause > 0 {
			err = postpone(lookUpsSpent, max(pause, time.Second), nil)
		}
	}
	if err != nil {
		<-i.introspecting
	}
	return err
}

// lookUpToken returns the claims of an active token, from the host or by introspection (RFC 7662,
// section 2). It keeps ctx's deadline but is not cancelled with ctx: the response can be cached.
func (i *issuer) lookUpToken(ctx context.Context, token string) (*claims, error) {
	deadline, _ := ctx.Deadline() // the verification's deadline
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if i.Verify != nil {
		return i.verifyByHost(ctx, token)
	}
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

// introspectionError returns the error of a failed introspection. It does not refuse the token.
func (i *issuer) introspectionError(cause error) error {
	if e := (*authhttp.StatusError)(nil); errors.As(cause, &e) &&
		(e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden) {
		cause = fmt.Errorf("%w: it does not accept Introspection.ClientID and ClientSecret", cause)
	}
	return postpone(issuerUnreachable, defaultRetry,
		fmt.Errorf("introspection by %s: %w", i.URL, cause))
}

// readIntrospection returns the claims of an active bearer token (RFC 7662, section 2.2).
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
		tokenType != "access_token": // Hydra's token type
		return nil, refuse(badType, hintTokenType,
			fmt.Errorf("token_type is %s", errtext.Value(tokenType)))
	}
	return c, nil
}
