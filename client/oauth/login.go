package oauth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"

	"github.com/rondo-mcp/rondo/internal/scope"
)

const (
	// loginTime is how long a person may take for a login while a call waits for it.
	loginTime = 5 * time.Minute
	// beginTime is how long a login that [Source.Begin] has begun may be finished.
	beginTime = 15 * time.Minute
)

// A Login is a login that has begun: a page for the person to open, and what is needed to check
// what the browser comes back with. Its JSON holds secrets and lets another process finish the
// login: seal it before it leaves the host.
type Login struct {
	// URL is where the person's browser goes.
	URL string

	data loginData
}

type loginData struct {
	URL         string    `json:"url"`
	Endpoint    string    `json:"endpoint"`
	Account     string    `json:"account,omitempty"`
	Issuer      string    `json:"issuer"` // as the server names it
	Resource    string    `json:"resource"`
	RedirectURI string    `json:"redirect_uri"`
	ClientID    string    `json:"client_id"`
	State       string    `json:"state"`
	Verifier    string    `json:"verifier"`
	Scopes      []string  `json:"scopes,omitempty"`
	Began       time.Time `json:"began"`
}

// MarshalJSON implements [json.Marshaler].
func (l Login) MarshalJSON() ([]byte, error) {
	l.data.URL = l.URL
	return json.Marshal(l.data)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *Login) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &l.data); err != nil {
		return errors.New("oauth: it is not a login")
	}
	l.URL = l.data.URL
	return nil
}

// Format implements [fmt.Formatter]. It prints the issuer alone, whatever the verb.
func (l Login) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, l.text()) }

// LogValue implements [slog.LogValuer] as Format does.
func (l Login) LogValue() slog.Value { return slog.StringValue(l.text()) }

func (l Login) text() string { return "login at " + l.data.Issuer }

// Begin begins a login for hosts whose person has a browser elsewhere: the host sends it to
// Login.URL, and passes the URL with which it comes back to [Source.Finish]. cause is the error of
// the call that needs the login, which says what has to be granted; nil: nothing more than before.
// [Options].RedirectURI must be set.
func (s *Source) Begin(ctx context.Context, cause error) (*Login, error) {
	if s.opts.RedirectURI == "" {
		return nil, errors.New("oauth: Options.RedirectURI is empty: " +
			"the browser could not come back")
	}
	var need want
	if required := (*LoginRequiredError)(nil); errors.As(cause, &required) {
		need = want{challenge: required.challenge}
	}
	d, err := s.discover(ctx, need.challenge)
	if err != nil {
		return nil, err
	}
	return s.begin(ctx, d, need, s.opts.RedirectURI)
}

// A want is what a login is for.
type want struct {
	challenge challenge
	operation string // that needs more scopes; empty: there is no login, or it is not accepted
}

// begin makes a login at an authorization server.
func (s *Source) begin(ctx context.Context, d *Discovery, need want, redirectURI string) (
	*Login, error) {
	client, err := s.clientFor(ctx, d.server, redirectURI)
	if err != nil {
		return nil, err
	}
	scopes, err := s.chooseScopes(ctx, d, need)
	if err != nil {
		return nil, err
	}
	l := &Login{data: loginData{
		Endpoint: s.endpointText, Account: s.opts.Account, Issuer: d.Issuer, Resource: d.Resource,
		RedirectURI: redirectURI, ClientID: client.id, State: rand.Text(),
		Verifier: oauth2.GenerateVerifier(), Scopes: scopes, Began: time.Now(),
	}}
	l.URL, err = l.data.authorizationURL(d.server)
	return l, err
}

// chooseScopes returns the scopes to ask for: those of the challenge, or those that the metadata
// names, and those that were asked for before at this authorization server.
func (s *Source) chooseScopes(ctx context.Context, d *Discovery, need want) ([]string, error) {
	choice := ScopeChoice{Challenge: need.challenge.scopes, Supported: d.Scopes}
	if now := s.currentTokens(); now != nil && now.issuer == d.Issuer &&
		now.resource == d.Resource {
		choice.Requested = now.record.Requested
	}
	var scopes []string
	switch {
	case s.opts.Scopes != nil:
		chosen, err := s.opts.Scopes(ctx, choice)
		if err != nil {
			return nil, err
		}
		for _, text := range chosen {
			if !scope.Valid(text) {
				return nil, fmt.Errorf("oauth: Options.Scopes returned %q, which is no scope", text)
			}
		}
		scopes = scope.Union(chosen)
	case len(choice.Challenge) > 0:
		scopes = scope.Union(choice.Requested, choice.Challenge)
	case len(choice.Requested) > 0:
		scopes = choice.Requested
	default:
		scopes = scope.Union(choice.Supported)
	}
	if !s.opts.NoOffline && slices.Contains(d.server.Scopes, offline) {
		scopes = scope.Union(scopes, []string{offline})
	}
	return scopes, nil
}

