package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/urlrule"
)

// Options configure a [Source]. The zero value registers dynamically where an authorization
// server lets it, keeps tokens in memory, and has no way to log a person in: calls then fail with
// a [*LoginRequiredError].
type Options struct {
	// Interaction has the person log in, for example a [*Loopback]. Nil: calls that need a login
	// fail with a [*LoginRequiredError], for which the host calls [Source.Begin].
	Interaction Interaction
	// RedirectURI is where the browser comes back to in logins that [Source.Begin] begins.
	RedirectURI string

	// Registrations are the ids that authorization servers have given to this client.
	Registrations []Registration
	// MetadataURL is the https URL of the document that describes this client, see
	// [Options.ServeMetadata]. It is the client's id where an authorization server knows such
	// ids.
	MetadataURL string
	// NoDynamic forbids dynamic registration.
	NoDynamic bool
	// Client describes this client to people: in dynamic registrations and in the document at
	// MetadataURL.
	Client ClientInfo

	// Store keeps tokens and registrations. Nil: memory. Sources that share a store share
	// logins; so do processes that share a [FileStore].
	Store Store
	// Account tells people apart whose tokens are in one store, for programs that serve several.
	Account string

	// Scopes chooses the scopes that are asked for. Calls overlap. Nil: those of the server's
	// challenge, or else those that its metadata names (basic/authorization, "Scope Selection
	// Strategy").
	Scopes func(ctx context.Context, c ScopeChoice) ([]string, error)
	// NoOffline does not ask for refresh tokens (offline_access).
	NoOffline bool
	// ChooseIssuer chooses among the authorization servers that a server names. Nil: one that
	// Registrations names, or else the first.
	ChooseIssuer func(ctx context.Context, resource string, issuers []string) (string, error)
	// Aliases has, for issuers whose metadata spells them otherwise than the server does, the
	// spelling of the metadata by that of the server. Each is a trust that the host has checked.
	Aliases map[string]string
	// HTTPClient asks authorization servers. Redirects are refused whatever it says, and which
	// addresses it reaches is the host's business. Nil: a client that reaches no other network
	// than that of the endpoint or the public one; see "Addresses".
	HTTPClient *http.Client
	// Legacy lets the origin of a server without metadata be its authorization server, as in
	// revision 2025-03-26.
	Legacy bool
	// Observe is told what happens. It must be quick; calls overlap. Nil: nobody is.
	Observe func(Event)
}

// A Registration is an id that an authorization server has given to this client.
type Registration struct {
	// Issuer is the authorization server. No other sees the id or the secret.
	Issuer string
	// ClientID and ClientSecret are what it has given. Public clients have no secret.
	ClientID     string
	ClientSecret Secret
	// Method is how the secret is sent: client_secret_basic or client_secret_post. Empty: what
	// the metadata of the authorization server names, basic first.
	Method string
}

// A ClientInfo describes a client to people. All members may be empty.
type ClientInfo struct {
	Name       string // shown when the person is asked
	URI        string // a page about the client
	Logo       string // an image
	SoftwareID string
}

// A ScopeChoice is what is known when scopes are chosen.
type ScopeChoice struct {
	// Challenge are the scopes that the server has named when it refused a request.
	Challenge []string
	// Supported are those that the metadata of the server names.
	Supported []string
	// Requested are those that were asked for before; they are asked for again.
	Requested []string
}

// An EventKind says what an [Event] is about.
type EventKind string

// The kinds of event.
const (
	LoginBegan    EventKind = "login_began"
	LoginEnded    EventKind = "login_ended"
	TokenRefresh  EventKind = "refreshed"
	ClientCreated EventKind = "registered"
	LoggedOut     EventKind = "logged_out"
)

// An Event is something that a [Source] did. It holds no secrets.
type Event struct {
	Kind     EventKind
	Issuer   string   // empty while it is not known
	Resource string   // the same
	Scopes   []string // that were asked for
	Err      error    // nil: it succeeded
}

// check returns what is wrong with the options.
func (o *Options) check() error {
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
	if o.MetadataURL != "" {
		u, err := urlrule.Check(o.MetadataURL)
		if err != nil {
			return fmt.Errorf("oauth: Options.MetadataURL: %w", err)
		}
		if u.Scheme != "https" || strings.Trim(u.Path, "/") == "" || u.Fragment != "" {
			return errors.New("oauth: Options.MetadataURL must be an https URL with a path")
		}
	}
	if o.RedirectURI != "" {
		if _, err := urlrule.Check(o.RedirectURI); err != nil {
			return fmt.Errorf("oauth: Options.RedirectURI: %w", err)
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
	if !slices.Contains([]string{"", methodBasic, methodPost}, r.Method) {
		return fmt.Errorf("oauth: the Registration for %s has the method %q; known are %s and %s",
			r.Issuer, r.Method, methodBasic, methodPost)
	}
	return nil
}

// checkEndpoint reads the URL of an MCP endpoint.
func checkEndpoint(endpoint string) (*url.URL, error) {
	u, err := urlrule.Check(endpoint)
	if err != nil {
		return nil, fmt.Errorf("oauth: the endpoint: %w", err)
	}
	if strings.Contains(endpoint, "#") {
		return nil, errors.New("oauth: the endpoint has a fragment")
	}
	return u, nil
}
