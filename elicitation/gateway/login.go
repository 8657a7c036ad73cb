package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
)

// Logins let users log in at upstreams with their browsers (client/elicitation, "URL Mode
// Elicitation for OAuth Flows"). This applies to upstreams whose credential's Authorizer is an
// [oauth.Source] that has no Interaction and whose RedirectURI is URL or a path below it. For the
// same caller Credential must return the same Source, or one with the same store and Account.
type Logins struct {
	// URL is where [Gateway.LoginHandler] is: https, or http to this machine, no query or fragment.
	URL string
	// Visitor identifies the user of a browser by the host's own login, such as a cookie. Only the
	// principal whose call led to the login may go on, so nobody logs in for others. For unknown
	// browsers Visitor responds itself, as with a login page, and returns false. Calls overlap.
	Visitor func(http.ResponseWriter, *http.Request) (protocol.Principal, bool)
}

const (
	// linkTime is the lifetime of a login link, and of an [oauth.Login].
	linkTime = 15 * time.Minute
	// maxLinkBytes bounds a link, which becomes a cookie: browsers take 4096 bytes.
	maxLinkBytes = 3800
	// linkPurpose tells links from other values sealed with the key.
	linkPurpose  = "login at an upstream of a gateway"
	cookiePrefix = "rondo_login_"
)

// The type logins has the failed logins. The rest is sealed in links and cookies, for any replica.
type logins struct {
	config *Logins // nil: logins are disabled
	sealer keys.Sealer

	mu     sync.Mutex
	failed *recent.Map[string, error] // by the link's id
}

func newLogins(opts *Options) (*logins, error) {
	l := &logins{config: opts.Logins, sealer: opts.Server.Roundtrip.Sealer,
		failed: recent.New[string, error](1000, linkTime)}
	if l.sealer == nil {
		l.sealer = keys.EphemeralKeyring()
	}
	if l.config == nil {
		return l, nil
	}
	u, err := url.Parse(l.config.URL)
	switch {
	case l.config.Visitor == nil:
		return nil, errors.New("gateway: Logins.Visitor is required: it identifies the user of a browser")
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil ||
		u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("gateway: Logins.URL must be https, without query and fragment")
	case u.Scheme == "http" && u.Hostname() != "localhost" && u.Hostname() != "127.0.0.1" &&
		u.Hostname() != "::1":
		return nil, errors.New("gateway: Logins.URL: http is only allowed for this machine; use https")
	}
	return l, nil
}

// A loginLink is the content of a link to a login, with secrets of the login.
type loginLink struct {
	Purpose  string       `json:"purpose"`
	ID       string       `json:"id"`
	Upstream string       `json:"upstream"`
	Caller   string       `json:"caller"`
	Login    *oauth.Login `json:"login"`
	Ends     time.Time    `json:"ends"`

	upstream *upstream // set when a browser presents the link
	caller   protocol.Principal
}

// A loginState is the login that a call waits for. The client keeps it.
type loginState struct {
	Key    string `json:"key"` // of the question
	LinkID string `json:"linkId"`
	Link   string `json:"link"`
	Before string `json:"before,omitempty"` // id of an insufficient login
}

func callerOf(p protocol.Principal) string {
	return fmt.Sprintf("%q %q %v", p.Issuer, p.Subject, p.IsLocal())
}

// A loginAuthorizer marks refusals that require a login.
type loginAuthorizer struct{ *oauth.Source }

// Refused implements [clienthttp.Authorizer]. A refused message was not handled and can be sent
// again; a request whose response stream was refused may have been handled.
func (a loginAuthorizer) Refused(ctx context.Context, r clienthttp.Refusal) (bool, error) {
	again, err := a.Source.Refused(ctx, r)
	if required, ok := errors.AsType[*oauth.LoginRequiredError](err); ok && r.RPC != "" {
		return false, &loginNeeded{a.Source, required}
	}
	if err != nil && r.RPC != "" {
		err = &unhandled{err}
	}
	return again, err
}

// The type unhandled is the error for a request that an upstream refused for its credentials.
type unhandled struct{ cause error }

func (e *unhandled) Error() string { return e.cause.Error() }
func (e *unhandled) Unwrap() error { return e.cause }

// A loginNeeded is the error for an unhandled request whose user has to log in.
type loginNeeded struct {
	source *oauth.Source
	cause  *oauth.LoginRequiredError
}

func (e *loginNeeded) Error() string { return e.cause.Error() }
func (e *loginNeeded) Unwrap() error { return e.cause }

