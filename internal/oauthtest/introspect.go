package oauthtest

import (
	"context"
	"net/http"
	"strings"
)

// serveIntrospect answers as RFC 7662 says. Only confidential clients may ask.
func (s *Server) serveIntrospect(w http.ResponseWriter, r Request) {
	client, err := s.authenticate(context.Background(), r)
	if err != nil || client.Secret == "" {
		s.refuse(w, r.Endpoint, http.StatusUnauthorized, "invalid_client")
		return
	}
	text := r.Form.Get("token")
	s.mu.Lock()
	token := s.accesses[text]
	if token != nil && !s.opts.Now().Before(token.expires) {
		token = nil
	}
	s.mu.Unlock()
	if token == nil {
		s.log.send(w, r.Endpoint, http.StatusOK, Document{{"active", false}})
		return
	}
	s.log.send(w, r.Endpoint, http.StatusOK, Document{
		{"active", true},
		{"iss", s.URL},
		{"sub", token.grant.Subject},
		{"aud", token.grant.Resource},
		{"client_id", token.grant.Client},
		{"scope", strings.Join(token.grant.Scopes, " ")},
		{"token_type", "Bearer"},
		{"iat", token.issued.Unix()},
		{"exp", token.expires.Unix()},
		{"jti", token.jwtID},
	})
}

// serveRevoke answers as RFC 7009 says: 200 also for a token that nobody knows.
func (s *Server) serveRevoke(w http.ResponseWriter, r Request) {
	client, err := s.authenticate(context.Background(), r)
	if err != nil {
		s.refuse(w, r.Endpoint, http.StatusUnauthorized, "invalid_client")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text := r.Form.Get("token")
	if token := s.refreshes[text]; token != nil && token.grant.Client == client.ID {
		s.revokeLocked(token.family)
	}
	if token := s.accesses[text]; token != nil && token.grant.Client == client.ID {
		delete(s.accesses, text)
	}
	w.WriteHeader(http.StatusOK)
}
