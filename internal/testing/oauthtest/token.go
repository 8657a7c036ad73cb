package oauthtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"time"
)

// A token is a refresh token or an access token that the server has issued. Those that were made
// from one login are a family. When a refresh token is used a second time somebody has stolen it,
// and the whole family is revoked.
type token struct {
	grant   Grant
	family  int
	refresh bool
	used    bool // a refresh token

	issued, expires time.Time // an access token
}

// isValid reports whether a token, which may be nil, is an access token that is valid now.
func (t *token) isValid() bool { return t != nil && !t.refresh && time.Now().Before(t.expires) }

func (s *Server) serveToken(w http.ResponseWriter, r Request) {
	if r.Method != http.MethodPost || r.URL.RawQuery != "" || hasRepeated(r.Form) ||
		r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		s.refuseRequest(w, r.Endpoint, "invalid_request")
		return
	}
	client, ok := s.authenticateClient(r)
	if !ok {
		s.refuseRequest(w, r.Endpoint, "invalid_client")
		return
	}
	if !client.mayUse(r.Form.Get("grant_type")) {
		s.refuseRequest(w, r.Endpoint, "unauthorized_client")
		return
	}
	if isMachine(r.Form.Get("grant_type")) {
		s.serveMachine(w, r, client)
		return
	}
	exchange := s.redeemLocked
	if r.Endpoint == Refresh {
		exchange = s.refreshLocked
	}
	s.mu.Lock()
	d, failure := exchange(client, r)
	s.mu.Unlock()
	if failure != "" {
		s.refuseRequest(w, r.Endpoint, failure)
		return
	}
	if s.deviationsNow().Form {
		s.sendForm(w, r.Endpoint, d)
		return
	}
	s.sendDocument(w, r.Endpoint, http.StatusOK, d)
}

// redeemLocked exchanges a code for tokens, or returns the code of an error.
func (s *Server) redeemLocked(client *Client, r Request) (Document, string) {
	found := s.codes[r.Form.Get("code")]
	verifier := r.Form.Get("code_verifier")
	s.secrets = append(s.secrets, verifier)
	if found == nil || found.grant.Client != client.ID {
		return nil, "invalid_grant"
	}
	if found.used {
		s.revokeLocked(found.family)
		return nil, "invalid_grant"
	}
	sum := sha256.Sum256([]byte(verifier))
	if len(verifier) < 43 || len(verifier) > 128 ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != found.challenge ||
		r.Form.Get("redirect_uri") != found.redirect {
		return nil, "invalid_grant"
	}
	if resource, ok := s.deviations.resourceOf(r.Form); !ok || resource != found.grant.Resource {
		return nil, "invalid_target"
	}
	s.families++
	found.used, found.family = true, s.families
	d := s.issueLocked(client, found.grant, found.grant.Scopes, s.families)
	if found.noRefresh {
		Remove("refresh_token")(&d)
	}
	return d, ""
}

// refreshLocked exchanges a refresh token for new tokens, or returns the code of an error.
func (s *Server) refreshLocked(client *Client, r Request) (Document, string) {
	found := s.tokens[r.Form.Get("refresh_token")]
	if found == nil || !found.refresh || found.grant.Client != client.ID {
		return nil, "invalid_grant"
	}
	if found.used {
		s.revokeLocked(found.family)
		return nil, "invalid_grant"
	}
	if resource, ok := s.deviations.resourceOf(r.Form); !ok || resource != found.grant.Resource {
		return nil, "invalid_target"
	}
	scopes := found.grant.Scopes
	if r.Form.Has("scope") {
		scopes = s.deviations.scopesOf(r.Form)
		if slices.ContainsFunc(scopes, func(scope string) bool {
			return !slices.Contains(found.grant.Scopes, scope)
		}) {
			return nil, "invalid_scope"
		}
	}
	found.used = true
	return s.issueLocked(client, found.grant, scopes, found.family), ""
}

// issueLocked makes an access token with scopes and, where the client may have one, a refresh token
// with the whole grant.
func (s *Server) issueLocked(client *Client, grant Grant, scopes []string, family int) Document {
	narrow := grant
	narrow.Scopes = scopes
	d := Document{
		{"access_token", s.makeAccessLocked(narrow, family)},
		{"token_type", "Bearer"},
		{"expires_in", int(s.opts.Lifetime / time.Second)},
		{"scope", s.deviations.joinScopes(scopes)},
	}
	if !s.opts.NoRefresh && client.mayUse("refresh_token") {
		text := "refresh-" + rand.Text()
		s.secrets = append(s.secrets, text)
		s.tokens[text] = &token{grant: grant, family: family, refresh: true}
		d.Add("refresh_token", text)
	}
	return d
}

// makeAccessLocked makes and remembers an access token.
func (s *Server) makeAccessLocked(grant Grant, family int) string {
	now := time.Now()
	made := &token{grant: grant, family: family, issued: now, expires: now.Add(s.opts.Lifetime)}
	text := "access-" + rand.Text()
	if !s.opts.Opaque {
		text = s.signLocked(made)
	}
	s.secrets = append(s.secrets, text)
	s.tokens[text] = made
	return text
}

// Issue makes an access token as if alice had logged in with a client.
func (s *Server) Issue(grant Grant) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.families++
	grant.Client, grant.Subject = "client", s.subject
	return s.makeAccessLocked(grant, s.families)
}

// Check returns the grant of a token of the server, and false if it is not valid now.
func (s *Server) Check(text string) (Grant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.tokens[text]
	if !found.isValid() {
		return Grant{}, false
	}
	return found.grant, true
}

// Expire makes all access tokens invalid that were issued so far. Refresh tokens stay.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, token := range s.tokens {
		token.expires = token.issued
	}
}

// RevokeAll makes all tokens invalid that were issued so far: refresh requests get invalid_grant.
func (s *Server) RevokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// revokeLocked makes all tokens of a family invalid.
func (s *Server) revokeLocked(family int) {
	maps.DeleteFunc(s.tokens, func(_ string, t *token) bool { return t.family == family })
}

// Families returns the number of logins with an unused refresh token.
func (s *Server) Families() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive := make(map[int]bool)
	for _, token := range s.tokens {
		if token.refresh && !token.used {
			alive[token.family] = true
		}
	}
	return len(alive)
}

// serveRevoke implements RFC 7009: unknown tokens get 200, too.
func (s *Server) serveRevoke(w http.ResponseWriter, r Request) {
	client, ok := s.authenticateClient(r)
	if !ok {
		s.refuseRequest(w, r.Endpoint, "invalid_client")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text := r.Form.Get("token")
	if found := s.tokens[text]; found != nil && found.grant.Client == client.ID {
		delete(s.tokens, text)
		if found.refresh {
			s.revokeLocked(found.family)
		}
	}
	w.WriteHeader(http.StatusOK)
}
