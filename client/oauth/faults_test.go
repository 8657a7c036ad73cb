package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// errGaveUp ends a login whose person has looked at a page to its end and was not logged in.
var errGaveUp = errors.New("the person gave up")

// An impatientPerson opens one page and gives up when that leads to nothing.
type impatientPerson struct {
	browser *oauthtest.Browser
	looking *sync.Mutex // held while they do
}

func (p impatientPerson) Open(ctx context.Context, hint string) (oauth.Receiver, error) {
	looked := make(chan struct{})
	loopback := &oauth.Loopback{Browse: func(ctx context.Context, page string) error {
		p.looking.Lock()
		defer p.looking.Unlock()
		defer close(looked)
		err := p.browser.Open(ctx, page)
		p.browser.Wait()
		return err
	}}
	receiver, err := loopback.Open(ctx, hint)
	return impatientReceiver{receiver, looked}, err
}

type impatientReceiver struct {
	oauth.Receiver
	looked chan struct{}
}

func (r impatientReceiver) Receive(ctx context.Context, l *oauth.Login,
	check func(*url.URL) error) (*url.URL, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-r.looked:
			cancel(errGaveUp)
		case <-ctx.Done():
		}
	}()
	return r.Receiver.Receive(ctx, l, check)
}

// person makes a source whose person gives up, and whose requests do not wait for long.
func (s *site) person(t *testing.T, change func(o *oauth.Options)) *oauth.Source {
	t.Helper()
	return s.source(t, func(o *oauth.Options) {
		o.Interaction = impatientPerson{s.browser, new(sync.Mutex)}
		if change != nil {
			change(o)
		}
	})
}

// wantNoSecrets fails if a text has a secret of the authorization server.
func (s *site) wantNoSecrets(t *testing.T, text string) {
	t.Helper()
	for _, secret := range s.as.Secrets() {
		if secret != "" && strings.Contains(text, secret) {
			t.Errorf("a secret is in %s", text)
		}
	}
	if strings.Contains(text, oauthtest.ForeignText) {
		t.Errorf("a foreign text is in %s", text)
	}
}

// A wantedError is what has to become of a call.
type wantedError struct {
	name string
	is   func(err error) bool
}

func isA[T error](err error) bool { _, ok := errors.AsType[T](err); return ok }

var (
	noError       = wantedError{"no error", func(err error) bool { return err == nil }}
	metadataError = wantedKind(oauth.ErrMetadata, "")
	issuerError   = wantedKind(oauth.ErrUntrusted, "the issuer is ")
	resourceError = wantedKind(oauth.ErrUntrusted, "the metadata is about the resource ")
	blockedError  = wantedKind(oauth.ErrUntrusted, "must not be asked")
	callbackError = wantedKind(oauth.ErrCallback, "")
	tokenError    = wantedError{"a TokenError", isA[*oauth.TokenError]}
	retryable     = wantedError{"a TokenError that is retryable", func(err error) bool {
		failed, ok := errors.AsType[*oauth.TokenError](err)
		return ok && failed.Retryable
	}}
	registrationError = wantedKind(oauth.ErrRegistration, "")
)

// wantedKind wants an error of a class whose text has a part.
func wantedKind(kind oauth.ErrorKind, part string) wantedError {
	return wantedError{fmt.Sprintf("%s (%q)", kind, part), func(err error) bool {
		return errors.Is(err, kind) && strings.Contains(err.Error(), part)
	}}
}

func (w wantedError) check(t *testing.T, err error) {
	t.Helper()
	if !w.is(err) {
		t.Errorf("got %v, want %s", err, w.name)
	}
}

// quickIf makes a client that does not wait for long if a server hangs.
func quickIf(fault string) func(o *oauth.Options) {
	return func(o *oauth.Options) {
		if strings.HasSuffix(fault, "not answer") || strings.HasSuffix(fault, "no answer") {
			o.HTTPClient = &http.Client{Timeout: time.Second}
		}
	}
}

