package oauthtest

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options configure a [Server]. The zero value is a server with all features.
type Options struct {
	// Path is the path of the issuer, for example "/tenant1". Empty: the issuer is an origin.
	Path string

	// Clients are registered before the server starts.
	Clients []Client

	// AuthMethods are the ways in which clients may authenticate at the token endpoint, by default
	// none, client_secret_basic, client_secret_post and private_key_jwt.
	AuthMethods []string

	NoDynamic     bool // no registration endpoint
	NoDocuments   bool // client id metadata documents are not promised; none is ever fetched
	NoRefresh     bool // refresh tokens are never given
	ExactRedirect bool // the port of a loopback redirect URI has to be the registered one
	Opaque        bool // access tokens are random strings

	// Lifetime is the lifetime of access tokens. Zero: an hour.
	Lifetime time.Duration
}

// Elsewhere is a path for redirects. Metadata lies there.
const Elsewhere = "/elsewhere"

// A Server is an authorization server. Its methods may be called while it serves.
type Server struct {
	// URL is the issuer identifier.
	URL string

	*recorder
	opts   Options
	origin string // URL without its path

	mu       sync.Mutex
	keys     []signingKey // the one that signs last
	added    int          // keys
	clients  map[string]*Client
	codes    map[string]*code
	tokens   map[string]*token
	families int
	secrets  []string
	subject  string
	denied   bool
	narrow   []string // nil: do not narrow

	deviations   Deviations
	assertions   map[string]Assertion
	assertionIDs map[string]bool // jti of client assertions
	idp          *Server         // nil: the server itself
}

// NewServer starts an authorization server, which is closed when the test ends. opts may be nil.
func NewServer(t testing.TB, opts *Options) *Server {
	t.Helper()
	s := &Server{recorder: newRecorder(), subject: "alice", clients: make(map[string]*Client),
		codes: make(map[string]*code), tokens: make(map[string]*token),
		assertions: make(map[string]Assertion), assertionIDs: make(map[string]bool)}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.Lifetime = cmp.Or(s.opts.Lifetime, time.Hour)
	if s.opts.AuthMethods == nil {
		s.opts.AuthMethods = []string{"none", "client_secret_basic", "client_secret_post",
			"private_key_jwt"}
	}
	for _, c := range s.opts.Clients {
		s.AddClient(c)
	}
	s.RotateKeys()
	origin := listen(t, s.recorder, http.HandlerFunc(s.serveHTTP))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.origin, s.URL = origin, origin+s.opts.Path
	return s
}

// listen makes a handler reachable until the test ends, and returns the origin.
func listen(t testing.TB, l *recorder, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		l.releaseAll()
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// SetSubject replaces the person at the browser, alice at first.
func (s *Server) SetSubject(subject string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subject = subject
}

// Deny has the person deny consent, or grant it, from now on.
func (s *Server) Deny(denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = denied
}

// Narrow has the server grant those of the requested scopes only that are in scopes.
func (s *Server) Narrow(scopes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.narrow = scopes
}

// Secrets returns all client secrets, codes, verifiers and tokens that the server has made or
// received, so that a test can look for them where they must not be.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.secrets), func(text string) bool { return text == "" })
}

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	s.receiveRequest(w, r, s.endpointOf, s.dispatchRequest)
}

func (s *Server) dispatchRequest(w http.ResponseWriter, r Request) {
	w.Header().Set("Cache-Control", "no-store")
	switch r.Endpoint {
	case Metadata:
		s.serveMetadata(w, r)
	case Authorize:
		s.serveAuthorize(w, r)
	case Token, Refresh:
		s.serveToken(w, r)
	case Register:
		s.serveRegister(w, r)
	case Revoke:
		s.serveRevoke(w, r)
	case JWKS:
		s.serveKeys(w)
	default:
		if r.URL.Path == Elsewhere { // a client that follows a redirect here could go on
			s.sendDocument(w, Metadata, http.StatusOK, s.serverMetadata())
			return
		}
		http.NotFound(w, &http.Request{URL: &r.URL})
	}
}

func (s *Server) endpointOf(r Request) Endpoint {
	if strings.Contains(r.URL.Path, "/.well-known/") {
		return Metadata
	}
	path, ok := strings.CutPrefix(r.URL.Path, s.opts.Path+"/")
	switch e := Endpoint(path); {
	case !ok || e == Register && s.opts.NoDynamic:
		return Other
	case e == Token && r.Form.Get("grant_type") == "refresh_token":
		return Refresh
	case slices.Contains([]Endpoint{Authorize, Token, Register, Revoke, JWKS}, e):
		return e
	}
	return Other
}

// refuseRequest sends an error of RFC 6749 section 5.2.
func (s *Server) refuseRequest(w http.ResponseWriter, e Endpoint, code string) {
	status := http.StatusBadRequest
	if code == "invalid_client" {
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Basic realm="oauthtest"`)
	}
	if (e == Token || e == Refresh) && s.deviationsNow().Form {
		s.sendForm(w, e, failed(code))
		return
	}
	s.sendDocument(w, e, status, failed(code))
}

func failed(code string) Document {
	return Document{{"error", code}, {"error_description", "refused: " + code}}
}
