package bearer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

const (
	// maxIntrospectionBytes bounds what an issuer says of a token.
	maxIntrospectionBytes = 64 << 10
	// maxAsked is how many tokens an issuer is asked about at a time. Others wait, so that
	// made-up tokens do not flood it.
	maxAsked = 64
)

// introspect asks the issuer about a token (RFC 7662).
func (i *issuer) introspect(ctx context.Context, token string) (*claims, error) {
	select {
	case i.asked <- struct{}{}:
		defer func() { <-i.asked }()
	case <-ctx.Done():
		return nil, &unavailableError{defaultRetry, ctx.Err()}
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, i.Introspection.URL,
		strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	// RFC 6749, 2.3.1: both are form-encoded before they are put together.
	r.SetBasicAuth(url.QueryEscape(i.Introspection.ClientID),
		url.QueryEscape(i.Introspection.ClientSecret))
	body, _, err := do(i.http, r, maxIntrospectionBytes)
	if err != nil {
		return nil, &unavailableError{defaultRetry,
			fmt.Errorf("introspection by %s: %w", i.URL, err)}
	}
	return i.readIntrospection(body)
}

// readIntrospection reads what the issuer says. A response that cannot be read says nothing about
// the token: it is not refused, nor accepted.
func (i *issuer) readIntrospection(body []byte) (*claims, error) {
	c, err := readClaims(body)
	if err != nil {
		return nil, &unavailableError{defaultRetry,
			fmt.Errorf("introspection by %s: %w", i.URL, err)}
	}
	var active *bool
	if err := c.read("active", &active); err != nil || active == nil {
		return nil, &unavailableError{defaultRetry,
			fmt.Errorf("introspection by %s: the response has no member active", i.URL)}
	}
	var kind string
	switch err := c.read("token_type", &kind); {
	case !*active:
		return nil, refuse(inactive, nil)
	case c.issuer != "" && c.issuer != i.URL:
		return nil, refuse(unknownIssuer, nil)
	case err != nil, kind != "" && !strings.EqualFold(kind, "Bearer"):
		return nil, refuse(badType, errors.New("it is no bearer token"))
	}
	return c, nil
}
