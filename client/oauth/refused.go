package oauth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	failureMemory   = 5 * time.Minute  // for denied logins and refused new tokens
	loginPause      = time.Minute      // after a login that failed otherwise
	maxFailedLogins = 3                // after these no login begins
	justIssuedAge   = 10 * time.Second // greatest age of a token that counts as just issued
	// maxStepUps limits an operation's logins for more scopes within stepUpWindow.
	maxStepUps    = 2
	stepUpWindow  = 10 * time.Minute
	maxRemembered = 1000 // operations, and failures, kept in memory
)

// Refused implements [clienthttp.Authorizer]. After a 401 it refreshes the token or starts a login;
// after a 403 with insufficient_scope it starts a login for more scopes. If the token was replaced
// meanwhile, it does neither.
func (s *Source) Refused(ctx context.Context, r clienthttp.Refusal) (again bool, err error) {
	_, sent, _ := strings.Cut(r.Sent.Get("Authorization"), " ")
	c := readChallenge(r.Header)
	current, err := s.readStored(ctx, false)
	if err != nil {
		return false, err
	}
	if current != nil && current.record.Access != sent {
		return true, nil
	}
	if r.Method == http.MethodDelete || r.RPC == protocol.NotifyCancelled {
		return false, nil // both callers give up soon, and cannot wait for a login
	}
	if r.Status == http.StatusUnauthorized || current == nil && c.code == insufficientScope {
		renew := func(ctx context.Context, sent string) error {
			return s.replaceRefusedToken(ctx, sent, c, r.Attempt)
		}
		return s.awaitRenewal(ctx, sent, loginTimeout, renew)
	}
	switch {
	case c.found && c.code == "":
		return false, fmt.Errorf("oauth: %w: %w",
			&clienthttp.StatusError{Status: r.Status, Header: r.Header}, errNoCode)
	case c.code != insufficientScope:
		return false, nil // the server refused for another reason
	}
	return s.stepUp(ctx, r, current, c)
}

const insufficientScope = "insufficient_scope" // RFC 6750, section 3.1

// errNoCode: a 403 needs an error code (RFC 6750, section 3.1); without it a login is a guess.
var errNoCode = errors.New("the WWW-Authenticate header of the response has no error code; a " +
	"server that needs more scopes has to send error=\"insufficient_scope\"")

// stepUp starts a login for more scopes (basic/authorization, "Step-Up Authorization Flow"), unless
// the server refused the same scopes after a recent login.
func (s *Source) stepUp(ctx context.Context, r clienthttp.Refusal, current *tokens, c challenge) (
	again bool, err error) {
	lack := &InsufficientScopeError{Needed: c.scopes, Granted: current.record.Granted}
	p := s.providerFor(current.issuer)
	c.scopes = p.localScopes(c.scopes)
	if err := p.checkChallenge(c.scopes); err != nil {
		return false, errors.Join(lack, err)
	}
	all := rules.UniteScopes(current.record.Requested, c.scopes)
	requested := len(all) == len(current.record.Requested) && s.opts.Scopes == nil
	if len(c.scopes) == 0 || requested && time.Since(current.record.LoggedIn) < failureMemory {
		return false, lack
	}
	sent, operation := current.record.Access, r.RPC+"\x00"+r.Target
	return s.awaitRenewal(ctx, sent, loginTimeout, func(ctx context.Context, sent string) error {
		if _, replaced, err := s.rereadTokens(ctx, sent); replaced || err != nil {
			return err
		}
		err := s.logIn(ctx, loginRequest{challenge: c, operation: operation})
		if errors.Is(err, errTooManyStepUps) {
			return lack
		}
		if errors.Is(err, ErrDenied) {
			return errors.Join(lack, err)
		}
		return err
	})
}

var errTooManyStepUps = errors.New("oauth: there were enough logins for this operation")

// countStepUp counts an operation's login for more scopes, and reports whether the login may begin.
func (s *Source) countStepUp(operation string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stepUps) >= maxRemembered {
		maps.DeleteFunc(s.stepUps, func(_ string, times []time.Time) bool {
			return time.Since(times[len(times)-1]) > stepUpWindow
		})
	}
	times := slices.DeleteFunc(s.stepUps[operation], func(at time.Time) bool {
		return time.Since(at) > stepUpWindow
	})
	if len(times) >= maxStepUps || len(s.stepUps) >= maxRemembered {
		return false
	}
	s.stepUps[operation] = append(times, time.Now())
	return true
}

// replaceRefusedToken replaces a token after a 401, by a refresh or else a login. On the second
// attempt the token was just issued, and the server would refuse a refreshed token too.
func (s *Source) replaceRefusedToken(ctx context.Context, sent string, c challenge,
	attempt int) error {
	current, replaced, err := s.rereadTokens(ctx, sent)
	if err != nil || replaced {
		return err
	}
	if current == nil {
		return s.logIn(ctx, loginRequest{challenge: c})
	}
	d, err := s.discover(ctx, c) // the server may name another authorization server now
	if err != nil {
		return err
	}
	record := current.record
	valid := record.validFor() > 0
	s.mu.Lock()
	history := s.historyLocked(sent)
	if attempt > 1 && valid && time.Since(record.Obtained) < justIssuedAge {
		history.refusedNew = time.Now() // the server would refuse a refreshed token too
	}
	refusedNew := time.Since(history.refusedNew) < failureMemory
	s.mu.Unlock()
	switch moved := d.issuer != current.issuer || d.resource != current.resource; {
	case moved: // the token's refresh token and age do not count there
	case record.Refresh != "" && !refusedNew:
		err := s.refreshToken(ctx, sent)
		failed, ok := errors.AsType[*TokenError](err)
		if !isFinalRefusal(err) && !(ok && failed.unreadable && s.hasRefreshFailedOften(sent)) {
			return err // the token was replaced, or the failure is transient
		}
	case valid && time.Since(record.LoggedIn) < failureMemory:
		why := ""
		if c.why != "" {
			why = ", and says " + quoteUntrusted(c.why)
		}
		return fmt.Errorf("oauth: the server refuses a token that its authorization server %s has "+
			"issued a moment ago%s: logging in again would not help", d.issuer, why)
	}
	return s.logInAt(ctx, d, loginRequest{challenge: c})
}

// rereadTokens reloads the login. replaced reports that its token is not the one that was sent.
func (s *Source) rereadTokens(ctx context.Context, sent string) (
	current *tokens, replaced bool, err error) {
	current, err = s.readStored(ctx, true)
	return current, err == nil && current != nil && current.record.Access != sent, err
}
