package oauthtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A Client is registered at a [Server].
type Client struct {
	ID     string
	Secret string // empty: a public client

	// Method is how the client authenticates: none, client_secret_basic or client_secret_post.
	// Empty: none without a secret and client_secret_basic with one.
	Method string

	RedirectURIs []string
	GrantTypes   []string // nil: authorization_code and refresh_token
}

func (c *Client) mayUse(grant string) bool { return slices.Contains(c.GrantTypes, grant) }

func (s *Server) addClientLocked(c Client) {
	if c.Method == "" {
		c.Method = "none"
		if c.Secret != "" {
			c.Method = "client_secret_basic"
		}
	}
	if c.GrantTypes == nil {
		c.GrantTypes = []string{"authorization_code", "refresh_token"}
	}
	s.keepSecretLocked(c.Secret)
	s.clients[c.ID] = &c
}

// AddClient registers a client, or registers it anew.
func (s *Server) AddClient(c Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addClientLocked(c)
}

// RemoveClient forgets a registration. The client is then told invalid_client.
func (s *Server) RemoveClient(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, id)
}

// RemoveClients forgets all registrations.
func (s *Server) RemoveClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.clients)
}

// ClientIDs returns the ids of the registered clients in sorted order.
func (s *Server) ClientIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id := range s.clients {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// registration is the body of a request for dynamic registration, and a client id metadata
// document.
type registration struct {
	ClientID        string   `json:"client_id"`
	ClientName      string   `json:"client_name"`
	RedirectURIs    []string `json:"redirect_uris"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	Method          string   `json:"token_endpoint_auth_method"`
	ApplicationType string   `json:"application_type"`

	// Resource is no member of RFC 7591, and some servers refuse who sends it.
	Resource json.RawMessage `json:"resource"`
}

// check refuses what a strict server refuses. The type of an application decides which redirect
// URIs it may have (OpenID Connect Dynamic Client Registration 1.0 section 2).
func (r *registration) check() error {
	if len(r.RedirectURIs) == 0 {
		return errors.New("redirect_uris is empty")
	}
	for _, text := range r.RedirectURIs {
		u, err := url.Parse(text)
		if err != nil || u.Scheme == "" || u.Fragment != "" {
			return fmt.Errorf("redirect URI %q", text)
		}
		if u.Scheme == "http" && (r.ApplicationType != "native" || !isLoopback(u.Hostname())) {
			return fmt.Errorf("redirect URI %q of a client of type %q", text, r.ApplicationType)
		}
	}
	return nil
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

func (s *Server) serveRegister(w http.ResponseWriter, r Request) {
	var asked registration
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
		json.Unmarshal(r.Body, &asked) != nil {
		s.refuse(w, r.Endpoint, http.StatusBadRequest, "invalid_client_metadata")
		return
	}
	if asked.Resource != nil {
		s.refuse(w, r.Endpoint, http.StatusBadRequest, "invalid_client_metadata")
		return
	}
	if err := asked.check(); err != nil {
		s.refuse(w, r.Endpoint, http.StatusBadRequest, "invalid_redirect_uri")
		return
	}
	c := Client{ID: "client-" + rand.Text(), RedirectURIs: asked.RedirectURIs,
		GrantTypes: asked.GrantTypes, Method: asked.Method}
	if c.Method == "" {
		c.Method = "client_secret_basic"
	}
	if !slices.Contains(s.opts.AuthMethods, c.Method) {
		// RFC 7591 section 3.2.1: a server may replace what is asked.
		c.Method = s.opts.AuthMethods[0]
	}
	if c.Method != "none" {
		c.Secret = "secret:+/" + rand.Text() // has characters that must be encoded in a header
	}
	if c.GrantTypes == nil {
		c.GrantTypes = []string{"authorization_code"}
	}
	s.AddClient(c)
	d := Document{
		{"client_id", c.ID},
		{"client_id_issued_at", s.opts.Now().Unix()},
		{"client_name", asked.ClientName},
		{"redirect_uris", c.RedirectURIs},
		{"grant_types", c.GrantTypes},
		{"response_types", []string{"code"}},
		{"token_endpoint_auth_method", c.Method},
		{"application_type", asked.ApplicationType},
	}
	if c.Secret != "" {
		d.Add("client_secret", c.Secret)
		d.Add("client_secret_expires_at", 0)
	}
	s.log.send(w, r.Endpoint, http.StatusCreated, d)
}

// refuse sends an error of RFC 6749 section 5.2.
func (s *Server) refuse(w http.ResponseWriter, e Endpoint, status int, code string) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="oauthtest"`)
	}
	s.log.send(w, e, status, Document{{"error", code}, {"error_description", "refused: " + code}})
}

