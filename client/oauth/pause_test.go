package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// failedLogin is what a call gets while no other page is opened.
var failedLogin = wantedKind(oauth.ErrLogin, "no other login begins")

// TestOnePageAMinute: however a login fails after its page was opened, and however many calls there
// are, the next page comes after a minute.
func TestOnePageAMinute(t *testing.T) {
	closed := errors.New("the window was closed")
	for name, c := range map[string]struct {
		fault  fault
		browse func(ctx context.Context, page string) error
		first  wantedError
	}{
		"an error of the issuer": {fault: func(s *site) {
			s.as.Edit(oauthtest.Authorize, func(d *oauthtest.Document) {
				*d = oauthtest.Document{{Name: "error", Value: "server_error"},
					*memberOf(d, "state"), *memberOf(d, "iss")}
			})
		}, first: wantedKind(oauth.ErrLogin, "server_error")},
		"the code is refused": {fault: replied(oauthtest.Token,
			refusal(http.StatusBadRequest, "invalid_grant")), first: tokenError},
		"an error with 200": {fault: replied(oauthtest.Token, refusal(http.StatusOK, "made_up")),
			first: tokenError},
		"a foreign iss": {fault: edited(oauthtest.Authorize, oauthtest.Set("iss", foreignIssuer)),
			first: callbackError},
		"the page is closed": {fault: noFault,
			browse: func(context.Context, string) error { return closed },
			first: wantedError{"its error", func(err error) bool {
				return errors.Is(err, closed)
			}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil, nil)
			c.fault(s)
			pages := 0
			source := s.person(t, func(o *oauth.Options) {
				if c.browse != nil {
					o.Interaction = &oauth.Loopback{
						Browse: func(ctx context.Context, page string) error {
							pages++
							return c.browse(ctx, page)
						}}
				}
			})
			opened := func() int { return pages + len(s.browser.Opened()) }
			c.first.check(t, s.call(t.Context(), source, "search"))
			source.AgeFailures(59 * time.Second)
			for range 5 {
				failedLogin.check(t, s.call(t.Context(), source, "search"))
			}
			if n := opened(); n != 1 {
				t.Fatalf("%d pages were opened, want 1", n)
			}
			source.AgeFailures(time.Second)
			c.first.check(t, s.call(t.Context(), source, "search"))
			if n := opened(); n != 2 {
				t.Errorf("%d pages were opened, want 2 after a minute", n)
			}
		})
	}
}

// TestEndsAreObserved: each end of a login and of a refresh is an event with its error.
func TestEndsAreObserved(t *testing.T) {
	s := newSite(t, nil, nil)
	var events []string
	source := s.person(t, func(o *oauth.Options) {
		o.Observe = func(e oauth.LoginEvent) {
			if e.Kind != oauth.ClientCreated {
				events = append(events, fmt.Sprint(e.Kind, " ", e.Err != nil))
			}
		}
	})
	want := func(name string, want ...string) {
		t.Helper()
		source.AgeFailures(5 * time.Minute)
		_ = s.call(t.Context(), source, "search")
		if !slices.Equal(events, want) {
			t.Errorf("%s: got %q, want %q", name, events, want)
		}
		events = nil
	}
	s.as.Deny(true)
	want("denied", "login_began false", "login_ended true")
	s.as.Deny(false)
	replied(oauthtest.Token, refusal(http.StatusBadRequest, "invalid_grant"))(s)
	want("the code is refused", "login_began false", "login_ended true")
	s.as.Behave()
	edited(oauthtest.Authorize, oauthtest.Set("iss", foreignIssuer))(s)
	want("a foreign iss", "login_began false", "login_ended true")
	s.as.Behave()
	want("logged in", "login_began false", "login_ended false")
	s.as.Expire()
	want("refreshed", "refreshed false")
	s.as.Expire()
	replied(oauthtest.Refresh, unavailable)(s)
	want("the issuer is down", "refreshed true")
	s.as.Behave()
	replied(oauthtest.Refresh, refusal(http.StatusOK, "made_up"))(s)
	want("the refresh is refused", "refreshed true", "login_began false", "login_ended false")
	_ = source.Logout(t.Context())
	want("the next call", "logged_out false", "login_began false", "login_ended false")
}

// memberOf returns the member of a document with a name.
func memberOf(d *oauthtest.Document, name string) *oauthtest.Member {
	return &oauthtest.Member{Name: name, Value: d.Get(name)}
}

// TestLoginThatIsGivenUp: a call that ends before the person has logged in opens one page, and so
// do the next ones. Their error is not that of a context.
func TestLoginThatIsGivenUp(t *testing.T) {
	s := newSite(t, nil, nil)
	pages := 0
	ctx, cancel := context.WithCancel(t.Context())
	source := s.source(t, func(o *oauth.Options) {
		o.Interaction = &oauth.Loopback{Browse: func(context.Context, string) error {
			pages++
			cancel()
			return nil
		}}
	})
	if err := s.call(ctx, source, "search"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that of the context", err)
	}
	for range 3 {
		err := s.call(t.Context(), source, "search")
		failedLogin.check(t, err)
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is the error of a context that is not the caller's", err)
		}
	}
	if pages != 1 {
		t.Errorf("%d pages were opened, want 1", pages)
	}
}

