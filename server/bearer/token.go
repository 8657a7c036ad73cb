package bearer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// A Token has the claims of a verified access token, from the token or its introspection, but not
// the token itself, so that a handler cannot pass the token on. It is immutable; calls may overlap.
type Token struct {
	// Issuer is the issuer's URL, as in [Issuer].URL. With Issuer.AnyTenant it contains the tenant.
	Issuer  string
	Subject string // claim sub: the user; may be empty
	// ClientID is the claim client_id, or else azp, cid or appid. It may be empty.
	ClientID string
	// Audience is the claim aud: the resources that the token was issued for.
	Audience []string
	// Scopes are the granted scopes, from Issuer.ScopesOf, or else from the claim scope or scp.
	Scopes []string
	Expiry time.Time // claim exp; zero: an introspection response had no exp

	claims map[string]json.RawMessage
}

// Claim decodes a claim into v, a pointer, like [json.Unmarshal]. ok is false if it is absent.
func (t *Token) Claim(name string, v any) (ok bool, err error) {
	raw, ok := t.claims[name]
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(raw, v)
}

// Format implements [fmt.Formatter]. It prints only issuer and client: other claims may be private.
func (t *Token) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, t.LogValue().String()) }

// LogValue implements [slog.LogValuer] as Format does.
func (t *Token) LogValue() slog.Value {
	return slog.StringValue(fmt.Sprintf("token of %s for client %q", t.Issuer, t.ClientID))
}

type tokenKey struct{}

// TokenFrom returns the claims of a request's token, for handlers of an MCP server with a
// [ResourceServer], or behind [ResourceServer.RequireBearer]. ok is false without a token.
func TokenFrom(ctx context.Context) (t *Token, ok bool) {
	t, ok = ctx.Value(tokenKey{}).(*Token)
	return t, ok
}
