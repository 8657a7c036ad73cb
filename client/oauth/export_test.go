package oauth

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// TokenEnds returns when the token that requests carry expires, or zero.
func (s *Source) TokenEnds() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens.record.Expiry
}

// AwaitRenewal waits until the sent token is replaced, by calling renew or by another caller.
func (s *Source) AwaitRenewal(ctx context.Context, sent string, limit time.Duration,
	renew func(ctx context.Context, sent string) error) (again bool, err error) {
	return s.awaitRenewal(ctx, sent, limit, renew)
}

// Waiters returns how many callers wait for a new token.
func (s *Source) Waiters() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewal == nil {
		return 0
	}
	return s.renewal.waiters
}

// KnownServers returns the number of authorization servers with cached metadata.
func (s *Source) KnownServers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.servers)
}

func (s *Source) AgeLogin(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens.record.LoggedIn = s.tokens.record.LoggedIn.Add(-by)
	s.tokens.record.Obtained = s.tokens.record.Obtained.Add(-by)
	if err := saveRecord(context.Background(), s.store, s.tokenKey(s.tokens.issuer,
		s.tokens.resource), s.tokens.record); err != nil {
		panic(err)
	}
}

func (s *Source) HasToken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens != nil
}

func (s *Source) ExpireToken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens.record.Expiry = time.Now()
}

func IssuerPath(issuer string) string { return issuerPath(issuer) }

func (s *Source) AgeFailures(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, f := range s.failures {
		s.failures[key] = failure{f.err, f.at.Add(-by), f.ends.Add(-by)}
	}
}

// AgeRefusals makes refused tokens, and logins for more scopes, look older.
func (s *Source) AgeRefusals(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.refusedNew = s.history.refusedNew.Add(-by)
	for _, times := range s.stepUps {
		for i := range times {
			times[i] = times[i].Add(-by)
		}
	}
}

func ReadChallenge(h http.Header) (code string, scopes []string, metadata string) {
	c := readChallenge(h)
	return c.code, c.scopes, c.metadata
}

func (s *Source) ReadResource(at string, body []byte) (resource string, issuers []string,
	err error) {
	m, err := s.readResource(at, body, false)
	if err != nil {
		return "", nil, err
	}
	return m.Resource, m.Issuers, nil
}

func (s *Source) ReadServer(issuer string, body []byte) (endpoints []string, err error) {
	m, err := s.readServer(issuer, issuer, body)
	if err != nil {
		return nil, err
	}
	return []string{m.Authorization, m.Token, m.Registration, m.Revocation}, nil
}

// ReadCallback reads a callback of a login with a state at an issuer.
func ReadCallback(callback *url.URL, state, issuer string, sendsIssuer bool) (string, error) {
	l := loginData{State: state}
	return l.readCallback(callback, &serverMetadata{Issuer: issuer, SendsIssuer: sendsIssuer})
}

type Guard = ssrfGuard

func NewGuard(endpoint string) *Guard {
	u, err := url.Parse(endpoint)
	if err != nil {
		panic(err) // the test wrote it
	}
	return newSSRFGuard(u, nil)
}

func (g *Guard) CheckURL(target string) error {
	_, err := g.checkURL(target)
	return err
}

func (g *Guard) CheckAddress(address string) error {
	return g.checkAddress(netip.MustParseAddr(address))
}

func (g *Guard) Get(ctx context.Context, target string) error {
	defer g.client.CloseIdleConnections()
	_, err := g.fetchDocument(ctx, target)
	return err
}
