package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
)

// maxServers is how many authorization servers' metadata is kept, which may be large: an MCP server
// can name another authorization server each time.
const maxServers = 16

// A Source has the tokens of one person for one MCP endpoint, and gets them when they are needed:
// it is a [clienthttp.Authorizer]. Its methods may be called concurrently. However many calls wait,
// one login or refresh runs at a time.
type Source struct {
	opts         Options
	endpoint     *url.URL
	endpointText string // as it was given, which is the resource
	store        Store
	guard        *guard

	loadMu sync.Mutex // held while the login is read from the store

	mu               sync.Mutex
	loaded           bool     // the login was read from the store
	tokens           *tokens  // nil: there is no login
	renewal          *renewal // that runs; nil: none
	servers          map[string]*serverMetadata
	stepUps          map[string][]time.Time // when each operation led to a login for more scopes
	failures         map[string]failure     // by failureKey
	lastRefused      refusedToken
	earlyRefreshFrom time.Time // no early refresh begins before
	anonymous        string    // the Partition while there is no login
}

// A refusedToken is a token that the server has refused although it was just issued.
type refusedToken struct {
	token string
	at    time.Time
}

// A failure is the error of a login that the person has denied.
type failure struct {
	err error
	at  time.Time
}

var _ clienthttp.Authorizer = (*Source)(nil)

// New returns a source of tokens for endpoint, the URL of an MCP server: https, or http to a
// loopback host, and without a fragment. It sends no request and reads nothing from the store. opts
// may be nil. The error says which option is wrong.
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
		stepUps: map[string][]time.Time{}, failures: map[string]failure{},
		anonymous: newAnonymousPartition()}
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

// newAnonymousPartition returns the random name of a time without a login.
func newAnonymousPartition() string { return "nobody-" + rand.Text() }

// observe calls Options.Observe.
func (s *Source) observe(e Event) {
	if s.opts.Observe != nil {
		s.opts.Observe(e)
	}
}

// currentTokens returns the tokens in memory. Nil: there is no login, or it was not read yet.
func (s *Source) currentTokens() *tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens
}

// pointerKey is the key of the record that says which login belongs to the endpoint. Its lock keeps
// other processes from changing the login.
func (s *Source) pointerKey() Key { return Key{Resource: s.endpointText, Account: s.opts.Account} }

// tokenKey is the key of the record of a login.
func (s *Source) tokenKey(issuer, resource string) Key {
	return Key{Issuer: issuer, Resource: resource, Account: s.opts.Account}
}

// A tokens is a login with its tokens. It is not changed once it is made.
type tokens struct {
	issuer   string // as in its metadata
	resource string
	record   *tokenRecord
	header   http.Header // of requests to the endpoint
}

// newTokens returns the tokens of a record.
func newTokens(issuer, resource string, record *tokenRecord) *tokens {
	return &tokens{issuer, resource, record,
		http.Header{"Authorization": {"Bearer " + record.Access}}}
}

// readStored returns the tokens in memory, which it reads from the store the first time, and again
// with force. Nil: there is no login.
func (s *Source) readStored(ctx context.Context, force bool) (*tokens, error) {
	s.mu.Lock()
	now, loaded := s.tokens, s.loaded
	s.mu.Unlock()
	if loaded && !force {
		return now, nil
	}
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	pointer, err := loadRecord[pointerRecord](ctx, s.store, s.pointerKey())
	if err != nil {
		return nil, err
	}
	var found *tokens
	if pointer != nil {
		k := s.tokenKey(pointer.Issuer, pointer.Resource)
		record, err := loadRecord[tokenRecord](ctx, s.store, k)
		if err != nil {
			return nil, err
		}
		if record != nil && isB64Token(record.Access) {
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

// saveLogin saves a login in the store, and then uses it.
func (s *Source) saveLogin(ctx context.Context, issuer, resource string,
	record *tokenRecord) error {
	if err := saveRecord(ctx, s.store, s.tokenKey(issuer, resource), record); err != nil {
		return err
	}
	err := saveRecord(ctx, s.store, s.pointerKey(), pointerRecord{issuer, resource})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens, s.loaded = newTokens(issuer, resource, record), true
	return nil
}

// Credentials implements [clienthttp.Authorizer]: it returns the Authorization header with the
// token, and nothing if there is no login. It waits for the refresh of a token that has expired,
// and starts that of one that expires soon.
func (s *Source) Credentials(ctx context.Context, r clienthttp.Outgoing) (http.Header, error) {
	if r.URL == nil || *r.URL != *s.endpoint && r.URL.String() != s.endpoint.String() {
		return nil, errors.New("oauth: the request is for another endpoint than the tokens are")
	}
	now, err := s.readStored(ctx, false)
	if err != nil || now == nil {
		return nil, err
	}
	switch valid := now.record.validFor(); {
	case now.record.Refresh == "":
	case valid <= 0:
		_, err := s.awaitRenewal(ctx, now.record.Access, refreshTimeout, s.refreshToken)
		if err != nil && !isFinalRefusal(err) {
			return nil, err
		}
		if now = s.currentTokens(); now == nil {
			return nil, nil
		}
	case valid < now.record.refreshMargin():
		s.startEarlyRefresh(now)
	}
	return now.header, nil
}

// Partition names the login whose results a client may reuse. It is the same for all tokens of a
// login, and changes with every login and logout. It is for client.CacheOptions.Partition.
func (s *Source) Partition(ctx context.Context) string {
	now, err := s.readStored(ctx, false)
	if err == nil && now != nil {
		return now.record.Login
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.anonymous
}

// Logout removes the login and revokes its refresh token (RFC 7009), or the access token if there
// is no other, where the authorization server can do so. It cancels a login that runs. The tokens
// are removed even if it returns an error, unless that is a [*StoreError]. Without a login it
// returns nil.
func (s *Source) Logout(ctx context.Context) error {
	s.mu.Lock()
	if s.renewal != nil {
		s.renewal.cancelLocked(errLoggedOut)
	}
	s.mu.Unlock()
	unlock, err := s.store.Lock(ctx, s.pointerKey())
	if err != nil {
		return &StoreError{err}
	}
	defer unlock()
	old, err := s.readStored(ctx, true)
	s.mu.Lock()
	s.tokens, s.loaded, s.anonymous = nil, true, newAnonymousPartition()
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
	revokeErr := s.revokeTokens(ctx, old)
	s.observe(Event{Kind: LoggedOut, Issuer: old.issuer, Resource: old.resource, Err: revokeErr})
	return errors.Join(err, revokeErr)
}

// revokeTokens revokes the tokens of a login by the client that they were issued to. It does
// nothing if the client is not known any more.
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

// errLoggedOut ends the renewals that run when Logout is called.
var errLoggedOut = errors.New("oauth: Logout was called")
