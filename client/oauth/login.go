package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

const (
	loginTimeout  = 5 * time.Minute  // for a login that a call waits for
	loginLifetime = 15 * time.Minute // for a login that can be finished
)

type loginRequest struct {
	challenge challenge // the challenge that led to the login, if any
	operation string    // the operation that needs more scopes; empty: not a step-up
}

func (s *Source) logIn(ctx context.Context, request loginRequest) error {
	d, err := s.discover(ctx, request.challenge)
	if err != nil {
		return err
	}
	return s.logInAt(ctx, d, request)
}

// logInAt runs a login by Options.Interaction, or requests a token by Options.Machine. It fails at
// once if both are nil, after maxStepUps logins of the operation, and with a cached failure.
func (s *Source) logInAt(ctx context.Context, d *discovery, request loginRequest) error {
	if s.opts.Interaction == nil && s.opts.Machine == nil {
		return &LoginRequiredError{request.challenge.scopes, request.challenge}
	}
	if err := s.recentFailure(failureKey(d, request)); err != nil {
		return err
	}
	if request.operation != "" && !s.countStepUp(request.operation) {
		return errTooManyStepUps
	}
	e := LoginEvent{Kind: LoginBegan, Issuer: d.issuer, Resource: d.resource,
		Scopes: request.challenge.scopes}
	s.reportEvent(e)
	run := s.runLogin
	if s.opts.Machine != nil {
		run = s.logInMachine
	}
	e.Kind, e.Err = LoginEnded, run(ctx, d, request)
	s.reportEvent(e)
	return e.Err
}

func failureKey(d *discovery, request loginRequest) string {
	return d.issuer + "\x00" + joinScopes(request.challenge.scopes)
}

func (s *Source) rememberFailure(key string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failures) >= maxRemembered {
		clear(s.failures)
	}
	f := failure{err, time.Now(), time.Now().Add(loginPause)}
	if errors.Is(err, ErrDenied) {
		f.ends = f.at.Add(failureMemory)
	}
	s.failures[key] = f
}

// recentFailure returns a login's cached failure, or nil. After maxFailedLogins it returns a
// failure for every login, because a server may name other issuers or scopes for each request.
func (s *Source) recentFailure(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed, last := 0, failure{}
	for k, f := range s.failures {
		if !time.Now().Before(f.ends) {
			continue
		}
		if k == key {
			return f.cachedError("")
		}
		if failed++; f.at.After(last.at) {
			last = f
		}
	}
	if failed >= maxFailedLogins {
		return last.cachedError(fmt.Sprintf("%d logins have failed lately; ", failed))
	}
	return nil
}

// cachedError never returns a context error, because the caller's context has not ended.
func (f *failure) cachedError(reason string) error {
	err := f.err
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = errors.New(err.Error())
	}
	err = fmt.Errorf("%w (%sno other login begins for %s)", err, reason,
		time.Until(f.ends).Round(time.Second))
	if errors.Is(err, ErrDenied) {
		return err
	}
	return &Error{Kind: ErrLogin, Err: err}
}

func (s *Source) runLogin(ctx context.Context, d *discovery, request loginRequest) error {
	path, last, err := s.redirectFor(ctx, d.server)
	if err != nil {
		return err
	}
	receiver, err := s.opts.Interaction.Open(ctx, path, last)
	if err != nil {
		return err
	}
	defer receiver.Close()
	l, err := s.prepareLogin(ctx, d, request, receiver.RedirectURI())
	if err != nil {
		return err
	}
	check := func(callback *url.URL) error {
		_, err := l.data.readCallback(callback, d.server)
		return err
	}
	callback, err := receiver.Receive(ctx, l, check)
	if err == nil {
		err = s.completeLogin(ctx, l, callback)
	} else if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = errors.Join(err, cause)
	}
	if err != nil {
		s.rememberFailure(failureKey(d, request), err)
	}
	return err
}

// Begin begins a login without an [Interaction], for hosts whose user has a browser elsewhere. The
// host sends the browser to Login.URL, and passes the callback URL to [Source.Finish] within 15
// minutes. cause is the error of the call; nil requests the previous scopes. [Options].RedirectURI
// must be set. Begin may register the client. Overlapping calls begin separate logins.
func (s *Source) Begin(ctx context.Context, cause error) (*Login, error) {
	if s.opts.RedirectURI == "" {
		return nil, errors.New("oauth: Options.RedirectURI is empty: " +
			"the browser could not come back")
	}
	var request loginRequest
	if required := (*LoginRequiredError)(nil); errors.As(cause, &required) {
		request = loginRequest{challenge: required.challenge}
	}
	d, err := s.discover(ctx, request.challenge)
	if err != nil {
		return nil, err
	}
	return s.prepareLogin(ctx, d, request, s.opts.redirectURI(d.issuer))
}