func TestMetadataThatIsRefusedLeadsToNoLogin(t *testing.T) {
	for fault, want := range map[oauthtest.Fault]wantedError{
		"issuer with a slash more":                  issuerError,
		"issuer in other letters":                   issuerError,
		"issuer of another port":                    issuerError,
		"issuer of somebody else":                   issuerError,
		"no code challenge methods":                 metadataError,
		"plain code challenges only":                metadataError,
		"authorization endpoint is javascript":      metadataError,
		"authorization endpoint is a file":          metadataError,
		"token endpoint without TLS":                metadataError,
		"token endpoint at a link-local address":    metadataError,
		"token endpoint with a password in its URL": metadataError,
		"authorization endpoint with a fragment":    metadataError,
		"no authorization endpoint":                 metadataError,
		"no token endpoint":                         metadataError,
		"metadata redirects":                        metadataError,
		"metadata too large":                        metadataError,
		"metadata with a member twice":              metadataError,
		"metadata of wrong types":                   metadataError,
		"metadata nested too deep":                  metadataError,
		"metadata is a page":                        metadataError,
		"metadata fails with 503":                   metadataError,
		"metadata does not answer":                  metadataError,
	} {
		t.Run(string(fault), func(t *testing.T) {
			s := newSite(t, nil, nil)
			s.as.Misbehave(fault)
			source := s.person(t, quickIf(string(fault)))
			err := s.call(t.Context(), source, "search")
			want.check(t, err)
			s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Metadata: 1,
				oauthtest.Authorize: 0, oauthtest.Register: 0, oauthtest.Token: 0,
				oauthtest.Other: 0})
			if opened := s.browser.Opened(); len(opened) > 0 {
				t.Errorf("the person was sent to %q", opened)
			}
			s.as.Behave()
			noError.check(t, s.call(t.Context(), source, "search"))
		})
	}
}

func TestResourceMetadataThatIsRefusedLeadsToNoLogin(t *testing.T) {
	for fault, want := range map[oauthtest.Fault]wantedError{
		"resource of somebody else":                    resourceError,
		"resource with a slash more":                   resourceError,
		"resource is a parent path":                    resourceError,
		"resource in other letters":                    resourceError,
		"resource of another port":                     resourceError,
		"no resource":                                  resourceError,
		"no authorization servers":                     metadataError,
		"empty list of authorization servers":          metadataError,
		"authorization servers of a wrong type":        metadataError,
		"a thousand authorization servers":             metadataError,
		"authorization server is javascript":           metadataError,
		"authorization server without TLS":             metadataError,
		"authorization server at a link-local address": metadataError,
		"authorization server with a query":            metadataError,
		"resource metadata redirects":                  metadataError,
		"resource metadata too large":                  metadataError,
		"resource metadata with a member twice":        metadataError,
		"resource metadata nested too deep":            metadataError,
		"resource metadata is a page":                  metadataError,
		"resource metadata fails with 503":             metadataError,
		"resource metadata does not answer":            metadataError,
		"metadata of another origin":                   metadataError,
		"metadata at a link-local address":             metadataError,
		"metadata address is javascript":               metadataError,
	} {
		t.Run(string(fault), func(t *testing.T) {
			s := newSite(t, nil, nil)
			s.resource.Misbehave(fault)
			source := s.person(t, quickIf(string(fault)))
			want.check(t, s.call(t.Context(), source, "search"))
			s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Metadata: 0,
				oauthtest.Authorize: 0, oauthtest.Register: 0, oauthtest.Token: 0})
			if opened := s.browser.Opened(); len(opened) > 0 {
				t.Errorf("the person was sent to %q", opened)
			}
			s.resource.Behave()
			noError.check(t, s.call(t.Context(), source, "search"))
		})
	}
}

// TestCallbackThatIsNotTheAnswer: a page that is not the answer to the login is refused, and its
// code is never sent to the authorization server.
func TestCallbackThatIsNotTheAnswer(t *testing.T) {
	for _, fault := range []oauthtest.Fault{"advertised iss missing", "iss of somebody else",
		"iss with a slash more", "iss twice", "foreign iss and not advertised", "state missing",
		"state wrong", "state twice", "code missing", "code twice",
		"code and error", "error with foreign iss"} {
		t.Run(string(fault), func(t *testing.T) {
			s := newSite(t, nil, nil)
			s.as.Misbehave(fault)
			source := s.person(t, nil)
			err := s.call(t.Context(), source, "search")
			callbackError.check(t, err)
			s.wantNoSecrets(t, fmt.Sprint(err))
			s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 1, oauthtest.Token: 0})
			pages := s.browser.Pages()
			last := pages[len(pages)-1]
			if last.Status != http.StatusBadRequest {
				t.Errorf("the person saw status %d", last.Status)
			}
			s.wantNoSecrets(t, last.Body)
			s.as.Behave()
			noError.check(t, s.call(t.Context(), source, "search"))
		})
	}
}

