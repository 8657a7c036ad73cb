package oauth

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
)

// Options configure a [Source]. With the zero value the client is registered dynamically, tokens
// are kept in memory, and calls that need a login fail with a [*LoginRequiredError].
type Options struct {
	// Interaction performs logins, for example a [*Loopback]. Nil: calls that need a login fail
	// with a [*LoginRequiredError], for which the host calls [Source.Begin].
	Interaction Interaction
	// RedirectURI is the redirect URI of [Source.Begin], which fails without it: https, or http to
	// a loopback host. "{issuer}" in the path or query stands for the escaped issuer: Finish then
	// compares path and query, for mix-up protection (RFC 9700, section 4.4.2.2).
	RedirectURI string
	// RequireIss refuses authorization servers without RFC 9207, except those in Registrations or
	// Providers. If authorization responses lack iss, a malicious authorization server that
	// registered this client's redirect URI at another one can get that server's code.
	RequireIss bool

	// Registrations are client ids issued to this client, at most one per issuer, and preferred.
	Registrations []Registration
	// Providers are the accepted deviations of authorization servers, at most one per issuer.
	Providers []Provider
	// Machine gets tokens: [ClientCredentials], [Workload] or [Enterprise]. Nil: a user logs in.
	Machine Machine
	// Client describes this client, in dynamic registrations and in its metadata document.
	Client ClientInfo

	// Store keeps logins and registrations. Nil: a [NewMemoryStore] for this Source. Sources with
	// one store, endpoint and Account share a login, also across processes ([NewFileStore]).
	Store   TokenStore
	Account string // the user, if the store has several users' logins

	// Scopes returns the scopes to request. An error ends the login. Calls may overlap. Nil: see
	// basic/authorization, "Scope Selection Strategy".
	Scopes func(ctx context.Context, c ScopeChoice) ([]string, error)
	// HTTPClient sends the requests to authorization servers, and decides which addresses it
	// connects to. Redirects are never followed: its CheckRedirect is not called. A Timeout of 0 is
	// 5 seconds. Nil: a client that checks addresses; see "Addresses".
	HTTPClient *http.Client
	// Legacy makes the origin of a server without metadata its authorization server (2025-03-26).
	Legacy bool
	// Observe, if not nil, is called with each event, and delays logins. Calls may overlap.
	Observe func(LoginEvent)
}

// A Registration is a client id that an authorization server has issued to this client.
type Registration struct {
	// Issuer, as its metadata names it, is the only recipient of the credentials.
	Issuer string
	// ClientID and ClientSecret are the credentials. Public clients have no secret.
	ClientID     string
	ClientSecret Secret
	// PrivateKey replaces the secret (private_key_jwt): RSA, P-256, P-384 or Ed25519. May be nil.
	PrivateKey crypto.Signer
	// KeyID is PrivateKey's kid, or empty. Certificate (DER), if set, adds its thumbprint to
	// assertions, as Entra ID requires.
	KeyID       string
	Certificate []byte
	// Method is client_secret_basic, client_secret_post or private_key_jwt. Empty: with a key the
	// last, else one that the authorization server's metadata lists, basic first.
	Method string
}

// Format implements [fmt.Formatter]. It prints only issuer and client id: a key might print itself.
func (r Registration) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "client "+r.ClientID+" at "+r.Issuer)
}

// A ClientInfo describes a client. Users see the first three fields. All may be empty.
type ClientInfo struct {
	Name string // client_name
	URI  string // client_uri: a page about the client
	Logo string // logo_uri: an image
	// MetadataURL is the https URL of the client id metadata document, see [Options.ServeMetadata].
	// The URL is the client id at authorization servers that support such documents.
	MetadataURL string
}

// A ScopeChoice has the inputs of Options.Scopes. Its slices must not be changed.
type ScopeChoice struct {
	Challenge []string // of the server's challenge
	Supported []string // scopes_supported of the server's metadata
	// Requested are the present login's scopes. A login that does not request them loses them.
	Requested []string
}

// A LoginEventKind is the kind of a [LoginEvent].
type LoginEventKind string

const (
	LoginBegan    LoginEventKind = "login_began"
	LoginEnded    LoginEventKind = "login_ended"
	TokenRefresh  LoginEventKind = "refreshed"
	ClientCreated LoginEventKind = "registered" // registered dynamically
	LoggedOut     LoginEventKind = "logged_out"
)

// A LoginEvent is an action of a [Source]. It holds no secrets.
type LoginEvent struct {
	Kind     LoginEventKind
	Issuer   string
	Resource string   // empty for ClientCreated
	Scopes   []string // requested scopes, or scopes of a refreshed token
	Err      error    // nil on success
}

func (o *Options) check(endpoint string) error {
	seen := map[string]bool{}
	for _, r := range o.Registrations {
		if err := r.check(); err != nil {
			return err
		}
		if seen[r.Issuer] {
			return fmt.Errorf("oauth: two entries of Options.Registrations are for %s", r.Issuer)
		}
		seen[r.Issuer] = true
	}
	if err := o.checkProviders(endpoint); err != nil {
		return err
	}
	if o.Machine != nil {
		if o.Interaction != nil || o.RedirectURI != "" {
			return errors.New("oauth: Options.Machine is for programs without a person, and an " +
				"Interaction or a RedirectURI for others")
		}
		if err := o.Machine.check(); err != nil {
			return err
		}
	}
	if o.Client.MetadataURL != "" {
		u, err := urlrule.Check(o.Client.MetadataURL)
		if err != nil {
			return fmt.Errorf("oauth: ClientInfo.MetadataURL: %w", err)
		}
		if u.Scheme != "https" || strings.Trim(u.Path, "/") == "" || u.Fragment != "" {
			return errors.New("oauth: ClientInfo.MetadataURL must be an https URL with a path")
		}
	}
	if o.RedirectURI != "" {
		if _, err := urlrule.Check(o.redirectURI(endpoint)); err != nil {
			return fmt.Errorf("oauth: Options.RedirectURI: %w", err)
		}
		if strings.Contains(o.RedirectURI, "#") { // a callback has no fragment
			return errors.New("oauth: Options.RedirectURI has a fragment")
		}
	}
	return nil
}

func (r *Registration) check() error {
	if r.Issuer == "" {
		return errors.New("oauth: a Registration has no Issuer: its secret would be sent to " +
			"whatever authorization server an MCP server names")
	}
	if _, err := urlrule.Check(r.Issuer); err != nil {
		return fmt.Errorf("oauth: Registration.Issuer: %w", err)
	}
	if r.ClientID == "" {
		return fmt.Errorf("oauth: the Registration for %s has no ClientID", r.Issuer)
	}
	if !slices.Contains([]string{"", methodBasic, methodPost, methodPrivateKey}, r.Method) {
		return fmt.Errorf("oauth: the Registration for %s has the method %q; known are %s, %s and "+
			"%s", r.Issuer, r.Method, methodBasic, methodPost, methodPrivateKey)
	}
	if r.PrivateKey == nil {
		if r.Method == methodPrivateKey {
			return fmt.Errorf("oauth: the Registration for %s has no PrivateKey", r.Issuer)
		}
		return nil
	}
	if r.ClientSecret != "" || r.Method != "" && r.Method != methodPrivateKey {
		return fmt.Errorf("oauth: the Registration for %s has a key, and a secret or another method",
			r.Issuer)
	}
	if _, err := r.newSigner(); err != nil {
		return fmt.Errorf("oauth: the Registration for %s: %w", r.Issuer, err)
	}
	return nil
}
