package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/wire/authhttp"
)

const maxServers = 16 // with cached metadata, because an MCP server can name another each time

// A Source is a [clienthttp.Authorizer] with one user's tokens for one MCP endpoint. Its methods
// may be called concurrently. Logins and refreshes run one at a time.
type Source struct {
	opts         Options
	endpoint     *url.URL
	endpointText string // the resource, spelled as New got it
	store        TokenStore
	guard        *ssrfGuard

	loadMu sync.Mutex // held while the login is read from the store

	mu               sync.Mutex
	loaded           bool     // the login was read from the store
	tokens           *tokens  // nil if there is no login
	renewal          *renewal // in flight, or nil
	servers          map[string]*serverMetadata
	stepUps          map[string][]time.Time // when each operation started logins for more scopes
	failures         map[string]failure     // failed logins, by failureKey
	history          tokenHistory
	earlyRefreshFrom time.Time // earliest start of an early refresh
}

// A failure is a login that failed after its page was opened. Until it ends, no other page opens.
type failure struct {
	err      error
	at, ends time.Time
}

var _ clienthttp.Authorizer = (*Source)(nil)

// New returns a source of tokens for endpoint, an MCP server's URL without fragment: https, or http
// to loopback. It uses neither network nor store. opts may be nil. Errors name the option.
func New(endpoint string, opts *Options) (*Source, error) {
	u, err := urlrule.Check(endpoint)
	if err != nil {
		return nil, fmt.Errorf("oauth: the endpoint: %w", err)
	}
	if strings.Contains(endpoint, "#") {
		return nil, errors.New("oauth: the endpoint has a fragment")
	}
	opts = cmp.Or(opts, &Options{})
	if err := opts.check(endpoint); err != nil {
		return nil, err
	}
	s := &Source{opts: *opts, endpoint: u, endpointText: endpoint, store: opts.Store,
		guard:   newSSRFGuard(u, opts.HTTPClient),
		servers: map[string]*serverMetadata{},
		stepUps: map[string][]time.Time{}, failures: map[string]failure{}}
	if s.store == nil {
		s.store = NewMemoryStore()
	}
	return s, nil
}

// Format implements [fmt.Formatter]. It prints the endpoint without its query.
func (s *Source) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "tokens for %s://%s%s", s.endpoint.Scheme, s.endpoint.Host,
		s.endpoint.EscapedPath())
}

func (s *Source) reportEvent(e LoginEvent) {
	if s.opts.Observe != nil {
		s.opts.Observe(e)
	}
}

// pointerKey is the key of the pointer from the endpoint to its login, and of the login's lock.
func (s *Source) pointerKey() Key { return Key{Resource: s.endpointText, Account: s.opts.Account} }

func (s *Source) tokenKey(issuer, resource string) Key {
	return Key{Issuer: issuer, Resource: resource, Account: s.opts.Account}
}

// The type tokens holds a login and its tokens. It is immutable.
type tokens struct {
	issuer   string // as in its metadata
	resource string
	record   *tokenRecord
	header   http.Header // header of requests to the endpoint
}

func newTokens(issuer, resource string, record *tokenRecord) *tokens {
	return &tokens{issuer, resource, record,
		http.Header{"Authorization": {bearerScheme + " " + record.Access}}}
}

