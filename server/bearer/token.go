package bearer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// A Token is what a verified token says. It does not hold the token itself, so that a handler
// cannot pass it on to another server. It must not be changed.
type Token struct {
	// Issuer is the URL of the issuer, as configured.
	Issuer string
	// Subject is whose token it is; empty: of no person.
	Subject string
	// ClientID is the client that the token was issued to; empty: unsaid.
	ClientID string
	// Audience are the resources that it is for.
	Audience []string
	// Scopes are those that were granted.
	Scopes []string
	// Expiry is when the token ends; zero: unsaid, which only introspection may leave.
	Expiry time.Time

	claims map[string]json.RawMessage
}

// Claim decodes another claim of the token into v, as encoding/json does, and reports whether the
// token has it.
func (t *Token) Claim(name string, v any) (bool, error) {
	raw, ok := t.claims[name]
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(raw, v)
}

// Format implements [fmt.Formatter]. It prints the issuer and the client alone, whatever the verb:
// claims may be about a person.
func (t *Token) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, t.text()) }

// LogValue implements [slog.LogValuer] as Format does.
func (t *Token) LogValue() slog.Value { return slog.StringValue(t.text()) }

func (t *Token) text() string {
	return fmt.Sprintf("token of %s for client %q", t.Issuer, t.ClientID)
}

type tokenKey struct{}

// TokenFrom returns what the token of a request says: in the context of a handler behind a
// [Guard], and in that of an HTTP handler behind [Guard.RequireBearer]. ok is false for anonymous
// requests.
func TokenFrom(ctx context.Context) (t *Token, ok bool) {
	t, ok = ctx.Value(tokenKey{}).(*Token)
	return t, ok
}

// A claims is what is read of the claims of a token or of an introspection response.
type claims struct {
	issuer, subject, clientID string
	audience, scopes          []string
	expiry, notBefore, issued time.Time
	all                       map[string]json.RawMessage
}

// errClaims says that claims do not have their types.
var errClaims = errors.New("the claims are malformed")

// readClaims decodes claims. Those that it reads have the types that the specifications say, or
// all are refused.
func readClaims(data []byte) (*claims, error) {
	c := &claims{}
	if err := jsonx.Unmarshal(data, &c.all); err != nil || c.all == nil {
		return nil, errClaims
	}
	var err error
	read := func(failed error) {
		if failed != nil {
			err = errClaims
		}
	}
	read(c.read("iss", &c.issuer))
	read(c.read("sub", &c.subject))
	read(c.read("client_id", &c.clientID))
	if c.clientID == "" { // as some issuers spell it
		read(c.read("azp", &c.clientID))
	}
	read(c.readTime("exp", &c.expiry))
	read(c.readTime("nbf", &c.notBefore))
	read(c.readTime("iat", &c.issued))
	read(c.readList("aud", &c.audience))
	read(c.readScopes())
	return c, err
}

func (c *claims) has(name string) bool {
	_, ok := c.all[name]
	return ok
}

func (c *claims) read(name string, v any) error {
	raw, ok := c.all[name]
	if !ok {
		return nil
	}
	if string(raw) == "null" {
		return errClaims
	}
	return json.Unmarshal(raw, v)
}

// isOther reports whether claims are those of an ID token, a refresh token or a security event. A
// nonce alone does not tell: some issuers repeat it in access tokens, which have scopes.
func (c *claims) isOther() bool {
	if c.has("at_hash") || c.has("c_hash") || c.has("events") ||
		c.has("nonce") && !c.has("scope") && !c.has("scp") {
		return true
	}
	// As two issuers say it whose tokens are all of the type JWT: Cognito and Keycloak.
	var use, kind string
	if c.read("token_use", &use) != nil || c.read("typ", &kind) != nil {
		return true
	}
	return use != "" && use != "access" || kind != "" && !strings.EqualFold(kind, "Bearer")
}

// maxSeconds is the year 9999: later times are not dates any more.
const maxSeconds = 253402300799

func (c *claims) readTime(name string, v *time.Time) error {
	var seconds *float64
	if err := c.read(name, &seconds); err != nil || seconds == nil {
		return err
	}
	if *seconds < 0 || *seconds > maxSeconds {
		return errClaims
	}
	*v = time.UnixMilli(int64(*seconds * 1000))
	return nil
}

// readList reads a string or an array of strings.
func (c *claims) readList(name string, v *[]string) error {
	var one string
	if c.read(name, &one) == nil {
		if c.has(name) {
			*v = []string{one}
		}
		return nil
	}
	return c.read(name, v)
}

// readScopes reads "scope", a string with spaces, or "scp", which is the same or an array.
func (c *claims) readScopes() error {
	if c.has("scope") {
		var text string
		err := c.read("scope", &text)
		c.scopes = strings.Fields(text)
		return err
	}
	if err := c.readList("scp", &c.scopes); err != nil {
		return err
	}
	if len(c.scopes) == 1 {
		c.scopes = strings.Fields(c.scopes[0])
	}
	return nil
}