// credentialFor returns a caller's credential, with an authorizer that reports logins.
func (u *upstream) credentialFor(
	ctx context.Context, caller protocol.Principal,
) (Credential, error) {
	if u.config.Credential == nil {
		return Credential{}, nil
	}
	credential, err := u.config.Credential(ctx, caller)
	if said, ok := protocol.AsError(err); ok {
		return Credential{}, said
	} else if err != nil {
		return Credential{}, &upstreamError{
			u.config.Name, "has no credentials for this caller", &unhandled{err},
		}
	}
	if source, ok := credential.Authorizer.(*oauth.Source); ok {
		credential.Authorizer = loginAuthorizer{source}
	}
	return credential, nil
}

func isLoggedOut(ctx context.Context, credential Credential) bool {
	source, ok := credential.Authorizer.(*oauth.Source)
	if !ok {
		return false
	}
	login, err := source.StoredLogin(ctx)
	return err != nil || login == ""
}

func (u *upstream) sourceFor(
	ctx context.Context, caller protocol.Principal,
) (*oauth.Source, error) {
	credential, err := u.credentialFor(ctx, caller)
	if err != nil {
		return nil, err
	}
	a, ok := credential.Authorizer.(loginAuthorizer)
	if !ok {
		return nil, &upstreamError{u.config.Name, "no longer has a login for this caller", nil}
	}
	return a.Source, nil
}

// askLogin returns the question for a login at an upstream or, if the client cannot be asked, an
// error that says what to do. The request continues in a later round.
func (g *Gateway) askLogin(ctx context.Context, u *upstream, call *server.Call, state flowState,
	needed *loginNeeded,
) (protocol.Result, error) {
	refuse := func(why string) (protocol.Result, error) {
		return nil, &upstreamError{u.config.Name, "wants you to log in there, and " + why, needed}
	}
	switch {
	case g.logins.config == nil:
		return refuse("this gateway has no login page: its operator must set Options.Logins")
	case call.Principal.Anonymous():
		return refuse("the gateway does not know who you are: authenticate at the gateway, then " +
			"call again")
	case !roundtrip.CanAsk(ctx, protocol.KindElicitURL):
		return refuse("this client cannot show links (URL elicitation): call once from a client " +
			"that can, and log in; then it works here, too")
	}
	next, err := g.beginLogin(ctx, u, call.Principal, needed)
	if err != nil {
		g.logFailure(event.LevelError, "gateway.login_failed", u.config.Name, err)
		return refuse("the login cannot begin: see the gateway's log")
	}
	next.Key = "login-" + strconv.Itoa(roundtrip.RoundOf(ctx).Number)
	state.Login = next
	return u.askToVisit(state), nil
}

func (u *upstream) askToVisit(state flowState) protocol.Result {
	// Keep this leg's answers: the call gets them after the login.
	asks := roundtrip.InputRequired(roundtrip.WithState(state))
	asks.InputRequests = protocol.InputRequests{{Key: state.Login.Key,
		Request: &protocol.ElicitURL{URL: state.Login.Link, Message: "The server " +
			u.config.Name + " wants you to log in. Open the link to do so."},
	}}
	return asks
}

func (g *Gateway) beginLogin(ctx context.Context, u *upstream, caller protocol.Principal,
	needed *loginNeeded,
) (*loginState, error) {
	before, err := needed.source.StoredLogin(ctx)
	if err != nil {
		return nil, err
	}
	login, err := needed.source.Begin(ctx, needed.cause)
	if err != nil {
		return nil, err
	}
	v := loginLink{Purpose: linkPurpose, ID: rand.Text(), Upstream: u.config.Name,
		Caller: callerOf(caller), Login: login, Ends: time.Now().Add(linkTime)}
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	sealed, err := g.logins.sealer.Seal(ctx, plain)
	if err != nil {
		return nil, err
	}
	if len(sealed) > maxLinkBytes {
		return nil, fmt.Errorf("gateway: the login takes %d bytes, more than the %d of a cookie: "+
			"request fewer scopes", len(sealed), maxLinkBytes)
	}
	link := g.logins.config.URL + "?" + url.Values{"visit": {sealed}}.Encode()
	return &loginState{LinkID: v.ID, Link: link, Before: before}, nil
}

// awaitLogin waits for the login of a call. A result asks for the login again; nil means go on.
func (g *Gateway) awaitLogin(
	ctx context.Context, u *upstream, call *server.Call, state flowState,
) (protocol.Result, error) {
	source, err := u.sourceFor(ctx, call.Principal)
	if err != nil {
		return nil, err
	}
	err = roundtrip.Await(ctx, state.Login.Key, func(ctx context.Context) (bool, error) {
		g.logins.mu.Lock()
		failure, _ := g.logins.failed.Get(state.Login.LinkID)
		g.logins.mu.Unlock()
		if failure != nil {
			return false, &upstreamError{u.config.Name, "wants you to log in there, and the " +
				"login has failed: call again to retry", failure}
		}
		login, err := source.StoredLogin(ctx)
		return login != "" && login != state.Login.Before, err
	})
	if errors.Is(err, roundtrip.ErrNotFinished) {
		return u.askToVisit(state), nil
	}
	return nil, err
}

