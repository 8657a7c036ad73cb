package bearer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/internal/recent"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const (
	// maxCacheTime is how long a verified token is remembered at most: keys that an issuer
	// takes back count until then.
	maxCacheTime = 5 * time.Minute
	// introspectedTime and inactiveTime are the same for what introspection says.
	introspectedTime = 30 * time.Second
	inactiveTime     = 5 * time.Second
	// judgeTime bounds the judgement of a token, with what its issuer is asked for.
	judgeTime = 15 * time.Second
	// maxInactive is how many tokens are remembered that introspection refused.
	maxInactive = 1024
)

// A Guard verifies the bearer tokens of requests. It is a [serverhttp.Authority]; other handlers
// of the host use [Guard.RequireBearer]. Its methods may be called concurrently.
type Guard struct {
	opts       Options
	algorithms []jose.SignatureAlgorithm
	issuers    map[string]*issuer
	opaque     *issuer // asked about tokens that name no issuer, nil: nobody
	http       *http.Client

	metadataURL, metadataPath string
	metadata                  []byte

	mu       sync.Mutex
	verified *recent.Map[digest, verdict] // nil: none is remembered
	inactive *recent.Map[digest, verdict] // refused by introspection; evicts none of verified
	judging  map[digest]*judgement        // that run
}

// A digest stands for a token, which is not kept.
type digest = [sha256.Size]byte

var _ serverhttp.Authority = (*Guard)(nil)

// A verdict is what is remembered of a token.
type verdict struct {
	identity serverhttp.Identity
	err      error // why introspection refused it
	until    time.Time
}

// A judgement is a verdict in the making.
type judgement struct {
	verdict
	done chan struct{} // closed when it is there
}

// New returns a Guard, or an error that says which option is wrong. It fetches nothing yet.
func New(opts Options) (*Guard, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	if opts.Supported == nil {
		opts.Supported = opts.Scopes
	}
	g := &Guard{opts: opts, algorithms: opts.signatureAlgorithms(), issuers: map[string]*issuer{},
		http: newHTTPClient(opts.HTTPClient), judging: map[digest]*judgement{},
		inactive: recent.New[digest, verdict](maxInactive, inactiveTime)}
	for _, configured := range opts.Issuers {
		i, err := newIssuer(configured, &g.opts, g.http)
		if err != nil {
			return nil, err
		}
		g.issuers[configured.URL] = i
		if configured.Introspection != nil {
			g.opaque = i
		}
	}
	if n := opts.MaxCachedTokens; n >= 0 {
		if n == 0 {
			n = DefaultMaxCachedTokens
		}
		g.verified = recent.New[digest, verdict](n, maxCacheTime)
	}
	return g, g.prepareMetadata()
}

// Identify implements [serverhttp.Authority].
func (g *Guard) Identify(r *http.Request) (serverhttp.Identity, error) {
	id, err := g.identify(r)
	if err == nil && len(g.opts.Scopes) > 0 && id.Access.Check(g.opts.Scopes...) != nil {
		return serverhttp.Identity{}, g.lackOfScope(false, nil)
	}
	if err != nil {
		return serverhttp.Identity{}, g.refusal(err)
	}
	return id, nil
}

func (g *Guard) identify(r *http.Request) (serverhttp.Identity, error) {
	token, err := g.tokenOf(r.Header)
	if err != nil {
		if refused := (*refusedError)(nil); g.opts.Anonymous && errors.As(err, &refused) &&
			refused.why == notSaid {
			return serverhttp.Identity{Access: &server.Access{}}, nil // no scopes
		}
		return serverhttp.Identity{}, err
	}
	sum := digestOf(token)
	if v, ok := g.remembered(sum); ok {
		return v.identity, v.err
	}
	if !isB64Token(token) { // it costs more than what is above, and nothing else is remembered
		return serverhttp.Identity{}, refuse(badHeader, nil)
	}
	return g.judgeOnce(r.Context(), sum, token)
}