// findClient returns the client with an id, which may be the address of a document.
func (s *Server) findClient(ctx context.Context, id string) (*Client, error) {
	s.mu.Lock()
	c := s.clients[id]
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	u, err := url.Parse(id)
	if err != nil || u.Scheme != "https" || s.opts.NoDocuments {
		return nil, errors.New("unknown client")
	}
	if u.Path == "" || u.Path == "/" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("the URL of the client is not one of a document")
	}
	return s.fetchClient(ctx, id)
}

// fetchClient reads a client id metadata document.
func (s *Server) fetchClient(ctx context.Context, id string) (*Client, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return nil, err
	}
	response, err := s.opts.HTTPClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	var document registration
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK || document.ClientID != id ||
		document.ClientName == "" {
		return nil, fmt.Errorf("the document says it is of %q", document.ClientID)
	}
	document.ApplicationType = "native" // not in the documents of all clients
	if err := document.check(); err != nil {
		return nil, err
	}
	if document.Method != "" && document.Method != "none" {
		return nil, errors.New("a document has no secret to authenticate with")
	}
	if document.GrantTypes == nil {
		document.GrantTypes = []string{"authorization_code"}
	}
	return &Client{ID: id, Method: "none", RedirectURIs: document.RedirectURIs,
		GrantTypes: document.GrantTypes}, nil
}

// mayRedirect reports whether a redirect URI is one of the client's. The port of a loopback address
// is free (RFC 8252 section 7.3).
func (s *Server) mayRedirect(c *Client, asked string) bool {
	return slices.ContainsFunc(c.RedirectURIs, func(registered string) bool {
		if registered == asked {
			return true
		}
		a, errA := url.Parse(asked)
		b, errB := url.Parse(registered)
		return errA == nil && errB == nil && !s.opts.ExactRedirect && a.Scheme == "http" &&
			isLoopback(a.Hostname()) && a.Scheme == b.Scheme && a.Hostname() == b.Hostname() &&
			a.Path == b.Path && a.RawQuery == b.RawQuery && a.Fragment == "" && a.User == nil
	})
}

// authenticate returns the client of a request at the token, introspection or revocation endpoint.
// It must use the method that it is registered with and no other.
func (s *Server) authenticate(ctx context.Context, r Request) (*Client, error) {
	request := http.Request{Header: r.Header}
	user, password, basic := request.BasicAuth()
	post := r.Form.Has("client_secret")
	if basic && post {
		return nil, errors.New("two ways to authenticate")
	}
	method, id, secret := "none", r.Form.Get("client_id"), ""
	switch {
	case basic:
		method = "client_secret_basic"
		var errs [2]error
		user, errs[0] = url.QueryUnescape(user)
		secret, errs[1] = url.QueryUnescape(password)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		if id != "" && id != user {
			return nil, errors.New("two client ids")
		}
		id = user
	case post:
		method, secret = "client_secret_post", r.Form.Get("client_secret")
	case strings.TrimSpace(r.Header.Get("Authorization")) != "":
		return nil, errors.New("a scheme other than Basic")
	}
	c, err := s.findClient(ctx, id)
	if err != nil {
		return nil, err
	}
	if c.Method != method || c.Secret != secret {
		return nil, fmt.Errorf("client authenticates with %s, want %s", method, c.Method)
	}
	return c, nil
}
