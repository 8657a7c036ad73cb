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
	// leeway bounds the difference of the clocks of an issuer and of the server. Clocks are set by
	// the network today, and more would let tokens live on that have expired.
	leeway                 = time.Minute
	defaultMaxCachedTokens = 4096
	// maxTokenBytes bounds a token. Tokens with many claims have 2 or 3 KiB.
	maxTokenBytes = 16 << 10
)

// Options configure a [ResourceServer]. Resource and Issuers are required.
type Options struct {
	// Resource is the resource identifier of the MCP server (RFC 8707): the URL of its endpoint
	// as clients know it, such as "https://mcp.example.com/mcp". It must be https, or http to a
	// loopback host, and have no query and no fragment. A token must have it in its audience. It
	// is never derived from a request.
	Resource string
	// Issuers are the authorization servers whose tokens are accepted. No two have the same URL.
	Issuers []Issuer
	// Scopes are needed for every request, besides those that a tool, prompt or resource needs
	// (server.Tool.Scopes).
	Scopes []string
	// Supported is scopes_supported of the metadata: the few scopes with which a client can
	// begin. Nil: Scopes. "offline_access" is an error: clients request it of the authorization
	// server, whatever the resource.
	Supported []string
	// Implies reports whether the granted scope have includes the scope need. It is not called
	// for equal scopes, which always include each other. Calls may overlap. Nil: no scope
	// includes another.
	Implies func(have, need string) bool
	// Subject returns the principal of a verified token, which must not be anonymous. If it
	// returns an error or panics, the token is refused with 401, and the observer of the server
	// gets the error. Calls may overlap. Nil: the issuer and the subject of the token. A token
	// without a subject is refused, see Issuer.Machines.
	Subject func(t *Token) (protocol.Principal, error)
	// Anonymous accepts requests without a token, as anonymous and without scopes. A request with
	// a token that is refused is still refused. It cannot be combined with Scopes.
	Anonymous bool

	// Name is resource_name of the metadata, the name of the resource that people are shown. It may
	// be empty.
	Name string

	// MaxCachedTokens bounds the verified tokens in the cache, of 2 to 3 KiB each: a token is
	// cached for up to five minutes, an introspected one for up to 30 seconds. 0: 4096; negative:
	// each request verifies its token.
	MaxCachedTokens int
	// HTTPClient sends the requests to issuers. It never follows redirects: its CheckRedirect is
	// not called. A Timeout of 0 is 5 seconds. Nil: a client that uses the proxy of the
	// environment.
	HTTPClient *http.Client
	// FetchFailed is called after each fetch of an issuer's keys that failed. No request shows
	// such a failure while older keys are used, until they are a day old. Calls may overlap; each
	// has a goroutine of its own. Nil: failures are not reported.
	FetchFailed func(issuerURL string, err error)
}