// readStored returns the tokens, nil without a login. The first call, or force, loads them.
func (s *Source) readStored(ctx context.Context, force bool) (*tokens, error) {
	s.mu.Lock()
	current, loaded := s.tokens, s.loaded
	s.mu.Unlock()
	if loaded && !force {
		return current, nil
	}
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	found, err := s.loadTokens(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded && !force {
		return s.tokens, nil // a login or logout has happened meanwhile
	}
	s.tokens, s.loaded = found, true
	return found, nil
}

func (s *Source) loadTokens(ctx context.Context) (*tokens, error) {
	pointer, err := loadRecord[pointerRecord](ctx, s.store, s.pointerKey())
	if err != nil || pointer == nil {
		return nil, err
	}
	k := s.tokenKey(pointer.Issuer, pointer.Resource)
	record, err := loadRecord[tokenRecord](ctx, s.store, k)
	if err != nil || record == nil || record.BoundTo != "" || !authhttp.IsToken(record.Access) {
		return nil, err
	}
	return newTokens(pointer.Issuer, pointer.Resource, record), nil
}

// StoredLogin returns an id of the login in the store, which another process may have finished.
// Hosts use it to wait for a user ([Source.Begin]) or to cache results. Refreshes keep the id; each
// login has a new one. Empty means that there is no usable login. Calls may overlap.
func (s *Source) StoredLogin(ctx context.Context) (string, error) {
	found, err := s.loadTokens(ctx)
	if err != nil || found == nil {
		return "", err
	}
	return found.record.Login, nil
}

// saveLogin saves a login in store and memory, and deletes a login at another authorization server.
func (s *Source) saveLogin(ctx context.Context, issuer, resource string,
	record *tokenRecord) error {
	pointer := pointerRecord{issuer, resource}
	old, err := loadRecord[pointerRecord](ctx, s.store, s.pointerKey())
	if err != nil {
		return err
	}
	if err := saveRecord(ctx, s.store, s.tokenKey(issuer, resource), record); err != nil {
		return err
	}
	if err := saveRecord(ctx, s.store, s.pointerKey(), pointer); err != nil {
		return err
	}
	if old != nil && *old != pointer {
		err = s.store.Delete(ctx, s.tokenKey(old.Issuer, old.Resource))
	}
	if err != nil {
		return storeError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens, s.loaded = newTokens(issuer, resource, record), true
	return nil
}

// Credentials implements [clienthttp.Authorizer]: it returns the Authorization header, if any. It
// waits for the refresh of an expired token, and starts the refresh of a token that expires soon.
func (s *Source) Credentials(ctx context.Context, r clienthttp.Outgoing) (http.Header, error) {
	if r.URL == nil || *r.URL != *s.endpoint && r.URL.String() != s.endpoint.String() {
		return nil, errors.New("oauth: the request is for another endpoint than the tokens are")
	}
	current, err := s.readStored(ctx, false)
	if err != nil || current == nil {
		return nil, err
	}
	switch valid := current.record.validFor(); {
	case current.record.Refresh == "": // the token is sent until the server refuses it
	case valid <= 0:
		_, err = s.awaitRenewal(ctx, current.record.Access, refreshTimeout, s.refreshToken)
		if err != nil && !isFinalRefusal(err) && !s.hasRefreshFailedOften(current.record.Access) {
			return nil, err
		}
		if current, err = s.readStored(ctx, false); err != nil || current == nil {
			return nil, err
		}
	case valid < min(refreshAhead, current.record.Expiry.Sub(current.record.Obtained)/10):
		s.startEarlyRefresh(current)
	}
	return current.header, nil
}

// Logout removes the login, cancels a login in flight, and revokes the refresh token, or else the
// access token (RFC 7009), if supported. After any error except [ErrStore] the tokens are removed.
func (s *Source) Logout(ctx context.Context) error {
	s.mu.Lock()
	if s.renewal != nil {
		s.renewal.cancelLocked(errLoggedOut)
	}
	s.mu.Unlock()
	unlock, err := s.store.Lock(ctx, s.pointerKey())
	if err != nil {
		return storeError(err)
	}
	defer unlock()
	old, err := s.loadTokens(ctx)
	s.mu.Lock()
	s.tokens, s.loaded = nil, true
	clear(s.failures)
	clear(s.stepUps)
	s.mu.Unlock()
	if err != nil || old == nil {
		return err
	}
	err = storeError(errors.Join(s.store.Delete(ctx, s.pointerKey()),
		s.store.Delete(ctx, s.tokenKey(old.issuer, old.resource))))
	revoked := s.revokeTokens(ctx, old)
	s.reportEvent(LoginEvent{Kind: LoggedOut, Issuer: old.issuer, Resource: old.resource,
		Err: revoked})
	return errors.Join(err, revoked)
}

func (s *Source) revokeTokens(ctx context.Context, old *tokens) error {
	server, err := s.findServer(ctx, old.issuer)
	if err != nil {
		return err
	}
	client, err := s.clientByID(ctx, server, old.record.ClientID)
	if err != nil || client == nil {
		return err
	}
	return s.requestRevocation(ctx, server, client, old.record)
}

var errLoggedOut = errors.New("oauth: Logout was called") // cancels the renewal in flight