// TestTokenAnswerThatIsRefused: a code is sent once, and nothing of the answer is kept.
func TestTokenAnswerThatIsRefused(t *testing.T) {
	for _, fault := range []oauthtest.Fault{"token of another type", "token without a type",
		"expires_in is a text", "expires_in is negative", "no access token",
		"access token with a line break", "token answer too large",
		"token answer with a member twice",
		"token answer is a page", "token endpoint fails with 503", "token endpoint does not answer",
		"token endpoint redirects",
		"invalid_client"} {
		t.Run(string(fault), func(t *testing.T) {
			s := newSite(t, nil, nil)
			s.as.Misbehave(fault)
			source := s.person(t, quickIf(string(fault)))
			before := source.Partition(t.Context())
			err := s.call(t.Context(), source, "search")
			tokenError.check(t, err)
			s.wantNoSecrets(t, fmt.Sprint(err))
			s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Token: 1, oauthtest.Other: 0})
			if source.Partition(t.Context()) != before {
				t.Error("somebody is logged in")
			}
			s.as.Behave()
			noError.check(t, s.call(t.Context(), source, "search"))
			registered := 1 // a registration is forgotten when it is not known any more
			if fault == "invalid_client" {
				registered = 2
			}
			s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Register: registered})
		})
	}
}

func TestWhatIsLegalLogsIn(t *testing.T) {
	for _, fault := range []oauthtest.Fault{"authorization endpoint with a query (legal)", "iss is sent and not advertised (legal)",
		"token without expires_in (legal)", "token without scope (legal)"} {
		t.Run(string(fault), func(t *testing.T) {
			s := newSite(t, nil, nil)
			s.as.Misbehave(fault)
			noError.check(t, s.call(t.Context(), s.person(t, nil), "search"))
		})
	}
}

func TestRegistrationThatFailsSendsNobodyToAPage(t *testing.T) {
	for _, fault := range []oauthtest.Fault{"registration: invalid_client_metadata",
		"registration: 503", "registration: a page", "registration: no client_id",
		"registration: unknown authentication method"} {
		t.Run(string(fault), func(t *testing.T) {
			s := newSite(t, nil, nil)
			s.as.Misbehave(fault)
			source := s.person(t, nil)
			err := s.call(t.Context(), source, "search")
			registrationError.check(t, err)
			s.wantNoSecrets(t, fmt.Sprint(err))
			s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 0})
			s.as.Behave()
			noError.check(t, s.call(t.Context(), source, "search"))
		})
	}
}

// TestRefreshThatFails: only invalid_grant and invalid_client forget anything, whatever else goes
// wrong nobody has to log in again.
func TestRefreshThatFails(t *testing.T) {
	for fault, want := range map[oauthtest.Fault]struct {
		first, later wantedError
		logins       int
	}{
		"refresh: invalid_grant":                   {noError, noError, 2},
		"refresh: an error of no standard":         {retryable, noError, 1},
		"refresh: 503":                             {retryable, noError, 1},
		"refresh: 429 with Retry-After":            {retryable, noError, 1},
		"refresh: a page with 200":                 {retryable, noError, 1},
		"refresh: no answer":                       {retryable, noError, 1},
		"refresh: answer lost once after rotation": {retryable, noError, 2}, // the old token is used up
		"token endpoint fails with 503":            {retryable, noError, 1},
		"token answer with a member twice":         {retryable, noError, 2}, // the same
	} {
		t.Run(string(fault), func(t *testing.T) {
			s := newSite(t, nil, nil)
			source := s.person(t, quickIf(string(fault)))
			noError.check(t, s.call(t.Context(), source, "search"))
			s.as.Expire()
			s.as.Misbehave(fault)
			err := s.call(t.Context(), source, "search")
			want.first.check(t, err)
			s.wantNoSecrets(t, fmt.Sprint(err))
			failed, ok := errors.AsType[*oauth.TokenError](err)
			if fault == "refresh: 429 with Retry-After" && (!ok ||
				failed.RetryAfter != oauthtest.RetryAfter*time.Second) {
				t.Errorf("got %v, want a time to try again", err)
			}
			s.as.Behave()
			want.later.check(t, s.call(t.Context(), source, "search"))
			s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: want.logins,
				oauthtest.Register: 1})
		})
	}
}

// TestRegistrationThatIsForgotten: a client that is not known any more registers again and has the
// person log in.
func TestRegistrationThatIsForgotten(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.person(t, nil)
	noError.check(t, s.call(t.Context(), source, "search"))
	s.as.Expire()
	s.as.RemoveClients()
	noError.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Register: 2, oauthtest.Authorize: 2})
}

