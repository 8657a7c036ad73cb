package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// An authServer is an authorization server as small as one can be. It takes the
// place of the one that your company runs already: it has no password, one person,
// who consents to everything, and forgets all when the program ends.
type authServer struct {
	issuer string
	key    jose.JSONWebKey
	out    io.Writer

	mu      sync.Mutex
	clients map[string][]string // redirect URIs by client id
	codes   map[string]consent
}

// A consent is what the person has agreed to.
type consent struct {
	client, redirect, challenge, resource, scope string
}

const tokenLifetime = 5 * time.Minute

func newAuthServer(issuer string, out io.Writer) (*authServer, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return &authServer{
		issuer: issuer, out: out,
		key: jose.JSONWebKey{Key: private, KeyID: "1", Algorithm: string(jose.ES256),
			Use: "sig"},
		clients: make(map[string][]string),
		codes:   make(map[string]consent),
	}, nil
}

// handler serves the endpoints that clients and protected servers use.
func (a *authServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", a.serveMetadata)
	mux.HandleFunc("GET /keys", a.serveKeys)
	mux.HandleFunc("POST /register", a.serveRegister)
	mux.HandleFunc("GET /authorize", a.serveAuthorize)
	mux.HandleFunc("POST /token", a.serveToken)
	return mux
}

func (a *authServer) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	sendJSON(w, http.StatusOK, map[string]any{
		"issuer":                                a.issuer,
		"authorization_endpoint":                a.issuer + "/authorize",
		"token_endpoint":                        a.issuer + "/token",
		"registration_endpoint":                 a.issuer + "/register",
		"jwks_uri":                              a.issuer + "/keys",
		"response_types_supported":              []string{"code"},
		"grant_types_supported":                 []string{"authorization_code"},
		"code_challenge_methods_supported":      []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"none"},

		"authorization_response_iss_parameter_supported": true,
	})
}

// serveKeys publishes the public half of the key, so that servers can verify tokens.
func (a *authServer) serveKeys(w http.ResponseWriter, _ *http.Request) {
	sendJSON(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{a.key.Public()}})
}

// serveRegister gives a client that nobody has heard of an id.
func (a *authServer) serveRegister(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		RedirectURIs []string `json:"redirect_uris"`
	}
	body := http.MaxBytesReader(w, r.Body, 64<<10)
	if json.NewDecoder(body).Decode(&asked) != nil || len(asked.RedirectURIs) == 0 {
		refuse(w, "invalid_client_metadata")
		return
	}
	id := rand.Text()
	a.mu.Lock()
	a.clients[id] = asked.RedirectURIs
	a.mu.Unlock()
	sendJSON(w, http.StatusCreated, map[string]any{
		"client_id":                  id,
		"redirect_uris":              asked.RedirectURIs,
		"token_endpoint_auth_method": "none",
		"grant_types":                []string{"authorization_code"},
	})
}

// serveAuthorize is the page that the browser shows. A real one logs the person in
// and has a button; here the person has just pressed it.
func (a *authServer) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	asked := consent{client: query.Get("client_id"), redirect: query.Get("redirect_uri"),
		challenge: query.Get("code_challenge"), resource: query.Get("resource"),
		scope: query.Get("scope")}
	redirect, err := url.Parse(asked.redirect)
	a.mu.Lock()
	known := slices.Contains(a.clients[asked.client], asked.redirect)
	a.mu.Unlock()
	if err != nil || !known || query.Get("code_challenge_method") != "S256" {
		http.Error(w, "This is not a request that we answer.", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(a.out, "browser   alice consents to %q\n", asked.scope)
	code := rand.Text()
	a.mu.Lock()
	a.codes[code] = asked
	a.mu.Unlock()
	redirect.RawQuery = url.Values{"code": {code}, "state": {query.Get("state")},
		"iss": {a.issuer}}.Encode()
	http.Redirect(w, r, redirect.String(), http.StatusFound)
}

// serveToken exchanges a code for an access token. A code works once. A real server gives a refresh
// token as well, so that alice is not sent here again every few minutes.
func (a *authServer) serveToken(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if r.ParseForm() != nil || r.PostForm.Get("grant_type") != "authorization_code" {
		refuse(w, "unsupported_grant_type")
		return
	}
	form := r.PostForm
	a.mu.Lock()
	given := a.codes[form.Get("code")]
	delete(a.codes, form.Get("code"))
	a.mu.Unlock()
	if given.client == "" || given.client != form.Get("client_id") ||
		given.redirect != form.Get("redirect_uri") || given.resource != form.Get("resource") ||
		!fits(given.challenge, form.Get("code_verifier")) {
		refuse(w, "invalid_grant")
		return
	}
	token, err := a.sign(given)
	if err != nil {
		http.Error(w, "no token", http.StatusInternalServerError)
		return
	}
	sendJSON(w, http.StatusOK, map[string]any{
		"access_token": token, "token_type": "Bearer", "scope": given.scope,
		"expires_in": int(tokenLifetime / time.Second),
	})
}

// fits reports whether a verifier is the one that a challenge was made of (PKCE).
func fits(challenge, verifier string) bool {
	sum := sha256.Sum256([]byte(verifier))
	made := base64.RawURLEncoding.EncodeToString(sum[:])
	return subtle.ConstantTimeCompare([]byte(made), []byte(challenge)) == 1
}

// sign returns an access token as RFC 9068 describes it. Its audience is the one
// server that the client has named.
func (a *authServer) sign(given consent) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: a.key},
		new(jose.SignerOptions).WithType("at+jwt"))
	if err != nil {
		return "", err
	}
	now := time.Now()
	return jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: a.issuer, Subject: "alice", Audience: jwt.Audience{given.resource},
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(tokenLifetime)),
		ID: rand.Text(),
	}).Claims(map[string]any{"client_id": given.client,
		"scope": strings.TrimSpace(given.scope)}).Serialize()
}

func sendJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}

func refuse(w http.ResponseWriter, code string) {
	sendJSON(w, http.StatusBadRequest, map[string]string{"error": code})
}
