package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/scope"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// refreshTime is how long a refresh may take.
	refreshTime = 30 * time.Second
	// refreshAhead is how long before its end a token is refreshed, or a tenth of its lifetime
	// where that is less.
	refreshAhead = 30 * time.Second
	// failureTime is how long it is remembered that a login was in vain: nobody is asked again
	// for the same before.
	failureTime = 5 * time.Minute
	// justIssuedTime is how long a token is so young that another would be refused as well.
	justIssuedTime = 10 * time.Second
	// maxStepUps is how many logins for more scopes an operation may lead to in stepUpTime.
	maxStepUps = 2
	stepUpTime = 10 * time.Minute
	// maxRemembered bounds what is remembered of operations and failures.
	maxRemembered = 1000
	// maxServers bounds what is remembered of metadata, which may be large: a server can name
	// another authorization server each time.
	maxServers = 16
	// refreshPause is the time after a refresh ahead of time has failed in which there is no
	// other.
	refreshPause = 5 * time.Second
)

// A Source has the tokens of one person for one endpoint, and gets them: it is a
// [clienthttp.Authorizer]. Its methods may be called concurrently; whatever the number of callers,
// one login, one refresh and one registration runs at a time.
type Source struct {
	opts         Options
	endpoint     *url.URL
	endpointText string
	store        Store
	guard        *guard

	loading sync.Mutex // held while the login is read from the store

	mu       sync.Mutex
	loaded   bool
	tokens   *tokens // nil: none
	flight   *flight // that runs, nil: none
	servers  map[string]*serverMetadata
	stepUps  map[string][]time.Time // by operation
	failures map[string]failure     // by what was asked for
	refused  refusedToken           // the last one
	pause    time.Time              // no refresh ahead of time before
	nobody   string                 // names the time in which nobody is logged in
}

// tokens are those in use. They are not changed.
type tokens struct {
	issuer   string // as its metadata spells it
	resource string
	record   *tokenRecord
	header   http.Header // for requests
}

func newTokens(issuer, resource string, record *tokenRecord) *tokens {
	return &tokens{issuer, resource, record,
		http.Header{"Authorization": {"Bearer " + record.Access}}}
}

// A refusedToken is one that the server has refused although it was just issued.
type refusedToken struct {
	token string
	at    time.Time
}

// A failure is a login that was in vain.
type failure struct {
	err error
	at  time.Time
}

var _ clienthttp.Authorizer = (*Source)(nil)

// New returns a source of tokens for an endpoint: the URL of an MCP server, https, or http to a
// loopback host. It reads and asks nothing yet. opts may be nil.
func New(endpoint string, opts *Options) (*Source, error) {
	u, err := checkEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &Options{}
	}
	if err := opts.check(); err != nil {
		return nil, err
	}
	s := &Source{opts: *opts, endpoint: u, endpointText: endpoint, store: opts.Store,
		guard: newGuard(u, opts.HTTPClient), servers: map[string]*serverMetadata{},
		stepUps: map[string][]time.Time{}, failures: map[string]failure{}, nobody: newNobody()}
	if s.store == nil {
		s.store = NewMemoryStore()
	}
	return s, nil
}

// Format implements [fmt.Formatter]. It prints the endpoint without its query, whatever the verb.
func (s *Source) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "tokens for %s://%s%s", s.endpoint.Scheme, s.endpoint.Host,
		s.endpoint.EscapedPath())
}

func newNobody() string { return "nobody-" + rand.Text() }

func (s *Source) observe(e Event) {
	if s.opts.Observe != nil {
		s.opts.Observe(e)
	}
}

func (s *Source) currentTokens() *tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens
}

func (s *Source) pointerKey() Key { return Key{Resource: s.endpointText, Account: s.opts.Account} }

func (s *Source) tokenKey(issuer, resource string) Key {
	return Key{Issuer: issuer, Resource: resource, Account: s.opts.Account}
}