// An Issuer is an authorization server whose tokens are accepted. At most one of KeysURL, Keys,
// Introspection and Verify may be set. With none of them, tokens are JSON Web Tokens, and the
// metadata of the issuer has the URL of its keys.
type Issuer struct {
	// URL is the issuer identifier, as in the tokens and the metadata, which is compared byte for
	// byte: https, or http to a loopback host.
	URL string
	// KeysURL is the URL of the JSON Web Key Set, in the place of the jwks_uri of the metadata.
	KeysURL string
	// Keys is a JSON Web Key Set (RFC 7517), for issuers whose keys are never fetched.
	Keys []byte
	// Introspection has the issuer introspect each token (RFC 7662), also JSON Web Tokens. One
	// issuer may have it or Verify: tokens that name no issuer are sent there.
	Introspection *Introspection
	// Verify looks a token up where the issuer has an endpoint of its own in the place of
	// introspection, such as GitHub and Google. It returns what the issuer says of the token, or
	// [ErrInactive] for one that is not valid, which gets 401. Any other error, a panic, and a call
	// that does not return within 15 seconds are 503. Audience must be the resources that the
	// token was issued for; where the issuer has none, it is empty and ClientID the client that the
	// token was issued to. The server compares them with Options.Resource and Audiences: a token
	// that the issuer gave to somebody else's client must not be accepted because it is valid.
	// A token that is bound to a key is ErrInactive, since its sender has to prove
	// more than this server checks.
	// Expiry may be zero. Results are cached as those of introspection, calls for one token are
	// shared, and 64 calls may overlap.
	Verify func(ctx context.Context, token string) (*Token, error)
	// MaxFailedLookUps bounds the calls of Verify, or introspections, that end without an accepted
	// token, a minute, with those in flight: made-up tokens must not have an issuer asked without
	// end. Beyond it a token that was not accepted in the last five minutes gets 503. One address
	// may use a quarter, unless it is private, as those of proxies are. 0: 60 for Verify, since
	// GitHub permits 5000 an hour, and 1200 for Introspection; negative is an error.
	MaxFailedLookUps int

	// Audiences are accepted in the place of Options.Resource, for authorization servers without
	// resource indicators (RFC 8707). They are compared byte for byte. Each must belong to this
	// server alone.
	Audiences []string
	// NoAudience accepts tokens without an audience, for authorization servers that write none. A
	// token with the audience of another server is still refused.
	NoAudience *NoAudience
	// ScopesOf returns the scopes of a verified token, for issuers that have them elsewhere or call
	// them otherwise than tools do. t.Scopes are those of the claims scope or scp. If it returns an
	// error, panics, or returns more than 1000 scopes or what is none, the token is refused with
	// 401; if it does not return within 15 seconds, the request gets 503. Calls may overlap; the
	// result is cached with the token. Nil: t.Scopes.
	ScopesOf func(t *Token) ([]string, error)
	// Machines accepts tokens without the claim sub: their principal is "client:" and the client
	// id. It is for issuers whose tokens without a person are all of programs. Otherwise two people
	// who use one client would be one principal, so that such tokens are refused, unless
	// Options.Subject names their principal.
	Machines bool
	// Type is a type in the header of JSON Web Tokens that is accepted besides at+jwt (RFC 9068),
	// JWT and a missing one, in any case of letters, such as "Bearer". Empty: none.
	Type string
	// Unmarked accepts JSON Web Tokens that nothing tells from ID tokens: their type is not at+jwt,
	// and they have none of the claims scope, scp, client_id, cid, appid and azpacr. An ID token
	// has the client id as its audience, so that it must not be combined with that in Audiences.
	// ID tokens that can be told, by their nonce or hashes, are refused with it, too.
	Unmarked bool
	// LoginURL is the authorization server that metadata and clients use in the place of URL, for
	// an issuer that signs tokens and has no login of its own: version 1 of Entra ID, or any
	// tenant. Empty: URL.
	LoginURL string
	// AnyTenant accepts tokens of all tenants of the issuer, whoever owns them. Exactly one segment
	// of the path of URL is "{tenantid}", which stands for a GUID that the claim tid of the token
	// must repeat. Principals and Token.Issuer have the issuer of the token, with its tenant. It
	// needs LoginURL, and KeysURL or Keys.
	AnyTenant bool
}

// An Introspection is the introspection endpoint of an [Issuer], and the credentials for it (RFC
// 7662, section 2). All fields are required.
type Introspection struct {
	// URL is the introspection endpoint: https, or http to a loopback host.
	URL string
	// ClientID and ClientSecret authenticate this server, by HTTP Basic.
	ClientID, ClientSecret string
}

// Format implements [fmt.Formatter]. It prints the client id alone for every verb.
func (i Introspection) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, i.LogValue().String())
}

// LogValue implements [slog.LogValuer] as Format does.
func (i Introspection) LogValue() slog.Value {
	return slog.StringValue("introspection by client " + i.ClientID)
}

// check returns the first mistake in the options, or nil.
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

// checkIssuers returns the first mistake in Issuers, or nil.
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

// check returns the first mistake in the issuer, or nil. newIssuer checks the keys.
func (i *Issuer) check() error {
	if i.URL == "" {
		return errors.New("bearer: Issuer.URL is empty")
	}
	if err := i.checkTenants(); err != nil {
		return err
	}
	plain := strings.Replace(i.URL, tenantMark, "tenant", 1) // braces are for AnyTenant alone
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

// checkIdentifier checks the identifier of a resource (RFC 8707, section 2) or an issuer (RFC 8414,
// section 2). field names the option. Braces would be wildcards in the pattern of a ServeMux.
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

// checkEndpoint checks that text is the URL of an endpoint: https, or http to a loopback host.
func checkEndpoint(field, text string) error {
	if _, err := urlrule.Check(text); err != nil {
		return fmt.Errorf("bearer: %s: %w", field, err)
	}
	return nil
}

// checkScopes returns the first mistake in Scopes and Supported, or nil.
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