// LoginHandler returns the handler of [Logins].URL and all paths below it, for login links and
// returns from authorization servers. Without Logins it answers 404. Any replica with the same
// Sealer and login store can serve it.
func (g *Gateway) LoginHandler() http.Handler {
	if g.logins.config == nil {
		return http.NotFoundHandler()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if r.Method != http.MethodGet {
			h.Set("Allow", http.MethodGet)
			http.Error(w, "This page is opened by a link.", http.StatusMethodNotAllowed)
			return
		}
		if text := r.URL.Query().Get("visit"); text != "" {
			g.followLink(w, r, text)
			return
		}
		g.endLogin(w, r)
	})
}

// followLink redirects to the authorization server, with the link as a cookie.
func (g *Gateway) followLink(w http.ResponseWriter, r *http.Request, text string) {
	v := g.openLink(w, r, text)
	if v == nil {
		return
	}
	to, err := url.Parse(v.Login.URL)
	if err != nil {
		http.Error(w, "This link cannot be opened.", http.StatusInternalServerError)
		return
	}
	http.SetCookie(w, g.loginCookie(to.Query().Get("state"), text, linkTime))
	http.Redirect(w, r, v.Login.URL, http.StatusFound)
}

// endLogin finishes the login of a browser that returns from an authorization server.
func (g *Gateway) endLogin(w http.ResponseWriter, r *http.Request) {
	state := r.URL.Query().Get("state")
	cookie, err := r.Cookie(g.loginCookie(state, "", 0).Name)
	if err != nil {
		http.Error(w, "This login was begun in another browser, or too long ago. "+
			"Use the browser in which you opened the link.", http.StatusForbidden)
		return
	}
	v := g.openLink(w, r, cookie.Value)
	if v == nil {
		return
	}
	http.SetCookie(w, g.loginCookie(state, "", -time.Second))
	source, err := v.upstream.sourceFor(r.Context(), v.caller)
	if err == nil {
		err = source.Finish(r.Context(), v.Login, r.URL)
	}
	if err != nil {
		g.logFailure(event.LevelWarn, "gateway.login_failed", v.Upstream, err)
		g.logins.mu.Lock()
		g.logins.failed.Put(v.ID, err)
		g.logins.mu.Unlock()
		http.Error(w, "The login at "+v.Upstream+" has failed. Nothing was changed; close this "+
			"page and try again.", http.StatusForbidden)
		return
	}
	g.log(event.LevelInfo, "gateway.login", func(out event.Encoder) {
		out.AddString("upstream", v.Upstream)
	})
	_, _ = fmt.Fprintf(w, "You are logged in at %s. You can close this page.\n", v.Upstream)
}

// openLink opens a link for its user's browser. It sends others a refusal and returns nil.
func (g *Gateway) openLink(w http.ResponseWriter, r *http.Request, text string) *loginLink {
	v := &loginLink{}
	plain, err := g.logins.sealer.Open(r.Context(), text)
	if err == nil {
		err = json.Unmarshal(plain, v)
	}
	if err != nil || v.Purpose != linkPurpose || v.Login == nil || !time.Now().Before(v.Ends) {
		http.Error(w, "This link is invalid or has expired: links are valid for 15 minutes. "+
			"Repeat the call that led to it.", http.StatusForbidden)
		return nil
	}
	var known bool
	if v.caller, known = g.logins.config.Visitor(w, r); !known {
		return nil
	}
	i := slices.IndexFunc(g.upstreams, func(u *upstream) bool {
		return u.config.Name == v.Upstream
	})
	if i < 0 || v.caller.Anonymous() || callerOf(v.caller) != v.Caller {
		http.Error(w, "This link is for somebody else. If it came to you from another person, "+
			"do not open it: your login would be theirs.", http.StatusForbidden)
		return nil
	}
	v.upstream = g.upstreams[i]
	return v
}

func (g *Gateway) loginCookie(state, value string, age time.Duration) *http.Cookie {
	sum := sha256.Sum256([]byte(state))
	u, _ := url.Parse(g.logins.config.URL) // validated by New
	return &http.Cookie{Name: cookiePrefix + hex.EncodeToString(sum[:8]), Value: value,
		Path: u.EscapedPath(), MaxAge: int(age / time.Second), HttpOnly: true,
		Secure: u.Scheme == "https", SameSite: http.SameSiteLaxMode}
}
