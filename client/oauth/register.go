package oauth

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/authhttp"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Client authentication methods of token endpoints (RFC 7591, section 2).
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"

	methodPrivateKey = "private_key_jwt"
)

type oauthClient struct {
	id, secret, method string
	dynamic            bool // registered dynamically

	registration *Registration // with methodPrivateKey it has the key; else nil
	audience     string        // audience of the client's assertions
}

// newRequest returns a form request with client authentication (RFC 6749, section 2.3).
func (c *oauthClient) newRequest(ctx context.Context, at string, form url.Values) (
	*http.Request, error) {
	if c.method != methodBasic {
		form.Set("client_id", c.id)
	}
	switch c.method {
	case methodPost:
		form.Set("client_secret", c.secret)
	case methodPrivateKey:
		assertion, err := c.registration.newAssertion(c.audience)
		if err != nil {
			return nil, err
		}
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", assertion)
	}
	r, err := authhttp.NewForm(ctx, at, form)
	if err == nil && c.method == methodBasic {
		authhttp.SetBasicAuth(r, c.id, c.secret)
	}
	return r, err
}

func (s *Source) registrationFor(issuer string) *Registration {
	for i := range s.opts.Registrations {
		if s.opts.Registrations[i].Issuer == issuer {
			return &s.opts.Registrations[i]
		}
	}
	return nil
}

// configuredClient returns the client of Options.Registrations, else of Client.MetadataURL if
// supported, else nil (client registration, "Registration Approaches").
func (s *Source) configuredClient(m *serverMetadata) *oauthClient {
	if r := s.registrationFor(m.Issuer); r != nil {
		c := &oauthClient{id: r.ClientID, secret: string(r.ClientSecret),
			method: chooseAuthMethod(r, m), registration: r, audience: m.Issuer}
		if s.providerFor(m.Issuer).TokenEndpointAudience {
			c.audience = m.Token
		}
		return c
	}
	if s.opts.Client.MetadataURL != "" && m.Documents {
		return &oauthClient{id: s.opts.Client.MetadataURL, method: methodNone}
	}
	return nil
}

// registeredClients returns the valid dynamic registrations at an issuer, the newest first.
func (s *Source) registeredClients(ctx context.Context, issuer string) ([]clientRecord, error) {
	record, err := loadRecord[clientsRecord](ctx, s.store, clientKey(issuer))
	if err != nil || record == nil {
		return nil, err
	}
	return slices.DeleteFunc(record.Clients, func(c clientRecord) bool {
		return c.ClientID == "" || !c.Expiry.IsZero() && time.Now().After(c.Expiry)
	}), nil
}

// clientByID returns a login's client, or nil if it is no longer configured or registered.
func (s *Source) clientByID(
	ctx context.Context, m *serverMetadata, id string,
) (*oauthClient, error) {
	if c := s.configuredClient(m); c != nil && c.id == id {
		return c, nil
	}
	registered, err := s.registeredClients(ctx, m.Issuer)
	for _, c := range registered {
		if c.ClientID == id {
			return c.clientID(), nil
		}
	}
	return nil, err
}

func (s *Source) redirectFor(ctx context.Context, m *serverMetadata) (
	path, last string, err error) {
	if s.configuredClient(m) != nil {
		return callbackPath, "", nil
	}
	registered, err := s.registeredClients(ctx, m.Issuer)
	if err == nil && len(registered) > 0 {
		last = registered[0].RedirectURI
	}
	return issuerPath(m.Issuer), last, err
}

const issuerMark = "{issuer}" // stands for the issuer in Options.RedirectURI

func (o *Options) redirectURI(issuer string) string {
	return strings.ReplaceAll(o.RedirectURI, issuerMark, url.QueryEscape(issuer))
}

func (c *clientRecord) clientID() *oauthClient {
	return &oauthClient{id: c.ClientID, secret: c.Secret, method: c.Method, dynamic: true}
}

// forgetClient removes a dynamic registration that the authorization server no longer knows.
func (s *Source) forgetClient(ctx context.Context, issuer, id string) error {
	unlock, err := s.store.Lock(ctx, clientKey(issuer))
	if err != nil {
		return storeError(err)
	}
	defer unlock()
	registered, err := s.registeredClients(ctx, issuer)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(registered, func(c clientRecord) bool { return c.ClientID == id })
	return saveRecord(ctx, s.store, clientKey(issuer), clientsRecord{kept})
}

// checkAuthMethod refuses to send a secret, without a configured method, to a server that does not
// list the method.
func (c *oauthClient) checkAuthMethod(m *serverMetadata) error {
	if c.registration == nil || c.registration.Method != "" || c.method == methodNone ||
		len(m.AuthMethods) == 0 || slices.Contains(m.AuthMethods, c.method) {
		return nil
	}
	return &Error{ErrRegistration, m.Issuer, fmt.Errorf("it names the client authentication "+
		"methods %s; set Registration.PrivateKey, or if it accepts %s all the same, Method",
		quoteUntrusted(strings.Join(m.AuthMethods, " ")), c.method)}
}

func chooseAuthMethod(r *Registration, m *serverMetadata) string {
	switch {
	case r.PrivateKey != nil:
		return methodPrivateKey
	case r.ClientSecret == "":
		return methodNone
	case r.Method != "":
		return r.Method
	case slices.Contains(m.AuthMethods, methodPost) && !slices.Contains(m.AuthMethods, methodBasic):
		return methodPost
	}
	return methodBasic // the default (RFC 8414, section 2)
}

func clientKey(issuer string) Key { return Key{Issuer: issuer} }

