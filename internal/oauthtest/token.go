package oauthtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A refreshToken belongs to a family: the tokens that were made from one login. When a token is
// used a second time somebody has stolen it, and the whole family is revoked.
type refreshToken struct {
	grant  Grant
	family int
	used   bool
}

// An accessToken is what the server knows of a token that it has issued.
type accessToken struct {
	grant   Grant
	family  int
	issued  time.Time
	expires time.Time
	jwtID   string
}

func (s *Server) serveToken(w http.ResponseWriter, r Request) {
	if r.Method != http.MethodPost || r.URL.RawQuery != "" ||
		r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		s.refuse(w, r.Endpoint, http.StatusBadRequest, "invalid_request")
		return
	}
	for _, values := range r.Form {
		if len(values) > 1 {
			s.refuse(w, r.Endpoint, http.StatusBadRequest, "invalid_request")
			return
		}
	}
	client, err := s.authenticate(context.Background(), r)
	if err != nil {
		s.refuse(w, r.Endpoint, http.StatusUnauthorized, "invalid_client")
		return
	}
	grant := r.Form.Get("grant_type")
	if !client.mayUse(grant) {
		s.refuse(w, r.Endpoint, http.StatusBadRequest, "unauthorized_client")
		return
	}
	s.mu.Lock()
	var d Document
	var failure string
	switch grant {
	case "authorization_code":
		d, failure = s.redeemLocked(client, r)
	case "refresh_token":
		d, failure = s.refreshLocked(client, r)
	default:
		failure = "unsupported_grant_type"
	}
	s.mu.Unlock()
	if failure != "" {
		s.refuse(w, r.Endpoint, http.StatusBadRequest, failure)
		return
	}
	s.log.send(w, r.Endpoint, http.StatusOK, d)
}

// redeemLocked exchanges a code for tokens, or returns the code of an error.
func (s *Server) redeemLocked(client *Client, r Request) (Document, string) {
	found := s.codes[r.Form.Get("code")]
	verifier := r.Form.Get("code_verifier")
	s.keepSecretLocked(verifier)
	if found == nil || found.client != client.ID {
		return nil, "invalid_grant"
	}
	if found.used {
		s.revokeLocked(found.family)
		return nil, "invalid_grant"
	}
	sum := sha256.Sum256([]byte(verifier))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	if len(verifier) < 43 || len(verifier) > 128 ||
		subtle.ConstantTimeCompare([]byte(challenge), []byte(found.challenge)) != 1 {
		return nil, "invalid_grant"
	}
	if r.Form.Get("redirect_uri") != found.redirect {
		return nil, "invalid_grant"
	}
	if r.Form.Get("resource") != found.grant.Resource {
		return nil, "invalid_target"
	}
	s.families++
	found.used, found.family = true, s.families
	return s.issueLocked(client, found.grant, found.grant.Scopes, s.families), ""
}

// refreshLocked exchanges a refresh token for new tokens, or returns the code of an error.
func (s *Server) refreshLocked(client *Client, r Request) (Document, string) {
	found := s.refreshes[r.Form.Get("refresh_token")]
	if found == nil || found.grant.Client != client.ID {
		return nil, "invalid_grant"
	}
	if found.used {
		s.revokeLocked(found.family)
		return nil, "invalid_grant"
	}
	if r.Form.Get("resource") != found.grant.Resource {
		return nil, "invalid_target"
	}
	scopes := found.grant.Scopes
	if r.Form.Has("scope") {
		scopes = strings.Fields(r.Form.Get("scope"))
		for _, scope := range scopes {
			if !slices.Contains(found.grant.Scopes, scope) {
				return nil, "invalid_scope"
			}
		}
	}
	if !s.opts.NoRotation {
		found.used = true
	}
	return s.issueLocked(client, found.grant, scopes, found.family), ""
}

// issueLocked makes an access token with scopes and, where the client may have one, a refresh token
// with the whole grant.
func (s *Server) issueLocked(client *Client, grant Grant, scopes []string, family int) Document {
	narrow := grant
	narrow.Scopes = scopes
	access := s.makeAccessLocked(narrow, family, s.opts.Lifetime)
	d := Document{
		{"access_token", access},
		{"token_type", "Bearer"},
		{"expires_in", int(s.opts.Lifetime / time.Second)},
		{"scope", strings.Join(scopes, " ")},
	}
	offline := !s.opts.OfflineOnly || slices.Contains(grant.Scopes, "offline_access")
	if !s.opts.NoRefresh && client.mayUse("refresh_token") && offline {
		refresh := "refresh-" + rand.Text()
		s.keepSecretLocked(refresh)
		s.refreshes[refresh] = &refreshToken{grant: grant, family: family}
		d.Add("refresh_token", refresh)
	}
	return d
}

// makeAccessLocked makes and remembers an access token.
func (s *Server) makeAccessLocked(grant Grant, family int, lifetime time.Duration) string {
	now := s.opts.Now()
	known := &accessToken{grant: grant, family: family, issued: now, expires: now.Add(lifetime),
		jwtID: rand.Text()}
	text := "access-" + rand.Text()
	if !s.opts.Opaque {
		jwt := s.newJWT(known)
		text = jwt.sign(s.keys.current())
	}
	s.keepSecretLocked(text)
	s.accesses[text] = known
	return text
}

// Issue makes an access token as if a person had logged in. Empty fields of grant have defaults:
// the first of Options.Resources, and alice.
func (s *Server) Issue(grant Grant) string { return s.IssueFor(grant, s.opts.Lifetime) }

// IssueFor is Issue with a lifetime, which may be negative.
func (s *Server) IssueFor(grant Grant, lifetime time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.families++
	return s.makeAccessLocked(s.withDefaultsLocked(grant), s.families, lifetime)
}

func (s *Server) withDefaultsLocked(grant Grant) Grant {
	if grant.Resource == "" && len(s.opts.Resources) > 0 {
		grant.Resource = s.opts.Resources[0]
	}
	if grant.Subject == "" {
		grant.Subject = s.subject
	}
	if grant.Client == "" {
		grant.Client = "client"
	}
	return grant
}

// Check returns what a token grants, and false unless it is one of the server's that is valid now.
func (s *Server) Check(token string) (Grant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.accesses[token]
	if found == nil || !s.opts.Now().Before(found.expires) {
		return Grant{}, false
	}
	return found.grant, true
}

// Expire makes all access tokens invalid that were issued so far. Refresh tokens stay.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, token := range s.accesses {
		token.expires = token.issued
	}
}

// RevokeAll makes all tokens invalid that were issued so far: refresh requests get invalid_grant.
func (s *Server) RevokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.accesses)
	clear(s.refreshes)
}

// revokeLocked makes all tokens of a family invalid.
func (s *Server) revokeLocked(family int) {
	for text, token := range s.accesses {
		if token.family == family {
			delete(s.accesses, text)
		}
	}
	for text, token := range s.refreshes {
		if token.family == family {
			delete(s.refreshes, text)
		}
	}
}

// Families returns how many logins have a refresh token that is still of use.
func (s *Server) Families() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive := make(map[int]bool)
	for _, token := range s.refreshes {
		if !token.used {
			alive[token.family] = true
		}
	}
	return len(alive)
}
