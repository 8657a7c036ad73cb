package oauthtest

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
)

const methodNone, methodBasic, methodPost = "none", "client_secret_basic", "client_secret_post"

// A Client is registered at a [Server].
type Client struct {
	ID     string
	Secret string // empty: the client is public
	// Method is the client authentication method. Empty: none, or basic if there is a Secret.
	Method       string
	RedirectURIs []string
	grantTypes   []string // nil: all grant types
}

// AddClient registers or replaces a client.
func (s *Server) AddClient(c Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addClientLocked(c)
}

func (s *Server) addClientLocked(c Client) {
	if c.Secret == "" {
		c.Method = cmp.Or(c.Method, methodNone)
	}
	c.Method = cmp.Or(c.Method, methodBasic)
	if c.grantTypes == nil {
		c.grantTypes = []string{grantCode, grantRefresh, grantClient}
	}
	s.secrets = append(s.secrets, c.Secret)
	s.clients[c.ID] = &c
}

// answerRegisterLocked registers a client dynamically. application_type decides which redirect URIs
// are allowed (OpenID Connect Dynamic Client Registration 1.0 section 2).
func (s *Server) answerRegisterLocked(r *Request) *Answer {
	var asked struct {
		RedirectURIs    []string        `json:"redirect_uris"`
		GrantTypes      []string        `json:"grant_types"`
		Method          string          `json:"token_endpoint_auth_method"`
		ApplicationType string          `json:"application_type"`
		Resource        json.RawMessage // not in RFC 7591, so some servers refuse it
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
		json.Unmarshal(r.Body, &asked) != nil || asked.Resource != nil {
		return failed("invalid_client_metadata")
	}
	for _, redirect := range asked.RedirectURIs {
		u, err := url.Parse(redirect)
		if err != nil || u.Scheme == "" || u.Fragment != "" || u.Scheme == "http" &&
			(asked.ApplicationType != "native" || !isLoopback(u)) {
			return failed("invalid_redirect_uri")
		}
	}
	c := Client{ID: "client-" + rand.Text(), RedirectURIs: asked.RedirectURIs,
		grantTypes: asked.GrantTypes, Method: cmp.Or(asked.Method, methodBasic)}
	d := Document{"client_id": c.ID, "redirect_uris": c.RedirectURIs, "grant_types": c.grantTypes,
		"token_endpoint_auth_method": c.Method}
	if c.Method != methodNone {
		c.Secret = "secret:+/" + rand.Text() // has characters that must be encoded in a header
		d["client_secret"], d["client_secret_expires_at"] = c.Secret, 0
	}
	s.addClientLocked(c)
	return &Answer{Status: http.StatusCreated, Document: d}
}

func isLoopback(u *url.URL) bool {
	return u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
}

// mayRedirect checks a redirect URI. A loopback URI may have any port (RFC 8252 section 7.3).
func (s *Server) mayRedirect(c *Client, asked string) bool {
	portless := func(text string) string {
		u, err := url.Parse(text)
		if err != nil || s.opts.ExactRedirect || u.Scheme != "http" || !isLoopback(u) {
			return text
		}
		u.Host = u.Hostname()
		return u.String()
	}
	return slices.ContainsFunc(c.RedirectURIs, func(registered string) bool {
		return portless(registered) == portless(asked)
	})
}

func (s *Server) authenticateLocked(r *Request) *Client {
	method, id, secret := methodNone, r.Form.Get("client_id"), r.Form.Get("client_secret")
	if secret != "" {
		method = methodPost
	}
	if r.Header.Get("Authorization") != "" {
		user, password, ok := r.BasicAuth()
		user, errUser := url.QueryUnescape(user)
		password, errPassword := url.QueryUnescape(password)
		if !ok || errUser != nil || errPassword != nil || id != "" && id != user || secret != "" {
			return nil
		}
		method, id, secret = methodBasic, user, password
	}
	c := s.clients[id]
	if c == nil || c.Method != method || c.Secret != secret {
		return nil
	}
	return c
}