// findOrRegisterClient returns the client for a redirect URI, dynamically registered if needed.
func (s *Source) findOrRegisterClient(ctx context.Context, m *serverMetadata, redirectURI string) (
	*oauthClient, error) {
	if c := s.configuredClient(m); c != nil {
		return c, c.checkAuthMethod(m)
	}
	unlock, err := s.store.Lock(ctx, clientKey(m.Issuer))
	if err != nil {
		return nil, storeError(err)
	}
	defer unlock()
	registered, err := s.registeredClients(ctx, m.Issuer)
	if err != nil {
		return nil, err
	}
	for _, c := range registered {
		if c.RedirectURI == redirectURI {
			return c.clientID(), nil
		}
	}
	if m.Registration == "" {
		return nil, &Error{ErrRegistration, m.Issuer, errors.New("it does not register clients " +
			"by itself; register this client manually, and set Options.Registrations")}
	}
	record, err := s.registerClient(ctx, m, redirectURI)
	s.reportEvent(LoginEvent{Kind: ClientCreated, Issuer: m.Issuer, Err: err})
	if err != nil {
		return nil, &Error{ErrRegistration, m.Issuer, err}
	}
	registered = append([]clientRecord{*record}, registered...)
	err = saveRecord(ctx, s.store, clientKey(m.Issuer),
		clientsRecord{registered[:min(len(registered), maxClients)]})
	if err != nil {
		return nil, err
	}
	return record.clientID(), nil
}

// A clientDocument is client metadata, for registration (RFC 7591, section 2) or at MetadataURL.
type clientDocument struct {
	ClientID        string   `json:"client_id,omitempty"`
	Name            string   `json:"client_name,omitempty"`
	URI             string   `json:"client_uri,omitempty"`
	Logo            string   `json:"logo_uri,omitempty"`
	RedirectURIs    []string `json:"redirect_uris"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	AuthMethod      string   `json:"token_endpoint_auth_method"`
	ApplicationType string   `json:"application_type"`
}

// clientDocument returns this client's metadata, which is a web application if it has an https
// redirect URI (OpenID Connect Dynamic Client Registration, section 2).
func (o *Options) clientDocument(redirectURIs ...string) clientDocument {
	d := clientDocument{
		Name: o.Client.Name, URI: o.Client.URI, Logo: o.Client.Logo, RedirectURIs: redirectURIs,
		GrantTypes:    []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, AuthMethod: methodNone, ApplicationType: "native",
	}
	for _, text := range redirectURIs {
		if u, err := url.Parse(text); err == nil && u.Scheme == "https" {
			d.ApplicationType = "web"
		}
	}
	return d
}

// registerClient registers the client dynamically (RFC 7591, section 3).
func (s *Source) registerClient(ctx context.Context, m *serverMetadata, redirectURI string) (
	*clientRecord, error) {
	document := s.opts.clientDocument(redirectURI)
	for _, method := range []string{methodNone, methodBasic, methodPost} {
		if slices.Contains(m.AuthMethods, method) {
			document.AuthMethod = method
			break
		}
	}
	body, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Registration,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	response, _, err := s.guard.sendRequest(r, http.StatusCreated, http.StatusOK)
	if err != nil {
		return nil, registrationError(response, err)
	}
	return readRegistration(response, document.AuthMethod, redirectURI)
}

func registrationError(response []byte, err error) error {
	var refusal struct {
		Code string `json:"error"`
	}
	if jsonx.Unmarshal(response, &refusal) == nil && knownErrorCode(refusal.Code) != "" {
		return errors.Join(err, errors.New(refusal.Code))
	}
	return err
}

// readRegistration checks a registration response (RFC 7591, section 3.2.1). asked is the requested
// authentication method. Expiry 0 means that the secret does not expire.
func readRegistration(response []byte, asked, redirectURI string) (*clientRecord, error) {
	var given struct {
		ClientID string `json:"client_id"`
		Secret   string `json:"client_secret"`
		Expiry   int64  `json:"client_secret_expires_at"`
		Method   string `json:"token_endpoint_auth_method"`
	}
	if jsonx.Unmarshal(response, &given) != nil || given.ClientID == "" {
		return nil, errors.New("the answer has no client_id")
	}
	if given.Method == "" {
		given.Method = asked
		if given.Secret != "" && asked == methodNone {
			given.Method = methodBasic // the default (RFC 7591, section 2)
		}
	}
	if !slices.Contains([]string{methodNone, methodBasic, methodPost}, given.Method) ||
		given.Method != methodNone && given.Secret == "" {
		return nil, errors.New("the client would have to authenticate in a way that it cannot")
	}
	record := &clientRecord{ClientID: given.ClientID, Method: given.Method,
		RedirectURI: redirectURI}
	if given.Method == methodNone {
		return record, nil
	}
	record.Secret = given.Secret
	if given.Expiry != 0 {
		record.Expiry = time.Unix(given.Expiry, 0)
		if time.Now().After(record.Expiry) {
			return nil, errors.New("the secret has expired already")
		}
	}
	return record, nil
}

// ServeMetadata returns a handler that serves this client's metadata document at
// [ClientInfo].MetadataURL (draft-ietf-oauth-client-id-metadata-document). redirectURIs are its
// logins' redirect URIs; without any, those of a [Loopback]. The handler answers GET and HEAD.
func (o *Options) ServeMetadata(redirectURIs ...string) http.Handler {
	if len(redirectURIs) == 0 {
		redirectURIs = []string{"http://127.0.0.1" + callbackPath,
			"http://localhost" + callbackPath}
	}
	document := o.clientDocument(redirectURIs...)
	document.ClientID = o.Client.MetadataURL
	document.Name = cmp.Or(document.Name, "MCP client")
	body, err := json.Marshal(document)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the document can only be read", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "public, max-age=3600")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
}