// TestPauseIsForOneLogin: another issuer, new scopes and a login after Logout do not wait.
func TestPauseIsForOneLogin(t *testing.T) {
	s, source := newLogin(t, (*site).person)
	replied(oauthtest.Token, refusal(http.StatusBadRequest, "invalid_grant"))(s)
	tokenError.check(t, s.call(t.Context(), source, "write"))
	s.as.Behave()
	failedLogin.check(t, s.call(t.Context(), source, "write"))

	s.as.RevokeAll() // a login for read: its scopes are others
	noError.check(t, s.call(t.Context(), source, "search"))

	other := oauthtest.NewServer(t, nil)
	s.resource.SetServers(other)
	noError.check(t, s.call(t.Context(), source, "write"))

	replied(oauthtest.Token, unavailable)(s)
	s.resource.SetServers(s.as)
	tokenError.check(t, s.call(t.Context(), source, "search"))
	if err := source.Logout(t.Context()); err != nil {
		t.Error(err)
	}
	s.as.Behave()
	noError.check(t, s.call(t.Context(), source, "search"))
}

// TestNewScopesForEver: a server that names other scopes each time does not get a page for each
// login that fails.
func TestNewScopesForEver(t *testing.T) {
	s := newSite(t, nil, nil)
	replied(oauthtest.Token, unavailable)(s)
	n := 0
	s.resource.Challenge(func(_ int, right string) []string {
		n++
		more := `scope="more` + strings.Repeat("!", n) + " "
		return []string{strings.Replace(right, `scope="`, more, 1)}
	})
	source := s.person(t, nil)
	for range 6 {
		if err := s.call(t.Context(), source, "search"); err == nil {
			t.Error("logged in")
		}
	}
	s.wantCounts(t, counts{oauthtest.Authorize: 3})
}

// TestRefreshThatCannotBeReadForEver: an endpoint that answers each refresh with a page does not
// keep the person out until Logout. One that is down does: logging in would not work either.
func TestRefreshThatCannotBeReadForEver(t *testing.T) {
	for name, c := range map[string]struct {
		reply  oauthtest.Reply
		logins int
	}{
		"a page":            {page, 2},
		"a page with 404":   {oauthtest.Reply{Status: http.StatusNotFound}, 2},
		"down":              {unavailable, 1},
		"too many requests": {oauthtest.Reply{Status: http.StatusTooManyRequests}, 1},
		"another type of token": {oauthtest.Reply{Status: http.StatusOK,
			Body: `{"access_token":"a","token_type":"mac"}`}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, source := newLogin(t, (*site).person)
			s.as.Expire()
			s.as.Reply(oauthtest.Refresh, c.reply)
			for range 2 {
				retryable.check(t, s.call(t.Context(), source, "search"))
			}
			err := s.call(t.Context(), source, "search")
			s.wantCounts(t, counts{oauthtest.Authorize: c.logins})
			if (err == nil) != (c.logins == 2) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestIssuerThatIsGone: the server has moved to another issuer while the token expired, and the old
// issuer does not answer any more, or only with an error.
func TestIssuerThatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		fault fault
		want  wantedError
	}{
		"its token endpoint": {replied(oauthtest.Refresh, unavailable), retryable},
		"its metadata":       {replied(oauthtest.Metadata, unavailable), metadataError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, &oauthtest.Options{Lifetime: time.Second}, nil)
			keep := func(store oauth.TokenStore) func(o *oauth.Options) {
				return func(o *oauth.Options) { o.Store = store }
			}
			store := oauth.NewMemoryStore()
			first := s.person(t, keep(store))
			noError.check(t, s.call(t.Context(), first, "search"))
			other := oauthtest.NewServer(t, nil)
			s.resource.SetServers(other)
			c.fault(s)
			time.Sleep(time.Until(first.TokenEnds()) + 10*time.Millisecond)
			source := s.person(t, keep(store)) // has not read the metadata
			for range 2 {
				c.want.check(t, s.call(t.Context(), source, "search"))
			}
			noError.check(t, s.call(t.Context(), source, "search"))
			if n := other.Count(oauthtest.Token); n != 1 {
				t.Errorf("%d logins at the other issuer, want 1", n)
			}
		})
	}
}

// TestDenialLastsFiveMinutes, longer than other failures.
func TestDenialLastsFiveMinutes(t *testing.T) {
	s := newSite(t, nil, nil)
	s.as.Deny(true)
	source := s.person(t, nil)
	denied := wantedKind(oauth.ErrDenied, "")
	denied.check(t, s.call(t.Context(), source, "search"))
	source.AgeFailures(5*time.Minute - time.Second)
	denied.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Authorize: 1})
	source.AgeFailures(time.Second)
	denied.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Authorize: 2})
}
