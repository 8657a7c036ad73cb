package bearer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// A Token has the claims of a verified access token, from the token or from an introspection
// response. It lacks the token itself, so that a handler cannot pass it on. It must not be changed;
// its methods may be called concurrently.
type Token struct {
	// Issuer is the URL of the issuer, as in [Issuer].URL; with Issuer.AnyTenant it has the tenant.
	Issuer  string
	Subject string // claim sub: the user; may be empty
	// ClientID is the claim client_id, or else azp, cid or appid; may be empty.
	ClientID string
	// Audience is the claim aud: the resources that the token was issued for.
	Audience []string
	// Scopes are the granted scopes, from Issuer.ScopesOf, or else the claim scope, or else scp.
	Scopes []string
	Expiry time.Time // claim exp; zero: an introspection response without it

	claims map[string]json.RawMessage
}

// Claim decodes a claim into v, a pointer, as [json.Unmarshal] does. ok is false, and v unchanged,
// if the token lacks it.
func (t *Token) Claim(name string, v any) (ok bool, err error) {
	raw, ok := t.claims[name]
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(raw, v)
}

// Format implements [fmt.Formatter]. It prints issuer and client only: other claims may be
// personal.
func (t *Token) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, t.LogValue().String()) }

// LogValue implements [slog.LogValuer] as Format does.
func (t *Token) LogValue() slog.Value {
	return slog.StringValue(fmt.Sprintf("token of %s for client %q", t.Issuer, t.ClientID))
}

type tokenKey struct{}

// TokenFrom returns the claims of a request's token, from the context of a handler of an MCP server
// with a [ResourceServer], or of an HTTP request behind [ResourceServer.RequireBearer]. ok is false
// for anonymous requests and other contexts.
func TokenFrom(ctx context.Context) (t *Token, ok bool) {
	t, ok = ctx.Value(tokenKey{}).(*Token)
	return t, ok
}
