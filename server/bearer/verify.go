package bearer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// verifyToken decides about a token: signature or look-up, then claims, then identity. The
// unverified iss claim only selects a configured issuer.
func (g *ResourceServer) verifyToken(ctx context.Context, p *presented) decision {
	token := p.token
	header, payload := splitJWT(token)
	if header == nil {
		if g.opaqueIssuer == nil {
			what := hintOpaque
			if strings.Count(token, ".") == 4 { // RFC 7516, section 7.1
				what = hintEncrypted
			}
			return decision{err: refuse(malformed, what, nil)}
		}
		return g.verifyByLookUp(ctx, g.opaqueIssuer, p)
	}
	c, err := readClaims(payload)
	if err != nil {
		return decision{err: refuse(malformed, "", err)}
	}
	i := g.selectIssuer(c)
	switch {
	case i == nil:
		return decision{err: refuse(unknownIssuer, hintIssuer, describeIssuer(c))}
	case i.Introspection != nil || i.Verify != nil:
		return g.verifyByLookUp(ctx, i, p)
	}
	if err := g.verifySignature(ctx, i, header, token, payload, c.issued); err != nil {
		return decision{err: err}
	}
	if err := g.checkClaims(i, c, true); err != nil {
		return decision{err: err}
	}
	if kind, _ := readType(header); !isAccessType(kind) && !c.marksAccess() && !i.Unmarked {
		return decision{err: refuse(badType, hintUnmarked, fmt.Errorf("typ in its header is %s, "+
			"and it has none of %s", errtext.Value(kind), strings.Join(accessClaims(), ", ")))}
	}
	return g.resolveIdentity(ctx, i, c, maxCacheTime)
}

func describeIssuer(c *claims) error { return fmt.Errorf("iss is %s", errtext.Value(c.issuer)) }

// selectIssuer returns the issuer that iss names, or without iss the one for look-ups, or nil.
func (g *ResourceServer) selectIssuer(c *claims) *issuer {
	if c.issuer == "" && g.opaqueIssuer != nil {
		return g.opaqueIssuer
	}
	if i := g.issuers[c.issuer]; i != nil {
		return i
	}
	for _, i := range g.issuers {
		if _, ok := i.matchTenant(c.issuer); ok && i.AnyTenant {
			return i
		}
	}
	return nil
}

func (g *ResourceServer) verifyByLookUp(ctx context.Context, i *issuer, p *presented) decision {
	if err := i.beginLookUp(ctx, p); err != nil {
		return decision{err: err}
	}
	defer func() { <-i.introspecting }()
	c, err := i.lookUpToken(ctx, p.token)
	if err == nil {
		err = g.checkClaims(i, c, false)
	}
	d := decision{err: err}
	if err == nil {
		d = g.resolveIdentity(ctx, i, c, maxActiveCacheTime)
	}
	if refused, ok := errors.AsType[*refusedError](d.err); ok && refused.retryAfter == 0 {
		d.until = time.Now().Add(inactiveCacheTime)
	}
	if d.err == nil && !p.known {
		i.failures.refund(p.source)
	}
	return d
}

// checkClaims checks verified claims. Expiry comes first, as the reason for expired tokens.
func (g *ResourceServer) checkClaims(i *issuer, c *claims, needExpiry bool) error {
	now, leeway := time.Now(), g.leeway
	switch {
	case c.expiry.IsZero() && needExpiry:
		return refuse(expired, hintNoExpiry, nil)
	case !c.expiry.IsZero() && !now.Before(c.expiry.Add(leeway)):
		return refuse(expired, "", describeTime("exp", c.expiry))
	case now.Add(leeway).Before(c.notBefore):
		return refuse(notYetValid, hintClock, describeTime("nbf", c.notBefore))
	case now.Add(leeway).Before(c.issued):
		return refuse(notYetValid, hintClock, describeTime("iat", c.issued))
	}
	if err := i.checkTenant(c); err != nil {
		return err
	}
	if err := g.checkAudience(i, c); err != nil {
		return err
	}
	switch {
	case c.isNotAccessToken():
		return refuse(badType, hintNotAccess, nil)
	case c.hasClaim("cnf"): // key-bound: proof of possession is required (RFC 7800)
		return refuse(badType, hintBound, nil)
	}
	return nil
}

func describeTime(claim string, at time.Time) error {
	return fmt.Errorf("%s is %s, and it is %s", claim, at.UTC().Format(time.RFC3339),
		time.Now().UTC().Format(time.RFC3339))
}

// resolveIdentity maps claims to an identity, cached for keep or a shorter token lifetime.
func (g *ResourceServer) resolveIdentity(ctx context.Context, i *issuer, c *claims,
	keep time.Duration) decision {
	t := &Token{Issuer: i.URL, Subject: c.subject, ClientID: c.clientID, Audience: c.audience,
		Scopes: c.scopes, Expiry: c.expiry, claims: c.all}
	if i.AnyTenant {
		t.Issuer = c.issuer
	}
	scopes, err := g.findScopes(ctx, i, t)
	if err == nil {
		err = i.checkOwnScope(c, scopes)
	}
	if err != nil {
		return decision{err: err}
	}
	granted := *t // ScopesOf may still use t
	granted.Scopes = scopes
	p, err := g.findPrincipal(ctx, i, &granted)
	if err != nil {
		return decision{err: err}
	}
	until := time.Now().Add(keep)
	if end := c.expiry.Add(g.leeway); !c.expiry.IsZero() && end.Before(until) {
		until = end
	}
	return decision{until: until, identity: serverhttp.Identity{
		Principal: p,
		Access:    &server.Access{Scopes: scopes, Implies: g.opts.Implies},
		Values: func(ctx context.Context) context.Context {
			return context.WithValue(ctx, tokenKey{}, &granted)
		},
	}}
}

func (g *ResourceServer) findPrincipal(ctx context.Context, i *issuer, t *Token) (
	protocol.Principal, error) {
	principalOf := g.opts.Subject
	if principalOf == nil {
		principalOf = i.defaultPrincipal
	}
	p, err := callHost(ctx, g.hostCalls, func() (protocol.Principal, error) {
		return principalOf(t)
	})
	if err == nil && p.Anonymous() {
		err = errors.New("the principal is anonymous")
	}
	if err != nil && !isRefusal(err) {
		return protocol.Principal{}, refuse(wrongSubject, hintSubject, err)
	}
	return p, err
}

const clientPrefix = "client:" // starts the subjects of principals that are clients

// defaultPrincipal refuses a subject that would name the same principal as a client. It also
// refuses a token without a subject, which could be that of any user of the client.
func (i *issuer) defaultPrincipal(t *Token) (protocol.Principal, error) {
	switch {
	case strings.HasPrefix(t.Subject, clientPrefix):
		return protocol.Principal{}, refuse(wrongSubject, hintClientName, nil)
	case t.Subject != "":
		return protocol.Principal{Issuer: t.Issuer, Subject: t.Subject}, nil
	case t.ClientID != "" && i.Machines:
		return protocol.Principal{Issuer: t.Issuer, Subject: clientPrefix + t.ClientID}, nil
	}
	return protocol.Principal{}, refuse(wrongSubject, hintNobody, nil)
}
