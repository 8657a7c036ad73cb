package oauthtest

import (
	"crypto/rand"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// The grants of machines.
const (
	clientCredentials = "client_credentials"
	jwtBearer         = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	tokenExchange     = "urn:ietf:params:oauth:grant-type:token-exchange"
	idJAG             = "urn:ietf:params:oauth:token-type:id-jag"
)

// An Assertion is what a platform or an identity provider says about a subject.
type Assertion struct {
	Subject, Audience string
	Resource          string // empty: any
	Expires           time.Time
}

// AddAssertion has the server know an assertion, as if it had verified its signature.
func (s *Server) AddAssertion(text string, a Assertion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = append(s.secrets, text)
	s.assertions[text] = a
}

// Trust has the server accept assertions of an identity provider.
func (s *Server) Trust(idp *Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idp = idp
}

// assertionOf returns an assertion that the server knows, for an audience.
func (s *Server) assertionOf(text, audience string) (Assertion, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.assertions[text]
	return a, ok && a.Audience == audience && time.Now().Before(a.Expires)
}

// authorizeMachine returns the grant of a request of a machine, or the code of an error.
func (s *Server) authorizeMachine(client *Client, r Request) (Grant, string) {
	d := s.deviationsNow()
	resource, ok := d.resourceOf(r.Form)
	if !ok {
		return Grant{}, "invalid_target"
	}
	grant := Grant{Client: client.ID, Subject: client.ID, Resource: resource,
		Scopes: d.scopesOf(r.Form)}
	if r.Form.Get("grant_type") == clientCredentials {
		if client.Method == "none" {
			return grant, "unauthorized_client"
		}
		return grant, ""
	}
	s.mu.Lock()
	idp := s.idp
	s.mu.Unlock()
	if idp == nil {
		idp = s
	}
	a, ok := idp.assertionOf(r.Form.Get("assertion"), s.URL)
	if !ok || a.Resource != "" && a.Resource != resource {
		return grant, "invalid_grant"
	}
	grant.Subject = a.Subject
	return grant, ""
}

// serveMachine answers the token requests of machines.
func (s *Server) serveMachine(w http.ResponseWriter, r Request, client *Client) {
	if r.Form.Get("grant_type") == tokenExchange {
		s.serveExchange(w, r, client)
		return
	}
	grant, failure := s.authorizeMachine(client, r)
	if failure != "" {
		s.refuseRequest(w, r.Endpoint, failure)
		return
	}
	s.mu.Lock()
	s.families++
	d := s.issueLocked(client, grant, grant.Scopes, s.families)
	s.mu.Unlock()
	s.sendDocument(w, r.Endpoint, http.StatusOK, d)
}

// serveExchange plays an identity provider: it exchanges the token of a person, which is an
// assertion for the client, for an assertion for another server.
func (s *Server) serveExchange(w http.ResponseWriter, r Request, client *Client) {
	subject, ok := s.assertionOf(r.Form.Get("subject_token"), client.ID)
	if !ok || r.Form.Get("requested_token_type") != idJAG || r.Form.Get("subject_token_type") !=
		"urn:ietf:params:oauth:token-type:id_token" {
		s.refuseRequest(w, r.Endpoint, "invalid_grant")
		return
	}
	made := "jag-" + rand.Text()
	s.AddAssertion(made, Assertion{subject.Subject, r.Form.Get("audience"), r.Form.Get("resource"),
		time.Now().Add(time.Minute)})
	s.sendDocument(w, r.Endpoint, http.StatusOK, Document{{"access_token", made},
		{"issued_token_type", idJAG}, {"token_type", "N_A"}, {"expires_in", 60}})
}

// isMachine reports whether a grant is one of machines.
func isMachine(grant string) bool {
	return slices.Contains([]string{clientCredentials, jwtBearer, tokenExchange}, grant)
}

// checkAssertion reports whether a client assertion is signed by the key of the client, for one of
// the audiences, not used before and not expired (RFC 7523, section 3).
func (s *Server) checkAssertion(c *Client, text string, audiences ...string) bool {
	parsed, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.ES256, jose.ES384,
		jose.RS256, jose.PS256, jose.EdDSA})
	if err != nil || c.Key == nil || len(parsed.Headers) != 1 {
		return false
	}
	claims := jwt.Claims{}
	if parsed.Claims(c.Key, &claims) != nil || claims.ID == "" || claims.Expiry == nil ||
		s.assertionIDs[claims.ID] || len(claims.Audience) != 1 ||
		!slices.Contains(audiences, claims.Audience[0]) {
		return false
	}
	s.assertionIDs[claims.ID] = true
	return claims.ValidateWithLeeway(jwt.Expected{Issuer: c.ID, Subject: c.ID,
		Time: time.Now()}, 0) == nil
}
