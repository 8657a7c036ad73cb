package bearer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

// A NoAudience accepts tokens without an audience. Instead of the claim aud, it checks the client
// and a scope of this server alone. Both fields are required.
type NoAudience struct {
	// Clients are the ids of the clients, byte for byte.
	Clients []string
	// Scope must be in the token, whatever Options.Implies says, and be used by this server alone:
	// another server could replay its tokens here.
	Scope string
}

func (i *Issuer) checkAudiences() error {
	if slices.Contains(i.Audiences, "") { // for example, an unset environment variable
		return fmt.Errorf("bearer: issuer %s: Audiences has an empty entry: a token with an empty "+
			"audience would be accepted", i.URL)
	}
	n := i.NoAudience
	if n == nil {
		return nil
	}
	if i.Verify != nil {
		return fmt.Errorf("bearer: issuer %s: Verify returns whom a token was issued to, so that "+
			"NoAudience does not apply", i.URL)
	}
	if len(n.Clients) == 0 || slices.Contains(n.Clients, "") || !rules.IsScopeList(n.Scope) {
		return fmt.Errorf("bearer: issuer %s: NoAudience needs both Clients, none of them empty, "+
			"and Scope", i.URL)
	}
	if slices.Contains([]string{"openid", "profile", "email", "address", "phone",
		"offline_access"}, n.Scope) {
		return fmt.Errorf("bearer: issuer %s: NoAudience.Scope is %s, which every server uses",
			i.URL, n.Scope)
	}
	return nil
}

// checkAudience checks that a token is for this server. Without aud, call checkOwnScope, too.
func (g *ResourceServer) checkAudience(i *issuer, c *claims) error {
	if c.hasClaim("aud") || i.NoAudience == nil {
		if slices.ContainsFunc(c.audience, func(name string) bool {
			return name == g.opts.Resource || slices.Contains(i.Audiences, name)
		}) {
			return nil
		}
		if !c.hasClaim("aud") {
			return refuse(wrongAudience, g.nameResource(hintNoAudience), nil)
		}
		return refuse(wrongAudience, g.nameResource(hintAudience),
			fmt.Errorf("aud is %s", quoteValues(c.audience)))
	}
	if !slices.Contains(i.NoAudience.Clients, c.clientID) {
		return refuse(wrongAudience, hintClient, errors.New(errtext.Value(c.clientID)))
	}
	return nil
}

func (i *issuer) checkOwnScope(c *claims, scopes []string) error {
	if !c.hasClaim("aud") && (i.NoAudience == nil || !slices.Contains(scopes, i.NoAudience.Scope)) {
		return refuse(wrongAudience, hintOwnScope, describeScopes(scopes))
	}
	return nil
}

func describeScopes(scopes []string) error {
	return fmt.Errorf("it has the scopes %s", quoteValues(scopes))
}

func quoteValues(texts []string) string {
	return cmp.Or(errtext.Values(len(texts), func(n int) string {
		return errtext.Value(texts[n])
	}), "none")
}
