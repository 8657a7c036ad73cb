package oauthtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/server/bearer/bearertest"
)

// Options configure a [Server]. The zero value is a server with all features.
type Options struct {
	Path          string // the issuer's path, for example "/tenant1"
	ExactRedirect bool   // a loopback redirect URI must repeat the registered port
	Opaque        bool   // access tokens are random strings
}

// A Server is an authorization server. Its methods may be called while it serves.
type Server struct {
	URL string // issuer identifier

	recorder
	opts Options

	mu      sync.Mutex
	issuers []*bearertest.Issuer // they have the keys; the last one signs
	subject string
	clients map[string]*Client
	tokens  map[string]*token
	secrets []string
}

// NewServer starts an authorization server, which is closed when the test ends. opts may be nil.
func NewServer(t testing.TB, opts *Options) *Server {
	t.Helper()
	s := &Server{subject: "alice", clients: map[string]*Client{}, tokens: map[string]*token{}}
	if opts != nil {
		s.opts = *opts
	}
	listen(t, &s.recorder, s.endpointOf, s.answer, func(origin string) {
		s.URL = origin + s.opts.Path
		s.RotateKeys()
	})
	return s
}

// RotateKeys makes the server sign with a new key. Old keys stay published until RetireKeys.
func (s *Server) RotateKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issuers = append(s.issuers, bearertest.NewIssuer(s.URL))
}

func (s *Server) RetireKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issuers = s.issuers[len(s.issuers)-1:]
}

// SetSubject replaces the user at the browser. The first user is alice.
func (s *Server) SetSubject(subject string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subject = subject
}

// Secrets returns all client secrets, codes, verifiers and tokens of the server.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.secrets), func(text string) bool { return text == "" })
}

func (s *Server) endpointOf(r *Request) Endpoint {
	if strings.Contains(r.URL.Path, "/.well-known/") {
		return Metadata
	}
	path, ok := strings.CutPrefix(r.URL.Path, s.opts.Path+"/")
	switch e := Endpoint(path); {
	case ok && e == Token && r.Form.Get("grant_type") == grantRefresh:
		return Refresh
	case ok && slices.Contains([]Endpoint{Authorize, Token, Register, Revoke, Keys}, e):
		return e
	}
	return Other
}

func (s *Server) answer(r *Request) *Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Endpoint {
	case Authorize:
		return s.answerAuthorizeLocked(r)
	case Token, Refresh:
		return s.answerTokenLocked(r)
	case Register:
		return s.answerRegisterLocked(r)
	case Revoke: // unknown tokens get 200, too (RFC 7009)
		if s.authenticateLocked(r) == nil {
			return failed("invalid_client")
		}
		delete(s.tokens, r.Form.Get("token"))
		return &Answer{}
	case Keys:
		var all, set struct {
			Keys []json.RawMessage `json:"keys"`
		}
		for _, issuer := range s.issuers {
			_ = json.Unmarshal(issuer.Trusted().Keys, &set) // valid, as it comes from a test issuer
			all.Keys = append(all.Keys, set.Keys...)
		}
		return &Answer{Document: Document{"keys": all.Keys}}
	}
	if r.Method != http.MethodGet || !slices.Contains([]string{Elsewhere,
		"/.well-known/oauth-authorization-server" + s.opts.Path,
		"/.well-known/openid-configuration" + s.opts.Path,
		s.opts.Path + "/.well-known/openid-configuration"}, r.URL.Path) {
		return &Answer{Status: http.StatusNotFound}
	}
	return &Answer{Document: Document{"issuer": s.URL, "jwks_uri": s.URL + "/keys",
		"authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
		"revocation_endpoint": s.URL + "/revoke", "registration_endpoint": s.URL + "/register",
		"response_types_supported":         []string{"code"},
		"grant_types_supported":            []string{grantCode, grantRefresh},
		"code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{methodNone, methodBasic, methodPost,
			"private_key_jwt"},
		"authorization_response_iss_parameter_supported": true,
		"client_id_metadata_document_supported":          true,
	}}
}
