package bearer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/internal/limit"
	"github.com/rondo-mcp/rondo/internal/scope"
	"github.com/rondo-mcp/rondo/internal/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// DefaultLeeway is how far the clocks of an issuer and of the server may differ.
	DefaultLeeway = time.Minute
	// DefaultMaxTokenBytes bounds a token. Tokens with many claims have 2 or 3 KiB.
	DefaultMaxTokenBytes = 16 << 10
	// DefaultMaxCachedTokens is how many verified tokens are remembered.
	DefaultMaxCachedTokens = 4096
)

// Options configure a [Guard]. Resource and Issuers are required.
type Options struct {
	// Resource is the URL of the MCP endpoint as clients know it, such as
	// "https://mcp.example.com/mcp": https, or http to a loopback host, without query and
	// fragment. Tokens must have been issued for it. It is never taken from what a request
	// says.
	Resource string
	// Issuers are the authorization servers whose tokens are accepted.
	Issuers []Issuer
	// Scopes are needed for every request. Scopes of single tools, prompts and resources
	// are theirs: server.Tool.Scopes.
	Scopes []string
	// Supported are the scopes that the metadata names: the few with which a client can begin.
	// Nil: Scopes. "offline_access" is not for a resource server to ask for, and is an error.
	Supported []string
	// Implies reports whether the scope have, which was granted, includes the scope need. A
	// scope always includes itself. Calls overlap. Nil: scopes include nothing else.
	Implies func(have, need string) bool
	// Audiences are accepted in a token in the place of Resource, for authorization servers
	// that do not know resource indicators (RFC 8707). They are compared byte for byte. Each
	// must belong to this server alone.
	Audiences []string
	// Subject names the principal of a token. An error refuses the token with 401; it goes to
	// the observer of the server. Calls overlap. Nil: the issuer and the subject of the token,
	// or "client:" and the id of the client where a token is of no person.
	Subject func(t *Token) (protocol.Principal, error)
	// Anonymous lets requests without a token pass, as anonymous and without scopes. A token
	// that is refused stays refused. It cannot be combined with Scopes.
	Anonymous bool

	// Name and Documentation are shown to people: the name of the resource, and the URL of a
	// page about it. They may be empty.
	Name, Documentation string

	// Algorithms are the signature algorithms that are accepted, of RS256, RS384, RS512,
	// PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA. Nil: all of these.
	Algorithms []string
	// StrictType accepts only tokens whose type is at+jwt (RFC 9068). Without it the types JWT
	// and none are accepted as well, which many authorization servers send.
	StrictType bool
	// Leeway is how far the clock of an issuer may differ. 0: DefaultLeeway, negative: not at
	// all.
	Leeway time.Duration
	// MaxTokenBytes bounds a token; longer ones are refused with 400. 0: DefaultMaxTokenBytes.
	MaxTokenBytes int
	// MaxCachedTokens is how many verified tokens are remembered, so that only the first
	// request with each is slow. 0: DefaultMaxCachedTokens, negative: none.
	MaxCachedTokens int
	// HTTPClient asks the issuers. Redirects are refused whatever it says. Nil: a client that
	// uses the proxy of the environment.
	HTTPClient *http.Client
	// FetchFailed is told of each fetch of an issuer's keys that failed: the old ones are used on
	// for a day, which no request shows. It must be quick; calls overlap. Nil: nobody is told.
	FetchFailed func(issuerURL string, err error)
}

// An Issuer is an authorization server whose tokens are accepted. With its URL alone tokens are
// JSON Web Tokens, and its keys are found by its metadata.
type Issuer struct {
	// URL is the identifier of the issuer, spelled as in its tokens and its metadata: https, or
	// http to a loopback host.
	URL string
	// KeysURL is where its keys are (JWKS). Empty: its metadata says so.
	KeysURL string
	// Keys are its keys, a JSON Web Key Set, for issuers whose keys are never fetched.
	Keys []byte
	// Introspection asks the issuer about each token (RFC 7662) instead of reading it. Nil:
	// tokens are JSON Web Tokens. One issuer may have it: tokens that name no issuer go there.
	Introspection *Introspection
}

// Introspection says where and as whom an issuer is asked about tokens.
type Introspection struct {
	// URL is the introspection endpoint: https, or http to a loopback host.
	URL string
	// ClientID and ClientSecret authenticate this server there (HTTP Basic).
	ClientID, ClientSecret string
}

// Format implements [fmt.Formatter]. It leaves the secret out, whatever the verb.
func (i Introspection) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, i.text()) }

// LogValue implements [slog.LogValuer] as Format does.
func (i Introspection) LogValue() slog.Value { return slog.StringValue(i.text()) }

func (i Introspection) text() string { return "introspection by client " + i.ClientID }

// algorithms are those that an issuer can sign with and a resource server can check without a
// secret: none of the symmetric ones, and not "none".
func algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
		"EdDSA"}
}

// check returns what is wrong with the options.
func (o *Options) check() error {
	if err := checkIdentifier("Resource", o.Resource); err != nil {
		return err
	}
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
		if issuer.Introspection != nil {
			introspecting++
		}
	}
	if introspecting > 1 {
		return errors.New("bearer: two issuers have Introspection: a token that names no issuer " +
			"would be shown to the wrong one")
	}
	if o.Anonymous && len(o.Scopes) > 0 {
		return errors.New("bearer: Options.Anonymous and Options.Scopes exclude each other")
	}
	return errors.Join(o.checkScopes(), o.checkNumbers(), o.checkAlgorithms())
}

func (i *Issuer) check() error {
	if err := checkIdentifier("Issuer.URL", i.URL); err != nil {
		return err
	}
	ways := 0
	for _, set := range []bool{i.KeysURL != "", i.Keys != nil, i.Introspection != nil} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		return fmt.Errorf("bearer: issuer %s: KeysURL, Keys and Introspection exclude each other",
			i.URL)
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

// checkIdentifier checks the URL of a resource or an issuer, which is compared byte for byte.
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
		if !scope.Valid(text) {
			return errors.New("bearer: scopes must be printable ASCII without space, quote and " +
				"backslash, and not empty")
		}
	}
	return nil
}

func (o *Options) checkNumbers() error {
	if o.MaxTokenBytes < 0 {
		return errors.New("bearer: Options.MaxTokenBytes is negative; 0 is the default")
	}
	return nil
}

func (o *Options) checkAlgorithms() error {
	for _, name := range o.Algorithms {
		if !slices.Contains(algorithms(), name) {
			return fmt.Errorf("bearer: Options.Algorithms has %q; accepted are %s", name,
				strings.Join(algorithms(), ", "))
		}
	}
	return nil
}

// signatureAlgorithms returns the accepted algorithms as the library spells them.
func (o *Options) signatureAlgorithms() []jose.SignatureAlgorithm {
	names := o.Algorithms
	if names == nil {
		names = algorithms()
	}
	accepted := make([]jose.SignatureAlgorithm, len(names))
	for i, name := range names {
		accepted[i] = jose.SignatureAlgorithm(name)
	}
	return accepted
}

func (o *Options) leeway() time.Duration {
	if o.Leeway == 0 {
		return DefaultLeeway
	}
	return max(o.Leeway, 0)
}

func (o *Options) maxTokenBytes() int { return limit.Or(o.MaxTokenBytes, DefaultMaxTokenBytes) }
