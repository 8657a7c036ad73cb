package oauthtest

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
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

	// Forms are the well-known places at which the metadata lies. Nil: all three.
	Forms []Form

	// Scopes are those that the server knows. It never grants another, and lists these as
	// scopes_supported. Nil: any scope is granted and the metadata lists none.
	Scopes []string

	// Resources are the resource indicators that the server accepts. Nil: any.
	Resources []string

	// Clients are registered before the server starts.
	Clients []Client

	// AuthMethods are the ways in which clients may authenticate at the token endpoint, by default
	// none, client_secret_basic and client_secret_post.
	AuthMethods []string

	NoDynamic     bool // no registration endpoint
	NoDocuments   bool // no client id metadata documents
	NoIss         bool // no iss in redirects, and the metadata does not promise it
	NoRefresh     bool // refresh tokens are never given
	OfflineOnly   bool // refresh tokens are given for the scope offline_access only
	NoRotation    bool // a refresh token stays valid when it was used
	NoRevocation  bool // no revocation endpoint
	ExactRedirect bool // the port of a loopback redirect URI has to be the registered one
	Opaque        bool // access tokens are random strings, to be introspected

	// Algorithm signs tokens: ES256, the default, RS256, PS256 or EdDSA.
	Algorithm string

	// Lifetime is how long access tokens are valid. Zero: an hour.
	Lifetime time.Duration

	// Now is the clock. Nil: time.Now.
	Now func() time.Time

	// HTTPClient fetches client id metadata documents. Nil: http.DefaultClient.
	HTTPClient *http.Client

	// Listen makes the handler reachable and returns the origin without a terminating slash. Nil: a
	// server on a loopback port. It is called once, and the handler may be called when it returns.
	Listen func(h http.Handler) string

	// TLS has the loopback server speak https with the certificate of net/http/httptest.
	TLS bool
}

// elsewhere is a path to which faults redirect. Metadata lies there.
const elsewhere = "/elsewhere"

// A Server is an authorization server. Its methods may be called while it serves.
type Server struct {
	// URL is the issuer identifier.
	URL string

	// Origin is URL without its path.
	Origin string

	// HTTP is the listener, nil when Options.Listen made another.
	HTTP *httptest.Server

	opts Options
	log  recorder
	keys keyRing

	mu        sync.Mutex
	clients   map[string]*Client
	codes     map[string]*code
	refreshes map[string]*refreshToken
	accesses  map[string]*accessToken
	families  int
	secrets   []string // in the order in which they were made or received
	isSecret  map[string]bool
	subject   string
	denied    bool
	narrow    []string // nil: do not narrow
	narrowed  bool
	handlers  map[string]http.Handler
}

