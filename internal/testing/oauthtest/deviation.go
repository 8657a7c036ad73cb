package oauthtest

import (
	"net/http"
	"net/url"
	"strings"
)

// Deviations are what a server of the world does in another way than the specification. The zero
// value is a server without any. Deviations of metadata are edits, see [Server.Edit].
type Deviations struct {
	// Resource is what all tokens are for. Requests with the parameter resource are refused.
	Resource string
	// Audience has to be the parameter audience of authorization requests.
	Audience string
	// ScopePrefix is in front of scopes in requests and responses, and not in tokens. Scopes
	// without it are refused, except offline_access.
	ScopePrefix string
	// NoPrompt refuses authorization requests with prompt.
	NoPrompt bool
	// AccessType gives refresh tokens only after authorization requests with access_type=offline.
	AccessType bool
	// TokenEndpointAudience wants the token endpoint as the audience of client assertions.
	TokenEndpointAudience bool
	// Form encodes responses of the token endpoint as forms, and errors with the status 200.
	Form bool
}

// Deviate has the server deviate from now on.
func (s *Server) Deviate(d Deviations) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deviations = d
}

func (s *Server) deviationsNow() Deviations {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deviations
}

// resourceOf returns the resource that a request is for, and false if it must be refused.
func (d Deviations) resourceOf(form url.Values) (string, bool) {
	if d.Resource == "" {
		return form.Get("resource"), isResource(form.Get("resource"))
	}
	return d.Resource, !form.Has("resource")
}

// refuseAuthorization returns the error of an authorization request, or "".
func (d Deviations) refuseAuthorization(query url.Values) (code string) {
	_, ok := d.resourceOf(query)
	switch {
	case !ok:
		return "invalid_target"
	case query.Get("audience") != d.Audience, d.NoPrompt && query.Has("prompt"):
		return "invalid_request"
	}
	for _, scope := range strings.Fields(query.Get("scope")) {
		if !strings.HasPrefix(scope, d.ScopePrefix) && scope != "offline_access" {
			return "invalid_scope"
		}
	}
	return ""
}

// scopesOf returns the scopes of a request, as tokens name them.
func (d Deviations) scopesOf(form url.Values) []string {
	scopes := strings.Fields(form.Get("scope"))
	for i := range scopes {
		scopes[i] = strings.TrimPrefix(scopes[i], d.ScopePrefix)
	}
	return scopes
}

// joinScopes returns scopes of tokens, as responses name them.
func (d Deviations) joinScopes(scopes []string) string {
	var named []string
	for _, scope := range scopes {
		if scope != "offline_access" {
			scope = d.ScopePrefix + scope
		}
		named = append(named, scope)
	}
	return strings.Join(named, " ")
}

// sendForm writes the document of the token endpoint as a form.
func (s *Server) sendForm(w http.ResponseWriter, e Endpoint, d Document) {
	s.applyEdits(e, &d)
	Reply{Status: http.StatusOK, ContentType: "application/x-www-form-urlencoded",
		Body: d.encodeQuery()}.writeTo(w)
}
