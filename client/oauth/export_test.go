package oauth

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// TokenEnds returns when the token of requests expires; zero: it does not say.
func (s *Source) TokenEnds() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens.record.Expiry
}

// AwaitRenewal waits until renew, or that of another caller, has replaced the token sent.
func (s *Source) AwaitRenewal(ctx context.Context, sent string, limit time.Duration,
	renew func(ctx context.Context, sent string) error) (again bool, err error) {
	return s.awaitRenewal(ctx, sent, limit, renew)
}

// Waiters returns how many callers wait for another token.
func (s *Source) Waiters() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewal == nil {
		return 0
	}
	return s.renewal.waiters
}

// KnownServers returns of how many authorization servers a source keeps the metadata.
func (s *Source) KnownServers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.servers)
}

// AgeLogin makes the login in memory older.
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

// HasToken reports whether there is a login in memory.
func (s *Source) HasToken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens != nil
}

// ExpireToken makes the token in memory expire now.
func (s *Source) ExpireToken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens.record.Expiry = time.Now()
}

// IssuerPath is the function of that name.
func IssuerPath(issuer string) string { return issuerPath(issuer) }

// AgeFailures makes the cached failures of logins older.
func (s *Source) AgeFailures(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, f := range s.failures {
		s.failures[key] = failure{f.err, f.at.Add(-by), f.ends.Add(-by)}
	}
}

// AgeRefusals makes older what the source remembers of refused tokens and of logins for scopes.
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

// CheckAddress is the function of that name for the endpoint of a source.
func (s *Source) CheckAddress(address string) error {
	return s.guard.checkAddress(netip.MustParseAddr(address))
}

// ReadChallenge returns what is read of the challenges of a response.
func ReadChallenge(h http.Header) (code string, scopes []string, metadata string) {
	c := readChallenge(h)
	return c.code, c.scopes, c.metadata
}

// ReadResource returns what is read of the metadata of an endpoint.
func (s *Source) ReadResource(at string, body []byte) (resource string, issuers []string,
	err error) {
	m, err := s.readResource(at, body, false)
	if err != nil {
		return "", nil, err
	}
	return m.Resource, m.Issuers, nil
}

// ReadServer returns what is read of the metadata of an issuer.
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

// CheckURL checks a URL that the server of an endpoint has named.
func CheckURL(endpoint, target string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	_, err = newSSRFGuard(u, nil).checkURL(target)
	return err
}

// CheckAddress checks an address that is dialled on behalf of an endpoint.
func CheckAddress(endpoint, address string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	return newSSRFGuard(u, nil).checkAddress(netip.MustParseAddr(address))
}

// Get gets a document that the server of an endpoint has named.
func Get(ctx context.Context, endpoint, target string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	g := newSSRFGuard(u, nil)
	defer g.client.CloseIdleConnections()
	_, err = g.fetchDocument(ctx, target)
	return err
}
