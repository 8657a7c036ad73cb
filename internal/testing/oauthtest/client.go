package oauthtest

import (
	"crypto"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
)

// A Client is registered at a [Server].
type Client struct {
	ID     string
	Secret string // empty: a public client

	// Key is the public key of a client that authenticates by private_key_jwt.
	Key crypto.PublicKey

	// Method is the client authentication method: none, client_secret_basic, client_secret_post or
	// private_key_jwt. Empty: what the client has, basic with a secret.
	Method string

	RedirectURIs []string
	grantTypes   []string // nil: authorization_code and refresh_token
}

// mayUse reports whether a client exists and has registered for a grant.
func (c *Client) mayUse(grant string) bool { return slices.Contains(c.grantTypes, grant) }

// AddClient registers a client, or registers it anew.
func (s *Server) AddClient(c Client) {
	if c.Method == "" {
		c.Method = "none"
		if c.Secret != "" {
			c.Method = "client_secret_basic"
		}
		if c.Key != nil {
			c.Method = "private_key_jwt"
		}
	}
	if c.grantTypes == nil {
		c.grantTypes = []string{"authorization_code", "refresh_token", clientCredentials,
			jwtBearer, tokenExchange}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = append(s.secrets, c.Secret)
	s.clients[c.ID] = &c
}

// RemoveClients forgets all registrations. The clients then get invalid_client.
func (s *Server) RemoveClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.clients)
}

// ClientIDs returns the ids of the registered clients in sorted order.
func (s *Server) ClientIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.clients))
}

// registration is the body of a request for dynamic registration.
type registration struct {
	ClientName      string   `json:"client_name"`
	RedirectURIs    []string `json:"redirect_uris"`
	GrantTypes      []string `json:"grant_types"`
	Method          string   `json:"token_endpoint_auth_method"`
	ApplicationType string   `json:"application_type"`

	// Resource is no member of RFC 7591, and some servers refuse who sends it.
	Resource json.RawMessage `json:"resource"`
}

// mayRegister refuses redirect URIs that a strict server refuses. The type of an application
// decides which redirect URIs it may have (OpenID Connect Dynamic Client Registration 1.0 section
// 2).
func (r *registration) mayRegister(redirect string) bool {
	u, err := url.Parse(redirect)
	return err == nil && u.Scheme != "" && u.Fragment == "" &&
		(u.Scheme != "http" || r.ApplicationType == "native" && isLoopback(u.Hostname()))
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

func (s *Server) serveRegister(w http.ResponseWriter, r Request) {
	var asked registration
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
		json.Unmarshal(r.Body, &asked) != nil || asked.Resource != nil {
		s.refuseRequest(w, r.Endpoint, "invalid_client_metadata")
		return
	}
	if len(asked.RedirectURIs) == 0 || slices.ContainsFunc(asked.RedirectURIs,
		func(redirect string) bool { return !asked.mayRegister(redirect) }) {
		s.refuseRequest(w, r.Endpoint, "invalid_redirect_uri")
		return
	}
	c := Client{ID: "client-" + rand.Text(), RedirectURIs: asked.RedirectURIs,
		grantTypes: asked.GrantTypes, Method: asked.Method}
	if c.Method == "" {
		c.Method = "client_secret_basic"
	}
	if !slices.Contains(s.opts.AuthMethods, c.Method) {
		// RFC 7591 section 3.2.1: a server may replace requested values.
		c.Method = s.opts.AuthMethods[0]
	}
	if c.Method != "none" {
		c.Secret = "secret:+/" + rand.Text() // has characters that must be encoded in a header
	}
	if c.grantTypes == nil {
		c.grantTypes = []string{"authorization_code"}
	}
	s.AddClient(c)
	d := Document{
		{"client_id", c.ID},
		{"client_name", asked.ClientName},
		{"redirect_uris", c.RedirectURIs},
		{"grant_types", c.grantTypes},
		{"response_types", []string{"code"}},
		{"token_endpoint_auth_method", c.Method},
		{"application_type", asked.ApplicationType},
	}
	if c.Secret != "" {
		d.Add("client_secret", c.Secret)
		d.Add("client_secret_expires_at", 0)
	}
	s.sendDocument(w, r.Endpoint, http.StatusCreated, d)
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

// authenticateClient returns the client of a request at the token or revocation
// endpoint. It must use the method that it is registered with and no other.
func (s *Server) authenticateClient(r Request) (*Client, bool) {
	method, id, secret := "none", r.Form.Get("client_id"), r.Form.Get("client_secret")
	if r.Form.Has("client_secret") {
		method = "client_secret_post"
	}
	assertion := r.Form.Get("client_assertion")
	if r.Form.Get("client_assertion_type") ==
		"urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		method = "private_key_jwt"
	}
	if r.Header.Get("Authorization") != "" {
		user, password, ok := (&http.Request{Header: r.Header}).BasicAuth()
		user, errUser := url.QueryUnescape(user)
		password, errPassword := url.QueryUnescape(password)
		if !ok || errUser != nil || errPassword != nil || method != "none" ||
			id != "" && id != user {
			return nil, false
		}
		method, id, secret = "client_secret_basic", user, password
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	if c != nil && method == "private_key_jwt" && c.Method == method {
		audience := s.URL
		if s.deviations.TokenEndpointAudience {
			audience += "/token"
		}
		return c, s.checkAssertion(c, assertion, audience)
	}
	return c, c != nil && c.Method == method && c.Secret == secret
}
