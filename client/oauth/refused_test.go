package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// TestTokenThatEndsEarlyIsRefreshed: a server may refuse a token that is not over, for example when
// the authorization server has revoked it. That is no reason for a login.
func TestTokenThatEndsEarlyIsRefreshed(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.source(t, nil)
	for range 3 {
		check(t, s.call(t.Context(), source, "search"))
		s.as.Expire()
	}
	s.wantCounts(t, counts{oauthtest.Authorize: 1, oauthtest.Refresh: 2})
}

// TestServerThatRefusesEveryToken: there is one login, and then an error without one for five
// minutes.
func TestServerThatRefusesEveryToken(t *testing.T) {
	s := newSite(t, nil, nil)
	s.resource.Refuse(http.StatusUnauthorized)
	source := s.source(t, nil)
	for range 3 {
		err := s.call(t.Context(), source, "search")
		if err == nil || !strings.Contains(err.Error(), "logging in again would not help") {
			t.Fatalf("got %v", err)
		}
	}
	s.wantCounts(t, counts{oauthtest.Authorize: 1, oauthtest.Refresh: 0})
	s.resource.Behave() // it was the server's fault, and the token is good
	if err := s.call(t.Context(), source, "search"); err != nil {
		t.Error(err)
	}
	s.wantCounts(t, counts{oauthtest.Authorize: 1, oauthtest.Refresh: 0})

	s.resource.Refuse(http.StatusUnauthorized)
	for _, passed := range []time.Duration{5*time.Minute - time.Second, time.Second} {
		source.AgeRefusals(passed)
		_ = s.call(t.Context(), source, "search")
		refreshes := 0
		if passed == time.Second {
			refreshes = 1
		}
		s.wantCounts(t, counts{oauthtest.Authorize: 1, oauthtest.Refresh: refreshes})
	}
}

// TestRefusalsSayWhy: the error has what the server says of a new token, quoted and cut.
func TestRefusalsSayWhy(t *testing.T) {
	for description, want := range map[string]string{
		`audience: the token must be for x`: `, and says "audience: the token must be for x": log`,
		"\u202eé":                           `, and says "\u202e\u00e9": log`,
		strings.Repeat("x", 1000):           `x\u2026": log`,
		"":                                  " has issued a moment ago: log",
	} {
		s := newSite(t, nil, nil)
		s.resource.Refuse(http.StatusUnauthorized)
		challenged(func(right string) []string {
			return []string{right + `, error="invalid_token", error_description="` +
				description + `"`}
		})(s)
		err := s.call(t.Context(), s.source(t, nil), "search")
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 600 {
			t.Errorf("%q: got %v", description, err)
		}
	}
	lack := &oauth.InsufficientScopeError{Needed: []string{"read"}, Granted: []string{"read", "x"}}
	if !strings.Contains(lack.Error(), "does not find them in the token") {
		t.Errorf("got %v", lack)
	}
}

// TestRefreshIsNotCancelled: the refresh token is used up when the request has arrived, so the
// answer must be awaited also when nobody waits for the call any more.
func TestRefreshIsNotCancelled(t *testing.T) {
	s := newSite(t, nil, nil)
	refreshed := make(chan error, 1)
	source := s.source(t, func(o *oauth.Options) {
		o.Observe = func(e oauth.LoginEvent) {
			if e.Kind == oauth.TokenRefresh {
				refreshed <- e.Err
			}
		}
	})
	check(t, s.call(t.Context(), source, "search"))
	s.as.Expire()
	gate := s.as.Hold(oauthtest.Refresh)
	ctx, cancel := context.WithCancel(t.Context())
	var call sync.WaitGroup
	call.Go(func() {
		if err := s.call(ctx, source, "search"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	<-gate.Arrived
	cancel()
	call.Wait()
	gate.Release()
	check(t, <-refreshed)
	check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Authorize: 1, oauthtest.Refresh: 1})
}

// TestWaitSaysWhyTheCallbackWasRefused: with an authorization server that does not keep its
// promises the person sees a page that refuses them, and the caller must learn why.
func TestWaitSaysWhyTheCallbackWasRefused(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	browser := oauthtest.NewBrowser(t)
	var receiver oauth.Receiver
	loopback := &oauth.Loopback{Browse: func(ctx context.Context, _ string) error {
		defer cancel() // nothing else will come
		page, err := browser.Load(ctx, receiver.RedirectURI()+"?iss=another")
		if err == nil && page.Status != http.StatusBadRequest {
			t.Errorf("status %d, want 400", page.Status)
		}
		return err
	}}
	receiver, err := loopback.Open(ctx, oauth.Redirect{})
	check(t, err)
	defer receiver.Close()
	_, err = receiver.Receive(ctx, &oauth.Login{URL: "https://issuer.example/authorize"},
		func(*url.URL) error {
			return &oauth.Error{Kind: oauth.ErrCallback, Err: errors.New("of another issuer")}
		})
	if !errors.Is(err, oauth.ErrCallback) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestChallengesThatSayNothing: the metadata is where it is without them, and a 403 is no reason
// for a login.
func TestChallengesThatSayNothing(t *testing.T) {
	for name, f := range map[string]fault{
		"none": challenged(func(string) []string { return nil }),
		"one that ends in a quote": challenged(func(right string) []string {
			return []string{right + `, x="`}
		}),
		"one that ends in a backslash": challenged(func(right string) []string {
			return []string{right + `, x="\`}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil, &oauthtest.ResourceOptions{Supported: []string{"read"},
				Scopes: []string{"read"}, Need: func(_, target string) []string {
					if target == "write" {
						return []string{"write"}
					}
					return nil
				}})
			f(s)
			source := s.person(t, nil)
			noError.check(t, s.call(t.Context(), source, "search"))
			if err := s.call(t.Context(), source, "write"); err == nil ||
				err.Error() != "status 403" {
				t.Errorf("got %v, want the status alone", err)
			}
			s.wantCounts(t, counts{oauthtest.Authorize: 1})
		})
	}
}

// TestForbiddenWithoutACode: the error means that the code is missing, and nobody has to log in.
func TestForbiddenWithoutACode(t *testing.T) {
	s := newSite(t, nil, nil)
	challengedWith(`error="insufficient_scope", `, "")(s)
	source := s.person(t, nil)
	noError.check(t, s.call(t.Context(), source, "search"))
	err := s.call(t.Context(), source, "write")
	status, ok := errors.AsType[*clienthttp.StatusError](err)
	if !ok || status.Status != http.StatusForbidden ||
		!strings.Contains(err.Error(), "has no error code") {
		t.Errorf("got %v", err)
	}
	s.wantCounts(t, counts{oauthtest.Authorize: 1})
}

// TestForbiddenForAnotherReason: the code means that scopes would not help, or another scheme is
// asked for.
func TestForbiddenForAnotherReason(t *testing.T) {
	for _, header := range []string{`Bearer error="invalid_request"`, `Basic realm="x"`} {
		s, source := newLogin(t, (*site).person)
		s.resource.Challenge(func(int, string) []string { return []string{header} })
		if err := s.call(t.Context(), source, "write"); err == nil || err.Error() != "status 403" {
			t.Errorf("%s: got %v, want the status alone", header, err)
		}
		s.wantCounts(t, counts{oauthtest.Authorize: 1})
	}
}
