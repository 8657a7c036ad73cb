package bearer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	leeway                 = time.Minute // tolerated clock skew of issuers
	defaultMaxCachedTokens = 4096
	maxTokenBytes          = 16 << 10 // tokens with many claims have 2 or 3 KiB
)

// Options configure a [ResourceServer]. Resource and Issuers are required.
type Options struct {
	// Resource is the MCP server's resource identifier (RFC 8707): the URL of its endpoint as
	// clients know it, such as "https://mcp.example.com/mcp". It must be https, or http to a
	// loopback host, without query and fragment. Tokens must have it in their audience.
	Resource string
	// Issuers are the authorization servers whose tokens are accepted, with distinct URLs.
	Issuers []Issuer
	// Scopes are required for every request, in addition to those of its tool, prompt or resource.
	Scopes []string
	// Supported is scopes_supported of the metadata: the scopes that a client requests at first.
	// Nil: Scopes. "offline_access" is an error: it is not a scope of a resource.
	Supported []string
	// Implies reports whether scope have includes scope need. Calls may overlap. Nil: always false.
	Implies func(have, need string) bool
	// Subject returns a verified token's principal, which must not be anonymous. After an error or
	// panic the token is refused with 401; only the server's observer gets the cause. Calls may
	// overlap. Nil: issuer and subject; a token without a subject is refused, see Issuer.Machines.
	Subject func(t *Token) (protocol.Principal, error)
	// Anonymous accepts requests without a token, with no scopes. Invalid tokens are still refused.
	// It cannot be combined with Scopes.
	Anonymous bool

	// Name is resource_name in the metadata, which users see. It may be empty.
	Name string

	// MaxCachedTokens limits the cache of verified tokens, of 2 to 3 KiB each. A token is cached
	// for up to 5 minutes, an introspected token for up to 30 seconds. 0: 4096; negative: no cache.
	MaxCachedTokens int
	// HTTPClient sends the requests to issuers. Redirects are never followed: its CheckRedirect is
	// not called. A Timeout of 0 is 5 seconds. Nil: a client that uses the environment's proxy.
	HTTPClient *http.Client
	// FetchFailed, if not nil, is called after each failed fetch of an issuer's keys, in its own
	// goroutine. Requests do not show the failure until the keys are a day old. Calls may overlap.
	FetchFailed func(issuerURL string, err error)
}

// An Issuer is an accepted authorization server. At most one of KeysURL, Keys, Introspection and
// Verify may be set. Without them, tokens are JSON Web Tokens with keys found by the metadata.
type Issuer struct {
	// URL is the issuer identifier, compared byte for byte: https, or http to a loopback host.
	URL string
	// KeysURL is the URL of the JSON Web Key Set, instead of the metadata's jwks_uri.
	KeysURL string
	// Keys is a JSON Web Key Set (RFC 7517), for issuers whose keys are never fetched.
	Keys []byte
	// Introspection sends each token, even a JSON Web Token, to the issuer (RFC 7662). Only one
	// issuer may have Introspection or Verify: it gets the tokens that name no issuer.
	Introspection *Introspection
	// Verify looks a token up at an issuer with a proprietary endpoint instead of introspection,
	// such as GitHub and Google. It returns the claims, or [ErrInactive] (401) for an invalid or
	// key-bound token (the binding is not checked). Any other error, a panic and a call of more
	// than 15 seconds are 503. Audience must be the resources that the token is for; if the issuer
	// has none, Audience is empty, and ClientID is the token's client. The server compares them
	// with Options.Resource and Audiences: another client's valid token is refused. Expiry may be
	// zero. Results are cached like introspection's results. Up to 64 calls may overlap.
	Verify func(ctx context.Context, token string) (*Token, error)
	// MaxFailedLookUps limits the look-ups per minute, by Verify or Introspection, that are in
	// flight or did not accept the token, lest made-up tokens flood the issuer. Beyond it tokens
	// not accepted in the last five minutes get 503. One address may use a quarter, unless it is
	// private (perhaps a proxy). 0: 60 for Verify, 1200 for Introspection; negative is an error.
	MaxFailedLookUps int

	// Audiences are accepted besides Options.Resource, for authorization servers without resource
	// indicators (RFC 8707). They are compared byte for byte, and must belong to this server alone.
	Audiences []string
	// NoAudience accepts tokens without an audience, for authorization servers that write none. A
	// token with the audience of another server is still refused.
	NoAudience *NoAudience
	// ScopesOf returns a verified token's scopes, for issuers with other claims or names. t.Scopes
	// come from the claim scope or scp. After an error, a panic, more than 1000 scopes or an
	// invalid scope the token is refused with 401; after 15 seconds the request gets 503. Calls may
	// overlap; the result is cached with the token. Nil: t.Scopes.
	ScopesOf func(t *Token) ([]string, error)
	// Machines accepts tokens without the claim sub, with the principal "client:" and the client
	// id. Use it for issuers that issue such tokens to programs alone: otherwise two users of one
	// client would be one principal. If false, they are refused, unless Options.Subject is set.
	Machines bool
	// Type is an accepted JWT type, such as "Bearer", besides at+jwt and JWT. Case does not matter.
	Type string
	// Unmarked accepts JSON Web Tokens that may be ID tokens: their type is not at+jwt, and they
	// lack scope, scp, client_id, cid, appid and azpacr. The client id, which is an ID token's
	// audience, must then not be in Audiences. ID tokens with a nonce or hashes are still refused.
	Unmarked bool
	// LoginURL is the authorization server in the metadata, for an issuer that signs tokens but has
	// no login: version 1 of Entra ID, or AnyTenant. Empty: URL.
	LoginURL string
	// AnyTenant accepts tokens of all tenants. One segment of URL's path is "{tenantid}", which
	// stands for the GUID in the claim tid. Principals and Token.Issuer have the tenant. It needs
	// LoginURL, and KeysURL or Keys.
	AnyTenant bool
}