func TestChallengesOfAllShapesStepUp(t *testing.T) {
	for _, fault := range []oauthtest.Fault{"several schemes in one header (legal)",
		"several headers (legal)", "commas in quotes (legal)"} {
		t.Run(string(fault), func(t *testing.T) {
			s := newSite(t, nil, nil)
			s.resource.Misbehave(fault)
			noError.check(t, s.call(t.Context(), s.person(t, nil), "write"))
		})
	}
}

// TestServerThatWantsMoreForEver: after the login and one for more scopes there is no other.
func TestServerThatWantsMoreForEver(t *testing.T) {
	s := newSite(t, nil, nil)
	s.resource.Misbehave("insufficient_scope for ever")
	source := s.person(t, nil)
	for range 3 {
		wantedError{"a ScopeError", isA[*oauth.InsufficientScopeError]}.check(t,
			s.call(t.Context(), source, "search"))
	}
	s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 2, oauthtest.Register: 1})
}

// TestServerThatWantsSomethingElseEachTime: no operation leads to more than two logins for scopes.
func TestServerThatWantsSomethingElseEachTime(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.person(t, nil)
	noError.check(t, s.call(t.Context(), source, "search"))
	n := 0
	s.resource.Misbehave("insufficient_scope for ever")
	s.resource.Challenge(func(_ int, right string) []string {
		n++
		return []string{`Bearer error="insufficient_scope", scope="more` + strings.Repeat("!", n) +
			`", ` + right[strings.Index(right, "resource_metadata"):]}
	})
	for range 3 {
		wantedError{"a ScopeError", isA[*oauth.InsufficientScopeError]}.check(t,
			s.call(t.Context(), source, "search"))
	}
	s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 3})
}

// A panickingPerson is an Interaction with a bug.
type panickingPerson struct{}

func (panickingPerson) Open(context.Context, string) (oauth.Receiver, error) {
	panic("a bug of the host")
}

// TestHostThatPanics gets an error with the stack, and can make other calls.
func TestHostThatPanics(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.person(t, func(o *oauth.Options) { o.Interaction = panickingPerson{} })
	for range 2 {
		var bug *client.PanicError
		err := s.call(t.Context(), source, "search")
		if !errors.As(err, &bug) || !strings.Contains(string(bug.Stack), "panickingPerson") {
			t.Errorf("got %v", err)
		}
	}
}

// TestPersonWhoSaysNo is not asked again for the same, and keeps what was granted before.
func TestPersonWhoSaysNo(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.person(t, nil)
	noError.check(t, s.call(t.Context(), source, "search"))
	s.as.Deny(true)
	for range 3 {
		if err := s.call(t.Context(), source, "write"); !errors.Is(err, oauth.ErrDenied) {
			t.Errorf("got %v", err)
		}
	}
	noError.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 2, oauthtest.Token: 1})
}

// TestServerThatWantsAnotherLoginEachTime: a person who says no to several is left alone, whatever
// scopes the next one is for.
func TestServerThatWantsAnotherLoginEachTime(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.person(t, nil)
	s.as.Deny(true)
	n := 0
	s.resource.Challenge(func(_ int, right string) []string {
		n++
		return []string{`Bearer scope="more` + strings.Repeat("!", n) + `", ` +
			right[strings.Index(right, "resource_metadata"):]}
	})
	for range 6 {
		if err := s.call(t.Context(), source, "search"); !errors.Is(err, oauth.ErrDenied) {
			t.Errorf("got %v", err)
		}
	}
	s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 3, oauthtest.Token: 0})
}

// TestServerThatMovesToAnotherAuthorizationServer: nothing of the first is sent to the second.
func TestServerThatMovesToAnotherAuthorizationServer(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.person(t, nil)
	noError.check(t, s.call(t.Context(), source, "search"))
	old := s.as.Secrets()
	second := oauthtest.NewServer(t, nil)
	s.resource.SetServers(second)
	noError.check(t, s.call(t.Context(), source, "search"))
	if n := s.as.Count(oauthtest.Refresh); n != 0 {
		t.Errorf("%d refreshes at the old one", n)
	}
	ids := s.as.ClientIDs()
	for _, endpoint := range []oauthtest.Endpoint{oauthtest.Register, oauthtest.Authorize,
		oauthtest.Token, oauthtest.Refresh} {
		for _, r := range second.Requests(endpoint) {
			text := r.URL.String() + r.Form.Encode() + r.Header.Get("Authorization") +
				string(r.Body)
			for _, secret := range slices.Concat(old, ids) {
				if secret != "" && strings.Contains(text, secret) {
					t.Errorf("%s got something of the old one: %s", endpoint, text)
				}
			}
		}
	}
}