// readStored reads the login from the store, at the first request and where force says so.
func (s *Source) readStored(ctx context.Context, force bool) (*tokens, error) {
	s.mu.Lock()
	now, loaded := s.tokens, s.loaded
	s.mu.Unlock()
	if loaded && !force {
		return now, nil
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	pointer, err := load[pointerRecord](ctx, s.store, s.pointerKey())
	if err != nil {
		return nil, err
	}
	var found *tokens
	if pointer != nil {
		record, err := load[tokenRecord](ctx, s.store, s.tokenKey(pointer.Issuer, pointer.Resource))
		if err != nil {
			return nil, err
		}
		if record != nil && isToken(record.Access) {
			found = newTokens(pointer.Issuer, pointer.Resource, record)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded && !force {
		return s.tokens, nil // there was a login or a logout meanwhile
	}
	s.tokens, s.loaded = found, true
	return found, nil
}

// keep saves a login and then uses it.
func (s *Source) keep(ctx context.Context, issuer, resource string, record *tokenRecord) error {
	if err := save(ctx, s.store, s.tokenKey(issuer, resource), record); err != nil {
		return err
	}
	err := save(ctx, s.store, s.pointerKey(), pointerRecord{issuer, resource})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens, s.loaded = newTokens(issuer, resource, record), true
	return nil
}

// Credentials implements [clienthttp.Authorizer]: it returns the token of the person, which it
// refreshes before it ends. Where there is none the request goes out without: the refusal says
// where to log in. The header is that of all requests and must not be changed.
func (s *Source) Credentials(ctx context.Context, r clienthttp.Outgoing) (http.Header, error) {
	if r.URL == nil || *r.URL != *s.endpoint && r.URL.String() != s.endpoint.String() {
		return nil, errors.New("oauth: the request is for another endpoint than the tokens are")
	}
	now, err := s.readStored(ctx, false)
	if err != nil || now == nil {
		return nil, err
	}
	switch left := now.record.left(); {
	case now.record.Refresh == "":
	case left <= 0:
		if _, err := s.mend(ctx, now.record.Access, refreshTime, s.renew); err != nil &&
			!isFinal(err) {
			return nil, err
		}
		if now = s.currentTokens(); now == nil {
			return nil, nil
		}
	case left < now.record.ahead():
		s.refreshInBackground(now)
	}
	return now.header, nil
}

// left returns how long the token is valid; a token that does not say ends when it is refused.
func (r *tokenRecord) left() time.Duration {
	if r.Expiry.IsZero() {
		return maxExpiry
	}
	return time.Until(r.Expiry)
}

func (r *tokenRecord) ahead() time.Duration {
	return min(refreshAhead, r.Expiry.Sub(r.Obtained)/10)
}

// Refused implements [clienthttp.Authorizer]. After a 401 it refreshes the token or has the person
// log in; after a 403 that asks for more scopes it has them log in for these. A token that was
// replaced meanwhile is no reason for either.
func (s *Source) Refused(ctx context.Context, r clienthttp.Refusal) (again bool, err error) {
	sent, _ := strings.CutPrefix(r.Sent.Get("Authorization"), "Bearer ")
	c := readChallenge(r.Header)
	now, err := s.readStored(ctx, false)
	if err != nil {
		return false, err
	}
	if now != nil && now.record.Access != sent {
		return true, nil
	}
	if !waitsForPeople(r.Outgoing) {
		return false, nil
	}
	if r.Status == http.StatusUnauthorized || now == nil && c.code == insufficientScope {
		return s.mend(ctx, sent, loginTime, func(ctx context.Context, sent string) error {
			return s.replace(ctx, sent, c, r.Attempt)
		})
	}
	switch {
	case c.bearer && c.code == "":
		return false, fmt.Errorf("oauth: %w: %w",
			&clienthttp.StatusError{Status: r.Status, Header: r.Header}, errNoCode)
	case c.code != insufficientScope:
		return false, nil // not for want of scopes
	}
	return s.stepUp(ctx, r, now, c)
}

const insufficientScope = "insufficient_scope"

// errNoCode says why a 403 leads to no login: RFC 6750, 3.1, has servers send a code, and without
// it a login would be a guess.
var errNoCode = errors.New("the WWW-Authenticate header of the response has no error code; a " +
	"server that needs more scopes has to send error=\"insufficient_scope\"")

// waitsForPeople reports whether a request is worth a login: not the end of a session, and not the
// end of a call, which are given up soon.
func waitsForPeople(r clienthttp.Outgoing) bool {
	return r.Method != http.MethodDelete && r.RPC != protocol.NotifyCancelled
}

// stepUp has the person grant more scopes, unless that was tried in vain.
func (s *Source) stepUp(ctx context.Context, r clienthttp.Refusal, now *tokens, c challenge) (
	bool, error) {
	lack := &ScopeError{Needed: c.scopes, Granted: now.record.Granted}
	wanted := scope.Union(now.record.Requested, c.scopes)
	asked := len(wanted) == len(now.record.Requested) && s.opts.Scopes == nil
	if len(c.scopes) == 0 || asked && time.Since(now.record.LoggedIn) < failureTime {
		return false, lack
	}
	sent, operation := now.record.Access, r.RPC+"\x00"+r.Target
	return s.mend(ctx, sent, loginTime, func(ctx context.Context, sent string) error {
		if replaced, err := s.replacedElsewhere(ctx, sent); replaced || err != nil {
			return err
		}
		err := s.logIn(ctx, want{challenge: c, operation: operation})
		if errors.Is(err, errStepUps) {
			return lack
		}
		if errors.Is(err, ErrDenied) {
			return errors.Join(lack, err)
		}
		return err
	})
}

// errStepUps says that an operation has led to enough logins.
var errStepUps = errors.New("oauth: there were enough logins for this operation")

// countStepUp reports whether an operation may lead to another login.
func (s *Source) countStepUp(operation string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stepUps) >= maxRemembered {
		maps.DeleteFunc(s.stepUps, func(_ string, times []time.Time) bool {
			return time.Since(times[len(times)-1]) > stepUpTime
		})
	}
	times := slices.DeleteFunc(s.stepUps[operation], func(at time.Time) bool {
		return time.Since(at) > stepUpTime
	})
	if len(times) >= maxStepUps || len(s.stepUps) >= maxRemembered {
		return false
	}
	s.stepUps[operation] = append(times, time.Now())
	return true
}

// replace gets another token in the place of one that the server does not accept. attempt counts
// how often the request was sent: the token of a second one was just issued, for this request.
func (s *Source) replace(ctx context.Context, sent string, c challenge, attempt int) error {
	now, err := s.replacedNow(ctx, sent)
	if err != nil || now.replaced {
		return err
	}
	if now.tokens == nil {
		return s.logIn(ctx, want{challenge: c})
	}
	// The server may name another authorization server by now.
	d, err := s.discover(ctx, c)
	if err != nil {
		return err
	}
	moved := d.Issuer != now.tokens.issuer || d.Resource != now.tokens.resource
	record := now.tokens.record
	justIssued := time.Since(record.Obtained) < justIssuedTime && record.left() > 0
	vain := s.isRefusedToken(sent, justIssued && attempt > 1)
	if !moved && record.Refresh != "" && !vain {
		if err := s.renew(ctx, sent); !isFinal(err) {
			return err
		}
	} else if !moved && time.Since(record.LoggedIn) < failureTime && record.left() > 0 {
		return fmt.Errorf("oauth: the server refuses a token that its authorization server %s has "+
			"issued a moment ago: logging in again would not help", d.Issuer)
	}
	return s.logInAt(ctx, d, want{challenge: c})
}

// isRefusedToken reports whether another token would be refused as well: this one was just issued
// for the request that it was refused for, or it was remembered as such lately.
func (s *Source) isRefusedToken(sent string, now bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now {
		s.refused = refusedToken{sent, time.Now()}
	}
	return s.refused.token == sent && time.Since(s.refused.at) < failureTime
}

// isFinal reports whether an authorization server has refused a refresh in a way that another
// request would not change. The person has to log in then.
func isFinal(err error) bool {
	failed := (*TokenError)(nil)
	return errors.As(err, &failed) && !failed.Retryable
}

// isForgotten reports whether an authorization server has said that a refresh token is of no use
// any more.
func isForgotten(err error) bool {
	failed := (*TokenError)(nil)
	return isFinal(err) && errors.As(err, &failed) &&
		(failed.Code == "invalid_grant" || failed.Code == "invalid_client")
}

// A replacement is what the store has in the place of a token.
type replacement struct {
	tokens   *tokens
	replaced bool
}

// replacedNow reads the store: another process may have replaced the token.
func (s *Source) replacedNow(ctx context.Context, sent string) (replacement, error) {
	now, err := s.readStored(ctx, true)
	return replacement{now, err == nil && now != nil && now.record.Access != sent}, err
}

func (s *Source) replacedElsewhere(ctx context.Context, sent string) (bool, error) {
	now, err := s.replacedNow(ctx, sent)
	return now.replaced, err
}

// renew refreshes the token that was sent, unless somebody else has. What the authorization server
// says of the refresh token is final only with the codes invalid_grant and invalid_client; then the
// store is read once more, for a process that does not share its locks may have used it up.
func (s *Source) renew(ctx context.Context, sent string) error {
	now, err := s.replacedNow(ctx, sent)
	if err != nil || now.replaced {
		return err
	}
	old := now.tokens
	if old == nil || old.record.Refresh == "" {
		return nil // the request goes out with what there is, and is refused
	}
	server, err := s.serverOf(ctx, old.issuer)
	if err != nil {
		return err
	}
	client, err := s.clientByID(ctx, server, old.record.ClientID)
	if err != nil {
		return err
	}
	if client == nil { // its secret has expired, or it is not configured any more
		return errors.Join(&TokenError{Issuer: old.issuer, Code: "invalid_client",
			Err: errors.New("the registration of the login is not valid any more")},
			s.forgetRefresh(ctx, old))
	}
	// Once it was sent it is not cancelled: the refresh token may be used up already, and the next
	// one is in the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTime)
	defer cancel()
	record, err := s.refresh(ctx, server, client, old.resource, old.record)
	s.observe(Event{Kind: TokenRefresh, Issuer: old.issuer, Resource: old.resource,
		Scopes: old.record.Granted, Err: err})
	if isForgotten(err) {
		if replaced, readErr := s.replacedElsewhere(ctx, sent); replaced || readErr != nil {
			return readErr
		}
		return errors.Join(err, s.forgetRefresh(ctx, old))
	}
	if err != nil {
		return err
	}
	return s.keep(ctx, old.issuer, old.resource, record)
}

// forgetRefresh keeps a login without its refresh token, which is of no use any more.
func (s *Source) forgetRefresh(ctx context.Context, old *tokens) error {
	record := *old.record
	record.Refresh = ""
	return s.keep(ctx, old.issuer, old.resource, &record)
}

func (s *Source) refreshInBackground(now *tokens) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight == nil && s.tokens == now && !time.Now().Before(s.pause) {
		f := s.startLocked(context.Background(), now.record.Access, refreshTime, s.renewAhead)
		f.waiters++ // it ends by itself
	}
}

// renewAhead is renew for a token that is still valid: when it fails, requests do not ask the
// authorization server again one after the other.
func (s *Source) renewAhead(ctx context.Context, sent string) error {
	err := s.renew(ctx, sent)
	if err == nil {
		return nil
	}
	pause := refreshPause
	if failed := (*TokenError)(nil); errors.As(err, &failed) {
		pause = max(pause, failed.RetryAfter)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = time.Now().Add(pause)
	return err
}

// logIn finds the authorization server and has the person log in.
func (s *Source) logIn(ctx context.Context, need want) error {
	d, err := s.discover(ctx, need.challenge)
	if err != nil {
		return err
	}
	return s.logInAt(ctx, d, need)
}

// logInAt has the person log in. What was in vain a moment ago is not asked for again.
func (s *Source) logInAt(ctx context.Context, d *Discovery, need want) error {
	if s.opts.Interaction == nil {
		return &LoginRequiredError{need.challenge.scopes, need.challenge}
	}
	if err := s.failedLately(askedFor(d, need)); err != nil {
		return err
	}
	if need.operation != "" && !s.countStepUp(need.operation) {
		return errStepUps
	}
	s.observe(Event{Kind: LoginBegan, Issuer: d.Issuer, Resource: d.Resource,
		Scopes: need.challenge.scopes})
	err := s.interact(ctx, d, need)
	s.observe(Event{Kind: LoginEnded, Issuer: d.Issuer, Resource: d.Resource,
		Scopes: need.challenge.scopes, Err: err})
	return err
}

// askedFor names what a person is asked for.
func askedFor(d *Discovery, need want) string {
	return d.Issuer + "\x00" + joined(need.challenge.scopes)
}

// rememberFailure remembers what the person has refused.
func (s *Source) rememberFailure(asked string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failures) >= maxRemembered {
		clear(s.failures)
	}
	s.failures[asked] = failure{err, time.Now()}
}

func (s *Source) failedLately(asked string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.failures[asked]; f.err != nil && time.Since(f.at) < failureTime {
		return f.err
	}
	return nil
}

// interact runs one login.
func (s *Source) interact(ctx context.Context, d *Discovery, need want) error {
	hint, err := s.redirectHint(ctx, d.server)
	if err != nil {
		return err
	}
	receiver, err := s.opts.Interaction.Open(ctx, hint)
	if err != nil {
		return err
	}
	defer receiver.Close()
	l, err := s.begin(ctx, d, need, receiver.RedirectURI())
	if err != nil {
		return err
	}
	check := func(callback *url.URL) error {
		_, err := l.data.readCallback(callback, d.server)
		return err
	}
	callback, err := receiver.Receive(ctx, l, check)
	if err == nil {
		err = s.finish(ctx, l, callback)
	} else if cause := context.Cause(ctx); !errors.Is(err, cause) {
		err = errors.Join(err, cause)
	}
	if errors.Is(err, ErrDenied) {
		s.rememberFailure(askedFor(d, need), err)
	}
	return err
}

// Partition names the login whose results a client may reuse: it changes with every login and
// logout, and is the same for all tokens of a login. It is for client.CacheOptions.Partition.
func (s *Source) Partition(ctx context.Context) string {
	now, err := s.readStored(ctx, false)
	if err == nil && now != nil {
		return now.record.Login
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nobody
}

// Logout forgets the login, and takes its tokens back where the authorization server can. They are
// forgotten also where it returns an error, unless that is a [*StoreError]. A login that runs is
// ended.
func (s *Source) Logout(ctx context.Context) error {
	s.mu.Lock()
	if s.flight != nil {
		s.flight.endLocked(errLoggedOut)
	}
	s.mu.Unlock()
	unlock, err := s.store.Lock(ctx, s.pointerKey())
	if err != nil {
		return &StoreError{err}
	}
	defer unlock()
	old, err := s.readStored(ctx, true)
	s.mu.Lock()
	s.tokens, s.loaded, s.nobody = nil, true, newNobody()
	clear(s.failures)
	clear(s.stepUps)
	s.mu.Unlock()
	if err != nil || old == nil {
		return err
	}
	err = errors.Join(s.store.Delete(ctx, s.pointerKey()),
		s.store.Delete(ctx, s.tokenKey(old.issuer, old.resource)))
	if err != nil {
		err = &StoreError{err}
	}
	server, serverErr := s.serverOf(ctx, old.issuer)
	if serverErr == nil {
		client, clientErr := s.clientByID(ctx, server, old.record.ClientID)
		if serverErr = clientErr; clientErr == nil && client != nil {
			serverErr = s.revoke(ctx, server, client, old.record)
		}
	}
	s.observe(Event{Kind: LoggedOut, Issuer: old.issuer, Resource: old.resource, Err: serverErr})
	return errors.Join(err, serverErr)
}

// errLoggedOut ends the logins that a logout finds.
var errLoggedOut = errors.New("oauth: Logout was called")