// judgeOnce judges a token, once for all requests that come with it meanwhile. The judgement has
// time limits of its own: a request that is given up ends none of the others.
func (g *Guard) judgeOnce(ctx context.Context, sum digest, token string) (
	serverhttp.Identity, error) {
	g.mu.Lock()
	f := g.judging[sum]
	if f == nil {
		f = &judgement{done: make(chan struct{})}
		g.judging[sum] = f
		go g.run(context.WithoutCancel(ctx), f, sum, token)
	}
	g.mu.Unlock()
	select {
	case <-f.done:
		return f.identity, f.err
	case <-ctx.Done():
		return serverhttp.Identity{}, &unavailableError{defaultRetry, ctx.Err()}
	}
}

func (g *Guard) run(ctx context.Context, f *judgement, sum digest, token string) {
	ctx, cancel := context.WithTimeout(ctx, judgeTime)
	defer cancel()
	defer close(f.done)
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.judging, sum)
		g.rememberLocked(sum, f.verdict)
	}()
	defer func() {
		if p := recover(); p != nil { // of Options.Subject
			f.verdict = verdict{err: refuse(wrongSubject, fmt.Errorf("panic: %v", p))}
		}
	}()
	f.verdict = g.judge(ctx, token)
}

func (g *Guard) rememberLocked(sum digest, v verdict) {
	switch {
	case g.verified == nil || v.until.IsZero():
	case v.err != nil:
		g.verified.Delete(sum)
		g.inactive.Put(sum, v)
	default:
		g.verified.Put(sum, v)
	}
}

func (g *Guard) remembered(sum digest) (verdict, bool) {
	now := time.Now()
	g.mu.Lock()
	v, ok := g.verified.Get(sum)
	if !ok || !now.Before(v.until) {
		v, ok = g.inactive.Get(sum)
	}
	g.mu.Unlock()
	return v, ok && now.Before(v.until)
}

// tokenOf returns the token of a request: of one Authorization header, never of its URL or body.
// It may have characters that no token has.
func (g *Guard) tokenOf(h http.Header) (string, error) {
	values := h["Authorization"]
	switch {
	case len(values) == 0:
		return "", refuse(notSaid, nil)
	case len(values) > 1:
		return "", refuse(severalHeaders, nil)
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", refuse(notSaid, nil)
	}
	token = strings.Trim(token, " ")
	if len(token) > g.opts.maxTokenBytes() {
		return "", refuse(badHeader, nil)
	}
	return token, nil
}

// digestOf returns the digest of a token. Those of the usual length are not copied to the heap.
func digestOf(token string) digest {
	var usual [2 << 10]byte
	return sha256.Sum256(append(usual[:0], token...))
}

// isB64Token reports whether token has the form of RFC 6750, 2.1.
func isB64Token(token string) bool {
	text := strings.TrimRight(token, "=")
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("-._~+/", c) >= 0:
		default:
			return false
		}
	}
	return text != ""
}

// judge verifies a token that is not remembered. What the token says selects the issuer that
// judges it.
func (g *Guard) judge(ctx context.Context, token string) verdict {
	header, payload := splitJWT(token)
	i, unverified := g.opaque, (*claims)(nil)
	if header != nil {
		var err error
		if unverified, err = readClaims(payload); err != nil {
			return verdict{err: refuse(malformed, err)}
		}
		if unverified.issuer != "" || i == nil {
			i = g.issuers[unverified.issuer]
		}
	}
	switch {
	case i == nil && header == nil:
		return verdict{err: refuse(malformed, nil)}
	case i == nil:
		return verdict{err: refuse(unknownIssuer, nil)}
	case i.Introspection != nil:
		return g.judgeIntrospected(ctx, i, token)
	}
	if err := g.verify(ctx, i, header, token, payload, unverified.issued); err != nil {
		return verdict{err: err}
	}
	if err := g.checkClaims(unverified, true); err != nil {
		return verdict{err: err}
	}
	return g.accept(i, unverified, maxCacheTime) // which is verified by now
}