// An Introspection is an [Issuer]'s introspection endpoint (RFC 7662, section 2). Set all fields.
type Introspection struct {
	URL string // https, or http to a loopback host
	// ClientID and ClientSecret authenticate this server with HTTP Basic.
	ClientID, ClientSecret string
}

// Format implements [fmt.Formatter]. It prints only the client id.
func (i Introspection) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, i.LogValue().String())
}

// LogValue implements [slog.LogValuer] as Format does.
func (i Introspection) LogValue() slog.Value {
	return slog.StringValue("introspection by client " + i.ClientID)
}

func (o *Options) check() error {
	if err := checkIdentifier("Resource", o.Resource); err != nil {
		return err
	}
	if err := o.checkIssuers(); err != nil {
		return err
	}
	if o.Anonymous && len(o.Scopes) > 0 {
		return errors.New("bearer: Options.Anonymous and Options.Scopes exclude each other")
	}
	return o.checkScopes()
}

func (o *Options) checkIssuers() error {
	if len(o.Issuers) == 0 {
		return errors.New("bearer: Options.Issuers is empty: no token could be accepted")
	}
	seen, introspecting := map[string]bool{}, 0
	for _, issuer := range o.Issuers {
		if err := issuer.check(); err != nil {
			return err
		}
		if seen[issuer.URL] {
			return fmt.Errorf("bearer: two entries of Options.Issuers have the URL %s", issuer.URL)
		}
		seen[issuer.URL] = true
		if issuer.Introspection != nil || issuer.Verify != nil {
			introspecting++
		}
	}
	if introspecting > 1 {
		return errors.New("bearer: two issuers have Introspection or Verify: a token that names no " +
			"issuer would be shown to the wrong one")
	}
	return nil
}

func (i *Issuer) check() error {
	if i.URL == "" {
		return errors.New("bearer: Issuer.URL is empty")
	}
	if err := i.checkTenants(); err != nil {
		return err
	}
	plain := strings.Replace(i.URL, tenantMark, "tenant", 1) // only AnyTenant allows braces
	if err := checkIdentifier("Issuer.URL", plain); err != nil {
		return err
	}
	if err := i.checkAudiences(); err != nil {
		return err
	}
	if i.MaxFailedLookUps < 0 {
		return fmt.Errorf("bearer: issuer %s: MaxFailedLookUps is negative", i.URL)
	}
	ways := 0
	for _, set := range []bool{i.KeysURL != "", i.Keys != nil, i.Introspection != nil,
		i.Verify != nil} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		return fmt.Errorf("bearer: issuer %s: KeysURL, Keys, Introspection and Verify exclude each "+
			"other", i.URL)
	}
	if i.KeysURL != "" {
		return checkEndpoint("Issuer.KeysURL", i.KeysURL)
	}
	if i.Introspection != nil {
		if i.Introspection.ClientID == "" || i.Introspection.ClientSecret == "" {
			return fmt.Errorf("bearer: issuer %s: Introspection needs ClientID and ClientSecret",
				i.URL)
		}
		return checkEndpoint("Introspection.URL", i.Introspection.URL)
	}
	return nil
}

// checkIdentifier checks the identifier of a resource (RFC 8707, section 2) or issuer (RFC 8414,
// section 2). field is the option. Braces would be wildcards in a ServeMux pattern.
func checkIdentifier(field, text string) error {
	if text == "" {
		return fmt.Errorf("bearer: %s is empty", field)
	}
	if err := checkEndpoint(field, text); err != nil {
		return err
	}
	u, err := url.Parse(text)
	if err != nil || strings.ContainsAny(text, "?#") {
		return fmt.Errorf("bearer: %s must have no query and no fragment", field)
	}
	if strings.ContainsAny(u.Path, "{}") {
		return fmt.Errorf("bearer: %s must have no braces in its path", field)
	}
	return nil
}

func checkEndpoint(field, text string) error {
	if _, err := urlrule.Check(text); err != nil {
		return fmt.Errorf("bearer: %s: %w", field, err)
	}
	return nil
}

func (o *Options) checkScopes() error {
	for _, text := range slices.Concat(o.Scopes, o.Supported) {
		if text == "offline_access" {
			return errors.New("bearer: offline_access is for clients to ask of the " +
				"authorization server, not for a resource server to name")
		}
		if !rules.IsScopeList(text) {
			return errors.New("bearer: scopes must be printable ASCII without space, quote and " +
				"backslash, and not empty")
		}
	}
	return nil
}
