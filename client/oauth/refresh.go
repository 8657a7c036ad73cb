package oauth

import (
	"context"
	"errors"
	"time"
)

const (
	refreshTimeout    = 30 * time.Second // for a refresh or the exchange of a code
	refreshAhead      = 30 * time.Second // before expiry, or a tenth of a shorter lifetime
	earlyRefreshPause = 5 * time.Second  // after a failed early refresh
	// After maxFailedRefreshes a request carries its expired token, because the server may have
	// moved to another authorization server.
	maxFailedRefreshes = 3
)

type tokenHistory struct {
	token           string
	refusedNew      time.Time // when the server refused the token just after it was issued
	failedRefreshes int       // consecutive failures
}

// historyLocked returns a token's history, and forgets the histories of other tokens.
func (s *Source) historyLocked(token string) *tokenHistory {
	if s.history.token != token {
		s.history = tokenHistory{token: token}
	}
	return &s.history
}

func (s *Source) countFailedRefresh(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.historyLocked(token).failedRefreshes++
}

func (s *Source) hasRefreshFailedOften(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history.token == token && s.history.failedRefreshes >= maxFailedRefreshes
}

func (r *tokenRecord) validFor() time.Duration {
	if r.Expiry.IsZero() {
		return maxExpiry
	}
	return time.Until(r.Expiry)
}

// startEarlyRefresh refreshes a valid token in the background, unless one runs or has just failed.
func (s *Source) startEarlyRefresh(current *tokens) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewal == nil && s.tokens == current && !time.Now().Before(s.earlyRefreshFrom) {
		r := s.startRenewalLocked(context.Background(), current.record.Access, refreshTimeout,
			s.refreshEarly)
		r.waiters++ // the refresh's own reference: it is not cancelled when callers leave
	}
}

// refreshEarly refreshes a valid token. A failure delays the next early refresh.
func (s *Source) refreshEarly(ctx context.Context, sent string) error {
	err := s.refreshToken(ctx, sent)
	if err == nil {
		return nil
	}
	pause := earlyRefreshPause
	if failed := (*TokenError)(nil); errors.As(err, &failed) {
		pause = max(pause, failed.RetryAfter)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.earlyRefreshFrom = time.Now().Add(pause)
	return err
}

// refreshToken refreshes the token that was sent, unless that was replaced or there is no refresh
// token. A revoked refresh token is dropped, unless another process has saved a new one.
func (s *Source) refreshToken(ctx context.Context, sent string) error {
	old, replaced, err := s.rereadTokens(ctx, sent)
	if err != nil || replaced {
		return err
	}
	if old == nil || old.record.Refresh == "" {
		return nil // the request carries the old token and is refused
	}
	server, err := s.findServer(ctx, old.issuer)
	if err != nil {
		s.countFailedRefresh(sent)
		return err
	}
	client, err := s.clientByID(ctx, server, old.record.ClientID)
	if err != nil {
		return err
	}
	if client == nil { // the client's secret has expired, or the client is no longer configured
		return errors.Join(&TokenError{Issuer: old.issuer, Code: "invalid_client",
			Err: errors.New("the registration of the login is not valid any more")},
			s.dropRefreshToken(ctx, old))
	}
	// Not cancelled in flight: if the refresh token is used up, only the response has a new one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
	defer cancel()
	record, err := s.requestToken(ctx, server, client, old.resource, newRefreshGrant(old.record))
	s.reportEvent(LoginEvent{Kind: TokenRefresh, Issuer: old.issuer, Resource: old.resource,
		Scopes: old.record.Granted, Err: err})
	if isRefreshRevoked(err) {
		if _, replaced, readErr := s.rereadTokens(ctx, sent); replaced || readErr != nil {
			return readErr
		}
		return errors.Join(err, s.dropRefreshToken(ctx, old))
	}
	if err != nil {
		s.countFailedRefresh(sent)
		return err
	}
	return s.saveLogin(ctx, old.issuer, old.resource, record)
}

// isFinalRefusal reports whether a refresh was refused for good, so that only a login helps.
func isFinalRefusal(err error) bool {
	failed, ok := errors.AsType[*TokenError](err)
	return ok && !failed.Retryable
}

// isRefreshRevoked reports that the refresh token or its client is invalid (RFC 6749, section 5.2).
func isRefreshRevoked(err error) bool {
	failed, ok := errors.AsType[*TokenError](err)
	return ok && !failed.Retryable && (failed.Code == "invalid_grant" ||
		failed.Code == "invalid_client")
}

func (s *Source) dropRefreshToken(ctx context.Context, old *tokens) error {
	record := *old.record
	record.Refresh = ""
	return s.saveLogin(ctx, old.issuer, old.resource, &record)
}
