package oauthtest

import (
	"net/http"
	"slices"
)

// serveMetadata serves the three well-known places of the metadata of an authorization server.
func (s *Server) serveMetadata(w http.ResponseWriter, r Request) {
	places := []string{"/.well-known/oauth-authorization-server" + s.opts.Path,
		"/.well-known/openid-configuration" + s.opts.Path,
		s.opts.Path + "/.well-known/openid-configuration"}
	if !slices.Contains(places, r.URL.Path) || r.Method != http.MethodGet {
		http.NotFound(w, &http.Request{URL: &r.URL})
		return
	}
	s.sendDocument(w, Metadata, http.StatusOK, s.serverMetadata())
}

func (s *Server) serverMetadata() Document {
	d := Document{
		{"issuer", s.URL},
		{"authorization_endpoint", s.URL + "/authorize"},
		{"token_endpoint", s.URL + "/token"},
		{"jwks_uri", s.URL + "/jwks"},
		{"revocation_endpoint", s.URL + "/revoke"},
		{"response_types_supported", []string{"code"}},
		{"grant_types_supported", []string{"authorization_code", "refresh_token"}},
		{"code_challenge_methods_supported", []string{"S256"}},
		{"token_endpoint_auth_methods_supported", s.opts.AuthMethods},
		{"authorization_response_iss_parameter_supported", true},
		{"subject_types_supported", []string{"public"}},
		{"id_token_signing_alg_values_supported", []string{"ES256"}},
	}
	if !s.opts.NoDynamic {
		d.Add("registration_endpoint", s.URL+"/register")
	}
	if !s.opts.NoDocuments {
		d.Add("client_id_metadata_document_supported", true)
	}
	return d
}
