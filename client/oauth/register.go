package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// The ways in which clients authenticate at a token endpoint.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
)

// A clientID is this client as an authorization server knows it.
type clientID struct {
	id, secret, method string
	dynamic            bool // it was registered by this package
}

// style returns how the client authenticates. It is never found out by trying: a code that is sent
// twice is void.
func (c *clientID) style() oauth2.AuthStyle {
	if c.method == methodBasic {
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}

// registrationFor returns the entry of Options.Registrations for an issuer, nil: none.
func (s *Source) registrationFor(issuer string) *Registration {
	for i := range s.opts.Registrations {
		if s.opts.Registrations[i].Issuer == issuer {
			return &s.opts.Registrations[i]
		}
	}
	return nil
}

// configuredClient returns the id of this client at an authorization server that is known without a
// registration, nil: there is none. What was registered first comes first (client registration,
// "Registration Approaches").
func (s *Source) configuredClient(m *serverMetadata) *clientID {
	if r := s.registrationFor(m.Issuer); r != nil {
		return &clientID{id: r.ClientID, secret: string(r.ClientSecret), method: methodOf(r, m)}
	}
	if s.opts.MetadataURL != "" && m.Documents {
		return &clientID{id: s.opts.MetadataURL, method: methodNone}
	}
	return nil
}

// registeredClients returns the registrations of this client that are valid, the newest first.
func (s *Source) registeredClients(ctx context.Context, issuer string) ([]clientRecord, error) {
	record, err := load[clientsRecord](ctx, s.store, clientKey(issuer))
	if err != nil || record == nil {
		return nil, err
	}
	return slices.DeleteFunc(record.Clients, func(c clientRecord) bool {
		return c.ClientID == "" || !c.Expiry.IsZero() && time.Now().After(c.Expiry)
	}), nil
}

// clientByID returns the client that tokens or a login were made for, nil: this client is not known
// by the id any more.
func (s *Source) clientByID(ctx context.Context, m *serverMetadata, id string) (*clientID, error) {
	if c := s.configuredClient(m); c != nil && c.id == id {
		return c, nil
	}
	registered, err := s.registeredClients(ctx, m.Issuer)
	for _, c := range registered {
		if c.ClientID == id {
			return c.client(), nil
		}
	}
	return nil, err
}

// redirectHint returns where the last login came back to, if a registration is bound to it.
func (s *Source) redirectHint(ctx context.Context, m *serverMetadata) (string, error) {
	if s.configuredClient(m) != nil {
		return "", nil
	}
	registered, err := s.registeredClients(ctx, m.Issuer)
	if err != nil || len(registered) == 0 {
		return "", err
	}
	return registered[0].RedirectURI, nil
}

func (c *clientRecord) client() *clientID {
	return &clientID{c.ClientID, c.Secret, c.Method, true}
}

// forgetClient forgets a registration that the authorization server does not know any more.
func (s *Source) forgetClient(ctx context.Context, issuer, id string) error {
	unlock, err := s.store.Lock(ctx, clientKey(issuer))
	if err != nil {
		return &StoreError{err}
	}
	defer unlock()
	registered, err := s.registeredClients(ctx, issuer)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(registered, func(c clientRecord) bool { return c.ClientID == id })
	return save(ctx, s.store, clientKey(issuer), clientsRecord{kept})
}

func methodOf(r *Registration, m *serverMetadata) string {
	switch {
	case r.ClientSecret == "":
		return methodNone
	case r.Method != "":
		return r.Method
	case slices.Contains(m.AuthMethods, methodPost) && !slices.Contains(m.AuthMethods, methodBasic):
		return methodPost
	}
	return methodBasic // the default of RFC 8414
}

func clientKey(issuer string) Key { return Key{Issuer: issuer} }

// clientFor returns the id of this client for a login whose redirect URI this is, and registers the
// client if it has none.
func (s *Source) clientFor(ctx context.Context, m *serverMetadata, redirectURI string) (
	*clientID, error) {
	if c := s.configuredClient(m); c != nil {
		return c, nil
	}
	unlock, err := s.store.Lock(ctx, clientKey(m.Issuer))
	if err != nil {
		return nil, &StoreError{err}
	}
	defer unlock()
	registered, err := s.registeredClients(ctx, m.Issuer)
	if err != nil {
		return nil, err
	}
	for _, c := range registered {
		if c.RedirectURI == redirectURI {
			return c.client(), nil
		}
	}
	if m.Registration == "" || s.opts.NoDynamic {
		return nil, &RegistrationError{m.Issuer, errors.New("it does not register clients by " +
			"itself; have somebody register this one, and set Options.Registrations")}
	}
	record, err := s.register(ctx, m, redirectURI)
	s.observe(Event{Kind: ClientCreated, Issuer: m.Issuer, Err: err})
	if err != nil {
		return nil, &RegistrationError{m.Issuer, err}
	}
	registered = append([]clientRecord{*record}, registered...)
	err = save(ctx, s.store, clientKey(m.Issuer),
		clientsRecord{registered[:min(len(registered), maxClients)]})
	if err != nil {
		return nil, err
	}
	return record.client(), nil
}

// A clientDocument describes a client: to be registered, or at its MetadataURL.
type clientDocument struct {
	ClientID        string   `json:"client_id,omitempty"`
	Name            string   `json:"client_name,omitempty"`
	URI             string   `json:"client_uri,omitempty"`
	Logo            string   `json:"logo_uri,omitempty"`
	SoftwareID      string   `json:"software_id,omitempty"`
	RedirectURIs    []string `json:"redirect_uris"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	AuthMethod      string   `json:"token_endpoint_auth_method"`
	ApplicationType string   `json:"application_type"`
}

func (o *Options) document(redirectURIs ...string) clientDocument {
	d := clientDocument{
		Name: o.Client.Name, URI: o.Client.URI, Logo: o.Client.Logo,
		SoftwareID: o.Client.SoftwareID, RedirectURIs: redirectURIs,
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

// register registers the client (RFC 7591). An answer that cannot be used registers nothing.
func (s *Source) register(ctx context.Context, m *serverMetadata, redirectURI string) (
	*clientRecord, error) {
	document := s.opts.document(redirectURI)
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
	answer, _, err := s.guard.do(r, http.StatusCreated, http.StatusOK)
	if err != nil {
		return nil, registrationRefused(answer, err)
	}
	return readRegistration(answer, document.AuthMethod, redirectURI)
}

func registrationRefused(answer []byte, err error) error {
	var refusal struct {
		Code string `json:"error"`
	}
	if jsonx.Unmarshal(answer, &refusal) == nil && knownCode(refusal.Code) != "" {
		return errors.Join(err, errors.New(refusal.Code))
	}
	return err
}

// readRegistration reads the answer to a registration. A secret that never expires has the expiry
// 0.
func readRegistration(answer []byte, asked, redirectURI string) (*clientRecord, error) {
	var given struct {
		ClientID string `json:"client_id"`
		Secret   string `json:"client_secret"`
		Expiry   int64  `json:"client_secret_expires_at"`
		Method   string `json:"token_endpoint_auth_method"`
	}
	if jsonx.Unmarshal(answer, &given) != nil || given.ClientID == "" {
		return nil, errors.New("the answer has no client_id")
	}
	if given.Method == "" {
		given.Method = asked
		if given.Secret != "" && asked == methodNone {
			given.Method = methodBasic // the default of RFC 7591
		}
	}
	if !slices.Contains([]string{methodNone, methodBasic, methodPost}, given.Method) ||
		given.Method != methodNone && given.Secret == "" {
		return nil, errors.New("the client would have to authenticate in a way that it cannot")
	}
	record := &clientRecord{ClientID: given.ClientID, Method: given.Method,
		RedirectURI: redirectURI}
	if given.Method != methodNone {
		record.Secret = given.Secret
		if given.Expiry != 0 {
			record.Expiry = time.Unix(given.Expiry, 0)
		}
	}
	if !record.Expiry.IsZero() && time.Now().After(record.Expiry) {
		return nil, errors.New("the secret has expired already")
	}
	return record, nil
}

// ServeMetadata returns the handler for [Options].MetadataURL, which serves the document that
// describes this client (draft-ietf-oauth-client-id-metadata-document). redirectURIs are where
// browsers may come back to; none: those of a [Loopback].
func (o *Options) ServeMetadata(redirectURIs ...string) http.Handler {
	if len(redirectURIs) == 0 {
		redirectURIs = []string{"http://127.0.0.1" + callbackPath,
			"http://localhost" + callbackPath}
	}
	document := o.document(redirectURIs...)
	document.ClientID = o.MetadataURL
	if document.Name == "" {
		document.Name = "MCP client"
	}
	body, err := json.Marshal(document)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the document can only be read", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "public, max-age=3600")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(body)))
	})
}
