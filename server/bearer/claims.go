package bearer

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// The type claims has the claims of a JWT (RFC 9068, section 2.2) or introspection (RFC 7662).
type claims struct {
	issuer, subject, clientID string
	audience, scopes          []string
	expiry, notBefore, issued time.Time // zero if absent
	all                       map[string]json.RawMessage
}

var errClaims = errors.New("the claims are malformed")

// readClaims decodes claims. A claim of a wrong type is an error. A null claim counts as absent.
func readClaims(data []byte) (*claims, error) {
	c := &claims{}
	if err := jsonx.Unmarshal(data, &c.all); err != nil || c.all == nil {
		return nil, errClaims
	}
	maps.DeleteFunc(c.all, func(_ string, raw json.RawMessage) bool {
		return string(raw) == "null"
	})
	err := errors.Join(c.readClaim("iss", &c.issuer), c.readClaim("sub", &c.subject),
		c.readTime("exp", &c.expiry), c.readTime("nbf", &c.notBefore),
		c.readTime("iat", &c.issued), c.readList("aud", &c.audience), c.readScopes())
	// Keycloak and Entra ID name the client in azp, Okta in cid, Entra ID version 1 in appid.
	for _, name := range []string{"client_id", "azp", "cid", "appid"} {
		if c.clientID == "" {
			err = errors.Join(err, c.readClaim(name, &c.clientID))
		}
	}
	if err != nil {
		err = errClaims // the cause could contain personal data
	}
	return c, err
}

func (c *claims) hasClaim(name string) bool {
	_, ok := c.all[name]
	return ok
}

func (c *claims) readClaim(name string, v any) error {
	raw, ok := c.all[name]
	if !ok {
		return nil
	}
	return json.Unmarshal(raw, v)
}

// isNotAccessToken reports an ID token, a refresh token or a security event by its claims. A nonce
// with scopes proves nothing: some issuers repeat it in access tokens.
func (c *claims) isNotAccessToken() bool {
	if c.hasClaim("at_hash") || c.hasClaim("c_hash") || c.hasClaim("events") ||
		c.hasClaim("nonce") && !c.hasClaim("scope") && !c.hasClaim("scp") {
		return true
	}
	// Cognito and Keycloak give all tokens the type JWT; these claims tell their purpose. Hydra
	// writes access_token where Cognito writes access.
	var tokenUse, typ string
	if c.readClaim("token_use", &tokenUse) != nil || c.readClaim("typ", &typ) != nil {
		return true
	}
	return tokenUse != "" && tokenUse != "access" && tokenUse != "access_token" ||
		typ != "" && !strings.EqualFold(typ, "Bearer")
}

// marksAccess reports whether a claim is one that ID tokens lack: scopes or client. ID tokens may
// have azp (OpenID Connect Core, section 2), in Entra ID roles, but only access tokens have azpacr.
func (c *claims) marksAccess() bool { return slices.ContainsFunc(accessClaims(), c.hasClaim) }

func accessClaims() []string {
	return []string{"scope", "scp", "client_id", "cid", "appid", "azpacr"}
}

const maxSeconds = 253402300799 // end of the year 9999

// readTime reads a NumericDate, which may have a fraction (RFC 7519, section 2).
func (c *claims) readTime(name string, v *time.Time) error {
	var seconds *float64
	if err := c.readClaim(name, &seconds); err != nil || seconds == nil {
		return err
	}
	if *seconds < 0 || *seconds > maxSeconds {
		return errClaims
	}
	*v = time.UnixMilli(int64(*seconds * 1000))
	return nil
}

// readList reads a string or an array of strings, such as aud (RFC 7519, section 4.1.3).
func (c *claims) readList(name string, v *[]string) error {
	var one string
	if c.readClaim(name, &one) == nil {
		if c.hasClaim(name) {
			*v = []string{one}
		}
		return nil
	}
	return c.readClaim(name, v)
}

// splitScopes splits scopes at spaces and nowhere else (RFC 6749, section 3.3).
func splitScopes(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' })
}

// readScopes reads scope, a string (RFC 8693, section 4.2), or else scp, a string or an array.
func (c *claims) readScopes() error {
	if c.hasClaim("scope") {
		var text string
		err := c.readClaim("scope", &text)
		c.scopes = splitScopes(text)
		return err
	}
	if err := c.readList("scp", &c.scopes); err != nil {
		return err
	}
	if len(c.scopes) == 1 {
		c.scopes = splitScopes(c.scopes[0])
	}
	return nil
}