func (g *Guard) judgeIntrospected(ctx context.Context, i *issuer, token string) verdict {
	c, err := i.introspect(ctx, token)
	if err == nil {
		err = g.checkClaims(c, false)
	}
	if err != nil {
		v := verdict{err: err}
		if refused := (*refusedError)(nil); errors.As(err, &refused) {
			v.until = time.Now().Add(inactiveTime)
		}
		return v
	}
	return g.accept(i, c, introspectedTime)
}

// accept makes an identity of claims that were verified.
func (g *Guard) accept(i *issuer, c *claims, keep time.Duration) verdict {
	t := &Token{Issuer: i.URL, Subject: c.subject, ClientID: c.clientID, Audience: c.audience,
		Scopes: c.scopes, Expiry: c.expiry, claims: c.all}
	name := g.opts.Subject
	if name == nil {
		name = principalOf
	}
	p, err := name(t)
	if err == nil && p.Anonymous() {
		err = errors.New("the principal is anonymous")
	}
	if err != nil {
		return verdict{err: refuse(wrongSubject, err)}
	}
	until := time.Now().Add(keep)
	if end := c.expiry.Add(g.opts.leeway()); !c.expiry.IsZero() && end.Before(until) {
		until = end
	}
	return verdict{until: until, identity: serverhttp.Identity{
		Principal: p,
		Access:    &server.Access{Scopes: c.scopes, Implies: g.opts.Implies},
		Values: func(ctx context.Context) context.Context {
			return context.WithValue(ctx, tokenKey{}, t)
		},
	}}
}

// ofClient begins the subjects of tokens that are of no person.
const ofClient = "client:"

// principalOf names the principal of a token. A person cannot be called as a client is.
func principalOf(t *Token) (protocol.Principal, error) {
	switch {
	case strings.HasPrefix(t.Subject, ofClient):
		return protocol.Principal{}, errors.New("the subject looks like that of a client")
	case t.Subject != "":
		return protocol.Principal{Issuer: t.Issuer, Subject: t.Subject}, nil
	case t.ClientID != "":
		return protocol.Principal{Issuer: t.Issuer, Subject: ofClient + t.ClientID}, nil
	}
	return protocol.Principal{}, errors.New("the token names neither a subject nor a client")
}

// checkClaims checks what does not depend on how the token was verified. The order matters: an
// expired token is refused as expired, whatever else it lacks.
func (g *Guard) checkClaims(c *claims, needExpiry bool) error {
	now, leeway := time.Now(), g.opts.leeway()
	switch {
	case c.expiry.IsZero() && needExpiry, !c.expiry.IsZero() && !now.Before(c.expiry.Add(leeway)):
		return refuse(expired, nil)
	case now.Add(leeway).Before(c.notBefore), now.Add(leeway).Before(c.issued):
		return refuse(notYetValid, nil)
	case !slices.ContainsFunc(c.audience, g.isAudience):
		return refuse(wrongAudience, nil)
	}
	return checkKind(c)
}

// checkKind refuses what is no bearer token: tokens for other purposes, and tokens that are bound
// to a key, which whoever sends one has not proved to have.
func checkKind(c *claims) error {
	if c.isOther() {
		return refuse(badType, errors.New("it is an ID token, or another that is not for access"))
	}
	if c.has("cnf") {
		return refuse(badType, errors.New("it is bound to a key"))
	}
	return nil
}

func (g *Guard) isAudience(name string) bool {
	return name == g.opts.Resource || slices.Contains(g.opts.Audiences, name)
}

// prepareMetadata makes the document that [Guard.Metadata] serves.
func (g *Guard) prepareMetadata() error {
	u, err := url.Parse(g.opts.Resource)
	if err != nil {
		return err
	}
	g.metadataPath = wellKnown + strings.TrimSuffix(u.EscapedPath(), "/")
	g.metadataURL = u.Scheme + "://" + u.Host + g.metadataPath
	g.metadata, err = g.encodeMetadata()
	return err
}
