package bearertest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

type login struct {
	issuer  *Issuer
	subject string

	mu      sync.Mutex
	clients map[string][]string // redirect URIs by client id
	codes   map[string]consent
}

// A consent has the parameters that the token request must repeat (except scope).
type consent struct{ client, redirect, resource, challenge, scope string }

const maxBody = 64 << 10 // bytes of a request

// Handler returns a handler for the issuer's URL, at which clients can log in the user subject. It
// serves metadata (RFC 8414), keys, dynamic registration (RFC 7591), and an authorization endpoint
// that consents to everything without a password. Codes need PKCE with S256, and work once. Tokens
// are made by Issue for the resource that the client names (RFC 8707), without refresh tokens.
func (i *Issuer) Handler(subject string) http.Handler {
	l := &login{issuer: i, subject: subject, clients: map[string][]string{},
		codes: map[string]consent{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", l.serveMetadata)
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		sendJSON(w, http.StatusOK, i.keys)
	})
	mux.HandleFunc("POST /register", l.serveRegister)
	mux.HandleFunc("GET /authorize", l.serveAuthorize)
	mux.HandleFunc("POST /token", l.serveToken)
	return mux
}

func (l *login) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	at := l.issuer.url
	sendJSON(w, http.StatusOK, map[string]any{
		"issuer": at, "jwks_uri": at + "/keys", "registration_endpoint": at + "/register",
		"authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token",
		"response_types_supported":              []string{"code"},
		"grant_types_supported":                 []string{"authorization_code"},
		"code_challenge_methods_supported":      []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"none"},

		"authorization_response_iss_parameter_supported": true,
	})
}

func (l *login) serveRegister(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		RedirectURIs []string `json:"redirect_uris"`
	}
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&asked) != nil ||
		len(asked.RedirectURIs) == 0 {
		refuse(w, "invalid_client_metadata")
		return
	}
	id := rand.Text()
	l.mu.Lock()
	l.clients[id] = asked.RedirectURIs
	l.mu.Unlock()
	sendJSON(w, http.StatusCreated, map[string]any{
		"client_id": id, "redirect_uris": asked.RedirectURIs, "token_endpoint_auth_method": "none",
		"grant_types": []string{"authorization_code"},
	})
}

func (l *login) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	redirect, err := url.Parse(query.Get("redirect_uri"))
	l.mu.Lock()
	defer l.mu.Unlock()
	known := slices.Contains(l.clients[query.Get("client_id")], query.Get("redirect_uri"))
	if err != nil || !known || query.Get("code_challenge_method") != "S256" {
		http.Error(w, "unknown client or redirect URI, or no PKCE", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	l.codes[code] = consent{query.Get("client_id"), query.Get("redirect_uri"),
		query.Get("resource"), query.Get("code_challenge"), query.Get("scope")}
	redirect.RawQuery = url.Values{"code": {code}, "state": {query.Get("state")},
		"iss": {l.issuer.url}}.Encode()
	http.Redirect(w, r, redirect.String(), http.StatusFound)
}

func (l *login) serveToken(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if r.ParseForm() != nil || r.PostForm.Get("grant_type") != "authorization_code" {
		refuse(w, "unsupported_grant_type")
		return
	}
	form := r.PostForm
	l.mu.Lock()
	given, ok := l.codes[form.Get("code")]
	delete(l.codes, form.Get("code"))
	l.mu.Unlock()
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	presented := consent{form.Get("client_id"), form.Get("redirect_uri"), form.Get("resource"),
		base64.RawURLEncoding.EncodeToString(sum[:]), given.scope}
	if !ok || presented != given {
		refuse(w, "invalid_grant")
		return
	}
	sendJSON(w, http.StatusOK, map[string]any{
		"access_token": l.issuer.Issue(Token{Subject: l.subject, ClientID: given.client,
			Audience: given.resource, Scopes: strings.Fields(given.scope)}),
		"token_type": "Bearer", "scope": given.scope, "expires_in": int(time.Hour / time.Second),
	})
}

func refuse(w http.ResponseWriter, code string) {
	sendJSON(w, http.StatusBadRequest, map[string]string{"error": code})
}

func sendJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}