// NewServer starts an authorization server, which is closed when the test ends. opts may be nil.
func NewServer(t testing.TB, opts *Options) *Server {
	t.Helper()
	s := &Server{subject: "alice", clients: make(map[string]*Client), codes: make(map[string]*code),
		refreshes: make(map[string]*refreshToken), accesses: make(map[string]*accessToken),
		handlers: make(map[string]http.Handler), isSecret: make(map[string]bool)}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.Algorithm = cmp.Or(s.opts.Algorithm, "ES256")
	s.opts.Lifetime = cmp.Or(s.opts.Lifetime, time.Hour)
	if s.opts.AuthMethods == nil {
		s.opts.AuthMethods = []string{"none", "client_secret_basic", "client_secret_post"}
	}
	if s.opts.Forms == nil {
		s.opts.Forms = []Form{RFC8414, OIDCInserted, OIDCAppended}
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	if s.opts.HTTPClient == nil {
		s.opts.HTTPClient = http.DefaultClient
	}
	for _, c := range s.opts.Clients {
		s.addClientLocked(c)
	}
	s.keys.add(s.opts.Algorithm)
	s.listen(t)
	return s
}

func (s *Server) listen(t testing.TB) {
	switch {
	case s.opts.Listen != nil:
		s.Origin = s.opts.Listen(http.HandlerFunc(s.serve))
	case s.opts.TLS:
		s.HTTP = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	default:
		s.HTTP = httptest.NewServer(http.HandlerFunc(s.serve))
	}
	if s.HTTP != nil {
		s.Origin = s.HTTP.URL
		t.Cleanup(func() {
			s.log.releaseAll()
			s.HTTP.CloseClientConnections()
			s.HTTP.Close()
		})
	} else {
		t.Cleanup(s.log.releaseAll)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.URL = s.Origin + s.opts.Path
}

// Handle serves a path that is not the server's own, for example a resource on the same origin.
// Requests for it are not recorded here.
func (s *Server) Handle(path string, h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[path] = h
}

// SetSubject says who the person at the browser is from now on. It is alice at first.
func (s *Server) SetSubject(subject string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subject = subject
}

// Deny says whether the person refuses to consent from now on.
func (s *Server) Deny(denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = denied
}

// Narrow has the server grant those of the requested scopes only that are in scopes.
func (s *Server) Narrow(scopes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.narrow, s.narrowed = scopes, true
}

// Widen ends what Narrow began.
func (s *Server) Widen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.narrow, s.narrowed = nil, false
}

// Count returns how many requests an endpoint has received.
func (s *Server) Count(e Endpoint) int { return len(s.log.requests(e)) }

// Requests returns what an endpoint has received, oldest first.
func (s *Server) Requests(e Endpoint) []Request { return s.log.requests(e) }

// Reset forgets what was counted and recorded.
func (s *Server) Reset() { s.log.reset() }

// Hold keeps requests for an endpoint waiting, after they were recorded and before they are looked
// at, until the gate is released.
func (s *Server) Hold(e Endpoint) *Gate { return s.log.hold(e) }

// Edit has f change what an endpoint answers, each time and after earlier edits. For Authorize the
// members are the parameters of the redirect. f must not call the server.
func (s *Server) Edit(e Endpoint, f func(*Document)) { s.log.edit(e, f) }

// Answer has an endpoint answer with reply instead of its own answer.
func (s *Server) Answer(e Endpoint, reply Reply) { s.log.answer(e, reply) }

// Behave ends what Edit, Answer and Misbehave began. Gates stay.
func (s *Server) Behave() { s.log.behave() }

// Secrets returns all client secrets, codes, verifiers, tokens and assertions that the server has
// made or received, so that a test can look for them where they must not be.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.secrets)
}

func (s *Server) keepSecretLocked(secret string) {
	if secret != "" && !s.isSecret[secret] {
		s.isSecret[secret] = true
		s.secrets = append(s.secrets, secret)
	}
}

// serve answers one request: find the endpoint, record, hold, and answer.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	handler := s.handlers[r.URL.Path]
	s.mu.Unlock()
	if handler != nil {
		handler.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // the client is gone
	}
	request := Request{Endpoint: s.endpointOf(r.URL.Path), Method: r.Method, URL: *r.URL,
		Host: r.Host, Header: r.Header.Clone(), Body: body, Time: s.opts.Now()}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		request.Form, _ = url.ParseQuery(string(body)) // what cannot be parsed is missing
	} else {
		request.Form = r.URL.Query()
	}
	if request.Endpoint == Token && request.Form.Get("grant_type") == "refresh_token" {
		request.Endpoint = Refresh
	}
	if !s.log.record(r.Context(), request) {
		return
	}
	if reply, ok := s.log.replyFor(request.Endpoint); ok {
		if reply.Lose { // the work is done and the answer is lost
			s.dispatch(httptest.NewRecorder(), request)
		}
		reply.send(w, r)
		return
	}
	s.dispatch(w, request)
}

func (s *Server) dispatch(w http.ResponseWriter, r Request) {
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
	case Introspect:
		s.serveIntrospect(w, r)
	case Revoke:
		s.serveRevoke(w, r)
	case JWKS:
		s.serveKeys(w)
	default:
		if r.URL.Path == elsewhere { // whoever follows a redirect here could go on
			s.log.send(w, Metadata, http.StatusOK, s.metadata())
			return
		}
		http.NotFound(w, &http.Request{URL: &r.URL})
	}
}

func (s *Server) endpointOf(path string) Endpoint {
	if strings.Contains(path, "/.well-known/") {
		return Metadata
	}
	rest, ok := strings.CutPrefix(path, s.opts.Path)
	if !ok {
		return Other
	}
	switch rest {
	case "/authorize":
		return Authorize
	case "/token":
		return Token
	case "/register":
		if !s.opts.NoDynamic {
			return Register
		}
	case "/introspect":
		return Introspect
	case "/revoke":
		if !s.opts.NoRevocation {
			return Revoke
		}
	case "/jwks":
		return JWKS
	}
	return Other
}