// prepareLogin makes a login with scopes, state and code verifier. It may register the client.
func (s *Source) prepareLogin(ctx context.Context, d *discovery, request loginRequest,
	redirectURI string) (*Login, error) {
	client, err := s.findOrRegisterClient(ctx, d.server, redirectURI)
	if err != nil {
		return nil, err
	}
	scopes, err := s.chooseScopes(ctx, d, request)
	if err != nil {
		return nil, err
	}
	l := &Login{data: loginData{
		Endpoint: s.endpointText, Account: s.opts.Account, Issuer: d.issuer, Resource: d.resource,
		RedirectURI: redirectURI, ClientID: client.id, State: rand.Text(),
		Verifier: rand.Text() + rand.Text(), Scopes: scopes, Began: time.Now(),
		OfIssuer: redirectURI != s.opts.RedirectURI &&
			redirectURI == s.opts.redirectURI(d.issuer) ||
			strings.HasSuffix(redirectURI, issuerPath(d.issuer)),
	}}
	l.URL, err = l.data.authorizationURL(d.server, s.providerFor(d.issuer))
	return l, err
}

// chooseScopes returns the scopes to request, see Options.Scopes, limited by Provider.Scopes.
func (s *Source) chooseScopes(ctx context.Context, d *discovery, request loginRequest) (
	[]string, error) {
	p := s.providerFor(d.issuer)
	choice := ScopeChoice{Challenge: p.localScopes(request.challenge.scopes),
		Supported: p.localScopes(d.scopes)}
	current, err := s.readStored(ctx, false)
	if err != nil {
		return nil, err
	}
	if current != nil && current.issuer == d.issuer && current.resource == d.resource {
		choice.Requested = current.record.Requested
	}
	var scopes []string
	switch {
	case s.opts.Scopes != nil:
		chosen, err := s.opts.Scopes(ctx, choice)
		if err != nil {
			return nil, err
		}
		for _, text := range chosen {
			if !rules.IsScopeList(text) {
				return nil, fmt.Errorf("oauth: Options.Scopes returned %q, which is no scope", text)
			}
		}
		scopes = rules.UniteScopes(chosen)
	case len(choice.Challenge) > 0:
		scopes = rules.UniteScopes(choice.Requested, choice.Challenge)
	case len(choice.Requested) > 0:
		scopes = choice.Requested
	default:
		scopes = rules.UniteScopes(choice.Supported)
	}
	scopes = p.limitScopes(p.localScopes(scopes))
	if s.opts.Machine == nil && slices.Contains(d.server.Scopes, scopeOfflineAccess) {
		scopes = rules.UniteScopes(scopes, []string{scopeOfflineAccess})
	}
	return scopes, nil
}

// scopeOfflineAccess requests a refresh token (OpenID Connect Core, section 11).
const scopeOfflineAccess = "offline_access"

// Finish ends a login: it checks the callback URL and redeems its code. A Source of another process
// with the same endpoint, account and options may have begun it. The error is [ErrCallback] for a
// foreign URL, [ErrDenied] or [ErrLogin] for an error of the authorization server, and a
// [*TokenError] if the code cannot be redeemed. Overlapping calls wait for one another.
func (s *Source) Finish(ctx context.Context, l *Login, callback *url.URL) error {
	unlock, err := s.store.Lock(ctx, s.pointerKey())
	if err != nil {
		return storeError(err)
	}
	defer unlock()
	return s.completeLogin(ctx, l, callback)
}

// completeLogin does the work of Finish under the login's lock. ctx cannot cancel use of a code.
func (s *Source) completeLogin(ctx context.Context, l *Login, callback *url.URL) error {
	switch {
	case l == nil || callback == nil:
		return errors.New("oauth: Finish needs a login and a callback")
	case l.data.Endpoint != s.endpointText || l.data.Account != s.opts.Account:
		return errors.New("oauth: the login is of another endpoint or account")
	case time.Since(l.data.Began) > loginLifetime:
		return callbackError("it came too late; begin another login")
	}
	server, err := s.findServer(ctx, l.data.Issuer)
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
		return &Error{ErrRegistration, server.Issuer, errors.New("the registration of the login " +
			"was forgotten; begin another")}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
	defer cancel()
	// RFC 6749, section 4.1.3; RFC 7636, section 4.5.
	record, err := s.requestToken(ctx, server, client, l.data.Resource, newGrant(l.data.Scopes,
		url.Values{"grant_type": {"authorization_code"}, "code": {code},
			"redirect_uri": {l.data.RedirectURI}, "code_verifier": {l.data.Verifier}}))
	if err != nil {
		return err
	}
	return s.saveLogin(ctx, l.data.Issuer, l.data.Resource, record)
}