// offline is the scope of refresh tokens at authorization servers that know it.
const offline = "offline_access"

// authorizationURL adds the parameters of the login to the authorization endpoint, whose own query
// stays, but for what it has of the same names.
func (l *loginData) authorizationURL(m *serverMetadata) (string, error) {
	u, err := url.Parse(m.Authorization)
	if err != nil {
		return "", &MetadataError{l.Issuer, errors.New("authorization_endpoint is no URL")}
	}
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": l.ClientID, "redirect_uri": l.RedirectURI,
		"state": l.State, "resource": l.Resource, "scope": joined(l.Scopes),
		"code_challenge":        oauth2.S256ChallengeFromVerifier(l.Verifier),
		"code_challenge_method": "S256",
	} {
		if q.Del(name); value != "" {
			q.Set(name, value)
		}
	}
	if slices.Contains(l.Scopes, offline) {
		q.Set("prompt", "consent") // else OpenID Connect gives no refresh token
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// Finish ends a login with the URL that the browser came back with. The login may have been begun
// by a Source of another process, with the same endpoint and options.
func (s *Source) Finish(ctx context.Context, l *Login, callback *url.URL) error {
	unlock, err := s.store.Lock(ctx, s.pointerKey())
	if err != nil {
		return &StoreError{err}
	}
	defer unlock()
	return s.finish(ctx, l, callback)
}

// finish is Finish for those who hold the lock of the endpoint. A code that was sent is not given
// up: it is used up.
func (s *Source) finish(ctx context.Context, l *Login, callback *url.URL) error {
	switch {
	case l == nil || callback == nil:
		return errors.New("oauth: Finish needs a login and a callback")
	case l.data.Endpoint != s.endpointText || l.data.Account != s.opts.Account:
		return errors.New("oauth: the login is of another endpoint or account")
	case time.Since(l.data.Began) > beginTime:
		return &CallbackError{"it came too late; begin another login"}
	}
	server, err := s.serverOf(ctx, l.data.Issuer)
	if err != nil {
		return err
	}
	code, err := l.data.readCallback(callback, server)
	if err != nil {
		return err
	}
	client, err := s.clientByID(ctx, server, l.data.ClientID)
	if err != nil {
		return err
	}
	if client == nil {
		return &RegistrationError{server.Issuer, errors.New("the registration that the login is " +
			"of was forgotten; begin another login")}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTime)
	defer cancel()
	record, err := s.exchange(ctx, server, client, &l.data, code)
	if err != nil {
		return err
	}
	return s.keep(ctx, l.data.Issuer, l.data.Resource, record)
}

// serverOf returns the metadata of an issuer by the spelling of its metadata.
func (s *Source) serverOf(ctx context.Context, issuer string) (*serverMetadata, error) {
	for named, spelled := range s.opts.Aliases {
		if spelled == issuer {
			return s.discoverServer(ctx, named)
		}
	}
	m, err := s.discoverServer(ctx, issuer)
	if errors.Is(err, errNoServerMetadata) && s.opts.Legacy {
		d, legacyErr := s.discoverLegacy(ctx)
		if legacyErr == nil && d.Issuer == issuer {
			return d.server, nil
		}
	}
	return m, err
}

// readCallback checks what the browser came back with and returns the code. Who it comes from is
// checked before anything that it says is believed or shown.
func (l *loginData) readCallback(callback *url.URL, m *serverMetadata) (code string, err error) {
	q, err := url.ParseQuery(callback.RawQuery)
	if err != nil {
		return "", &CallbackError{"it cannot be read"}
	}
	for _, name := range []string{"state", "iss", "code", "error", "error_description"} {
		if len(q[name]) > 1 {
			return "", &CallbackError{"it has " + name + " twice"}
		}
	}
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(l.State)) != 1 {
		return "", &CallbackError{"its state is not that of the login"}
	}
	switch iss, sent := q["iss"]; {
	case sent && iss[0] != m.Issuer:
		return "", &CallbackError{"it comes from another issuer"}
	case !sent && m.SendsIssuer:
		return "", &CallbackError{"it does not say which issuer it comes from"}
	}
	if q.Has("error") {
		if q.Has("code") {
			return "", &CallbackError{"it has a code and an error"}
		}
		failed := &LoginError{Code: knownCode(q.Get("error"))}
		if text := q.Get("error_description"); text != "" {
			failed.Text = quoteForeign(text)
		}
		return "", failed
	}
	if code = q.Get("code"); code == "" {
		return "", &CallbackError{"it has no code"}
	}
	return code, nil
}
