package oauth

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

// A Provider names the accepted deviations of one authorization server. An error that a deviation
// causes names the field. [EntraID], [Google], [GitHub] and [Cognito] return providers.
type Provider struct {
	// Issuer is the only authorization server that the Provider is for, as its metadata names it.
	Issuer string
	// NamedAs is MCP servers' name of the issuer, if its metadata has another. Empty: Issuer.
	NamedAs string
	// AssumeS256 accepts metadata without code_challenge_methods_supported, not lists without S256.
	AssumeS256 bool
	// NoPrompt omits prompt=consent with offline_access.
	NoPrompt bool

	// NoResource omits the resource parameter, which Entra ID refuses. As a server that names this
	// issuer could choose the token's purpose, set Endpoint, and Scopes or the parameter audience.
	NoResource bool
	// Endpoint is the MCP endpoint that Scopes and audience belong to; New refuses any other. It is
	// required with NoResource and with the parameter audience.
	Endpoint string
	// Scopes, as the MCP server names them, are the only scopes to request besides offline_access.
	// If a challenge names none of them, all are requested. Nil: no limit.
	Scopes []string
	// ScopeNames maps an MCP server's scope to the authorization server's: "read" to
	// "api://notes/read". An MCP server may use either.
	ScopeNames map[string]string

	// AuthorizationParameters and TokenParameters are added to these requests, for example Google's
	// access_type=offline. Of this package's parameters they can replace only prompt=consent.
	AuthorizationParameters, TokenParameters map[string]string

	// TokenEndpointAudience makes the token endpoint the audience of client assertions (Entra ID).
	TokenEndpointAudience bool

	// Endpoints replace the metadata of an authorization server that has none. Nil: not used.
	Endpoints *ServerEndpoints

	mistake error // of a preset, or nil
}

// ServerEndpoints are an authorization server's endpoints, under the rules of metadata. Token is
// required, and so is Authorization without a [Machine].
type ServerEndpoints struct {
	Authorization, Token, Registration, Revocation string
}

const parameterAudience = "audience" // the audience of a token, without RFC 8707

// isReservedParameter reports a parameter that this package sets, or that would change a set one.
func isReservedParameter(name string) bool {
	switch name {
	case "", "response_type", "client_id", "redirect_uri", "state", "resource", "scope",
		"code_challenge", "code_challenge_method", "response_mode", "request", "request_uri",
		"grant_type", "code", "code_verifier", "refresh_token", "client_secret",
		"client_assertion", "client_assertion_type", "assertion", "subject_token",
		"subject_token_type", "requested_token_type", "dpop_jkt":
		return true
	}
	return false
}

func (o *Options) checkProviders(endpoint string) error {
	seen := map[string]bool{}
	for i := range o.Providers {
		p := &o.Providers[i]
		if err := p.check(endpoint, o.Machine != nil); err != nil {
			return fmt.Errorf("oauth: the Provider %q: %w", p.Issuer, err)
		}
		if seen[p.Issuer] {
			return fmt.Errorf("oauth: two entries of Options.Providers are for %s", p.Issuer)
		}
		if seen[p.NamedAs] {
			return fmt.Errorf("oauth: two entries of Options.Providers are for %s", p.NamedAs)
		}
		seen[p.Issuer], seen[p.NamedAs] = true, p.NamedAs != ""
	}
	return nil
}

func (p *Provider) check(endpoint string, machine bool) error {
	if p.mistake != nil {
		return p.mistake
	}
	if _, err := urlrule.Check(p.Issuer); err != nil {
		return fmt.Errorf("field Issuer: %w", err)
	}
	if p.NamedAs != "" {
		if _, err := urlrule.Check(p.NamedAs); err != nil {
			return fmt.Errorf("field NamedAs: %w", err)
		}
	}
	if err := p.checkParameters(); err != nil {
		return err
	}
	if err := p.checkScopes(); err != nil {
		return err
	}
	_, login := p.AuthorizationParameters[parameterAudience]
	_, token := p.TokenParameters[parameterAudience]
	decides := login // the parameter is set where the audience is chosen
	if machine {
		decides = token
	}
	switch {
	case p.NoResource && p.Scopes == nil && !decides:
		return errors.New("NoResource needs Scopes or the parameter audience: else the MCP server " +
			"would choose what the token is for")
	case (p.NoResource || login || token) && p.Endpoint == "":
		return errors.New("NoResource and the parameter audience need Endpoint, the MCP endpoint " +
			"that the tokens are for")
	case p.Endpoint != "" && p.Endpoint != endpoint:
		return fmt.Errorf("it is for the endpoint %s, and not for %s", p.Endpoint, endpoint)
	case p.Endpoints != nil && p.Endpoints.Authorization == "" && !machine,
		p.Endpoints != nil && p.Endpoints.Token == "":
		return errors.New("field Endpoints needs Authorization and Token")
	}
	return nil
}

