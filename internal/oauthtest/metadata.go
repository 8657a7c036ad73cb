package oauthtest

import (
	"net/http"
	"slices"
)

// A Form is a well-known place of the metadata of an authorization server.
type Form int

// The places, in the order in which a client asks.
const (
	RFC8414      Form = iota // /.well-known/oauth-authorization-server before the issuer's path
	OIDCInserted             // /.well-known/openid-configuration before the issuer's path
	OIDCAppended             // /.well-known/openid-configuration after the issuer's path
)

func (s *Server) metadataPath(f Form) string {
	switch f {
	case RFC8414:
		return "/.well-known/oauth-authorization-server" + s.opts.Path
	case OIDCInserted:
		return "/.well-known/openid-configuration" + s.opts.Path
	}
	return s.opts.Path + "/.well-known/openid-configuration"
}

func (s *Server) serveMetadata(w http.ResponseWriter, r Request) {
	served := slices.ContainsFunc(s.opts.Forms, func(f Form) bool {
		return s.metadataPath(f) == r.URL.Path
	})
	if !served || r.Method != http.MethodGet {
		http.NotFound(w, &http.Request{URL: &r.URL})
		return
	}
	s.log.send(w, Metadata, http.StatusOK, s.metadata())
}

func (s *Server) metadata() Document {
	d := Document{
		{"issuer", s.URL},
		{"authorization_endpoint", s.URL + "/authorize"},
		{"token_endpoint", s.URL + "/token"},
		{"jwks_uri", s.URL + "/jwks"},
		{"introspection_endpoint", s.URL + "/introspect"},
		{"response_types_supported", []string{"code"}},
		{"grant_types_supported", []string{"authorization_code", "refresh_token"}},
		{"code_challenge_methods_supported", []string{"S256"}},
		{"token_endpoint_auth_methods_supported", s.opts.AuthMethods},
		{"subject_types_supported", []string{"public"}},
		{"id_token_signing_alg_values_supported", []string{s.opts.Algorithm}},
	}
	if s.opts.Scopes != nil {
		d.Add("scopes_supported", s.opts.Scopes)
	}
	if !s.opts.NoDynamic {
		d.Add("registration_endpoint", s.URL+"/register")
	}
	if !s.opts.NoDocuments {
		d.Add("client_id_metadata_document_supported", true)
	}
	if !s.opts.NoRevocation {
		d.Add("revocation_endpoint", s.URL+"/revoke")
	}
	if !s.opts.NoIss {
		d.Add("authorization_response_iss_parameter_supported", true)
	}
	return d
}
