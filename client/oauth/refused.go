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
	"github.com/rondo-mcp/rondo/internal/scope"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// failureMemory is how long a failure is remembered: a person who has denied a login is not
	// asked for the same meanwhile, and a server that has refused a token which was just issued
	// leads to no other login.
	failureMemory = 5 * time.Minute
	// maxDenials is how many logins a person may deny within failureMemory before no other begins.
	maxDenials = 3
	// justIssuedAge is up to which age a token counts as just issued.
	justIssuedAge = 10 * time.Second
	// maxStepUps is how many logins for more scopes an operation may lead to within stepUpWindow.
	maxStepUps   = 2
	stepUpWindow = 10 * time.Minute
	// maxRemembered is how many operations, and how many failures, are remembered.
	maxRemembered = 1000
)

// Refused implements [clienthttp.Authorizer]. After a 401 it refreshes the token or has the person
// log in; after a 403 with insufficient_scope it has the person log in for more scopes. It does
// neither if the token was replaced since the request was sent.
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
	if !mayWaitForLogin(r.Outgoing) {
		return false, nil
	}
	if r.Status == http.StatusUnauthorized || now == nil && c.code == insufficientScope {
		renew := func(ctx context.Context, sent string) error {
			return s.replaceRefusedToken(ctx, sent, c, r.Attempt)
		}
		return s.awaitRenewal(ctx, sent, loginTimeout, renew)
	}
	switch {
	case c.bearer && c.code == "":
		return false, fmt.Errorf("oauth: %w: %w",
			&clienthttp.StatusError{Status: r.Status, Header: r.Header}, errNoCode)
	case c.code != insufficientScope:
		return false, nil // refused for another reason
	}
	return s.stepUp(ctx, r, now, c)
}

// insufficientScope is the error code of a token that lacks scopes (RFC 6750, section 3.1).
const insufficientScope = "insufficient_scope"

// errNoCode says why a 403 without an error code leads to no login: RFC 6750, section 3.1, has
// servers send a code, and without one it is not known whether a login would help.
var errNoCode = errors.New("the WWW-Authenticate header of the response has no error code; a " +
	"server that needs more scopes has to send error=\"insufficient_scope\"")

// mayWaitForLogin reports whether a request may wait until a person has logged in. The DELETE that
// ends a session and a cancellation may not: their callers give up soon.
func mayWaitForLogin(r clienthttp.Outgoing) bool {
	return r.Method != http.MethodDelete && r.RPC != protocol.NotifyCancelled
}

// stepUp has the person log in for more scopes (basic/authorization, "Step-Up Authorization Flow"),
// unless the server has refused the same scopes after a recent login.
func (s *Source) stepUp(ctx context.Context, r clienthttp.Refusal, now *tokens, c challenge) (
	again bool, err error) {
	lack := &ScopeError{Needed: c.scopes, Granted: now.record.Granted}
	all := scope.Union(now.record.Requested, c.scopes)
	requested := len(all) == len(now.record.Requested) && s.opts.Scopes == nil
	if len(c.scopes) == 0 || requested && time.Since(now.record.LoggedIn) < failureMemory {
		return false, lack
	}
	sent, operation := now.record.Access, r.RPC+"\x00"+r.Target
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

// errTooManyStepUps says that an operation has led to maxStepUps logins.
var errTooManyStepUps = errors.New("oauth: there were enough logins for this operation")

// countStepUp counts a login for more scopes that an operation needs, and reports whether it may
// begin.
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

// replaceRefusedToken gets a token in the place of one that the server has refused with 401: by a
// refresh, or else by a login. attempt counts how often the request was sent. On the second attempt
// its token was just issued for it, and a refresh would bring another that is refused as well.
func (s *Source) replaceRefusedToken(ctx context.Context, sent string, c challenge,
	attempt int) error {
	now, replaced, err := s.rereadTokens(ctx, sent)
	if err != nil || replaced {
		return err
	}
	if now == nil {
		return s.logIn(ctx, loginRequest{challenge: c})
	}
	d, err := s.discover(ctx, c) // the server may name another authorization server now
	if err != nil {
		return err
	}
	record := now.record
	valid := record.validFor() > 0
	if attempt > 1 && valid && time.Since(record.Obtained) < justIssuedAge {
		s.rememberRefused(sent)
	}
	switch moved := d.Issuer != now.issuer || d.Resource != now.resource; {
	case moved:
	case record.Refresh != "" && !s.wasRefusedWhenIssued(sent):
		if err := s.refreshToken(ctx, sent); !isFinalRefusal(err) {
			return err
		}
	case valid && time.Since(record.LoggedIn) < failureMemory:
		return fmt.Errorf("oauth: the server refuses a token that its authorization server %s has "+
			"issued a moment ago: logging in again would not help", d.Issuer)
	}
	return s.logInAt(ctx, d, loginRequest{challenge: c})
}

// rememberRefused remembers a token that was refused although it was just issued.
func (s *Source) rememberRefused(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastRefused = refusedToken{token, time.Now()}
}

// wasRefusedWhenIssued reports whether rememberRefused was called for the token lately. The server
// would refuse one from a refresh as well.
func (s *Source) wasRefusedWhenIssued(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastRefused.token == token && time.Since(s.lastRefused.at) < failureMemory
}

// rereadTokens reads the login from the store again. replaced reports whether it has another token
// than the one that was sent, for example from another process.
func (s *Source) rereadTokens(ctx context.Context, sent string) (
	now *tokens, replaced bool, err error) {
	now, err = s.readStored(ctx, true)
	return now, err == nil && now != nil && now.record.Access != sent, err
}