func (p *Provider) checkParameters() error {
	for _, parameters := range []map[string]string{p.AuthorizationParameters, p.TokenParameters} {
		for _, name := range slices.Sorted(maps.Keys(parameters)) {
			if isReservedParameter(name) {
				return fmt.Errorf("the parameter %q is one of package oauth", name)
			}
			if parameters[name] == "" {
				return fmt.Errorf("the parameter %q is empty", name)
			}
		}
	}
	_, prompt := p.AuthorizationParameters["prompt"]
	if prompt && p.NoPrompt {
		return errors.New("it has NoPrompt and the parameter prompt")
	}
	return nil
}

func (p *Provider) checkScopes() error {
	if p.Scopes != nil && len(p.Scopes) == 0 {
		return errors.New("field Scopes is empty, and not nil")
	}
	for _, scope := range p.Scopes {
		if !rules.IsScopeList(scope) {
			return fmt.Errorf("%q in Scopes is no scope", scope)
		}
	}
	known := map[string]bool{}
	for _, here := range slices.Sorted(maps.Keys(p.ScopeNames)) {
		there := p.ScopeNames[here]
		if !rules.IsScopeList(here) || !rules.IsScopeList(there) {
			return fmt.Errorf("%q or its name in ScopeNames is not a valid scope", here)
		}
		if known[there] {
			return fmt.Errorf("ScopeNames has the name %q twice", there)
		}
		known[there] = true
	}
	return nil
}

func (s *Source) providerFor(issuer string) *Provider {
	for i := range s.opts.Providers {
		if s.opts.Providers[i].Issuer == issuer {
			return &s.opts.Providers[i]
		}
	}
	return &Provider{}
}

// limitScopes returns the scopes that may be requested, or all of Scopes if there are none.
func (p *Provider) limitScopes(scopes []string) []string {
	if p.Scopes == nil {
		return scopes
	}
	limited := slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool {
		return !slices.Contains(p.Scopes, scope)
	})
	if len(limited) == 0 {
		return p.Scopes
	}
	return limited
}

// checkChallenge returns an error for scopes that may not be requested: a login would not add them.
func (p *Provider) checkChallenge(scopes []string) error {
	for _, scope := range scopes {
		if p.Scopes != nil && !slices.Contains(p.Scopes, scope) {
			return fmt.Errorf("oauth: the scope %s is not in Provider.Scopes of %s",
				quoteUntrusted(scope), p.Issuer)
		}
	}
	return nil
}

func (p *Provider) serverScopes(scopes []string) []string {
	named := slices.Clone(scopes)
	for i, here := range named {
		if there, ok := p.ScopeNames[here]; ok {
			named[i] = there
		}
	}
	return named
}

func (p *Provider) localScopes(scopes []string) []string {
	named := slices.Clone(scopes)
	for here, there := range p.ScopeNames {
		for i := range named {
			if scopes[i] == there {
				named[i] = here
			}
		}
	}
	return named
}

// deviationHint ends an error with the Provider field that may allow what an authorization server
// refused. The server's text is not quoted, but only selects a hint.
func deviationHint(code, description string) string {
	field, text := "", strings.ToLower(description)
	switch {
	case code == "invalid_target", strings.Contains(text, "resource"):
		field = "NoResource, for one that does not support resource indicators"
	case strings.Contains(text, parameterAudience):
		field = "AuthorizationParameters, for one that needs the parameter audience"
	case strings.Contains(text, "prompt"):
		field = "NoPrompt"
	case code == "invalid_scope":
		field = "ScopeNames, for one that has other names for the scopes of the server"
	default:
		return ""
	}
	return " (see Provider." + field + ")"
}
