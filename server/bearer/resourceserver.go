package bearer

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/internal/wire/authhttp"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A ResourceServer verifies bearer tokens (RFC 6750), as a [serverhttp.Authority] or with
// [ResourceServer.RequireBearer]. Its methods may be called concurrently.
type ResourceServer struct {
	opts         Options
	leeway       time.Duration
	issuers      map[string]*issuer // by URL
	opaqueIssuer *issuer            // introspects tokens that name no issuer; nil: they are refused
	hostCalls    chan struct{}      // semaphore of calls of host functions

	metadataURL, metadataPath string
	metadata                  []byte

	mu       sync.Mutex
	verified *recent.Map[digest, decision] // accepted tokens
	inactive *recent.Map[digest, decision] // refused by introspection; apart from verified
	inFlight map[digest]*verification
}

var _ serverhttp.Authority = (*ResourceServer)(nil)

// New returns a ResourceServer, or an error that names the option. Keys are fetched on first use.
func New(opts Options) (*ResourceServer, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	if opts.Supported == nil {
		opts.Supported = opts.Scopes
	}
	g := &ResourceServer{opts: opts, leeway: leeway, issuers: map[string]*issuer{},
		hostCalls: make(chan struct{}, maxHostCalls), inFlight: map[digest]*verification{},
		inactive: recent.New[digest, decision](maxInactive, inactiveCacheTime)}
	client := newHTTPClient(opts.HTTPClient)
	for _, configured := range opts.Issuers {
		i, err := newIssuer(configured, &g.opts, client)
		if err != nil {
			return nil, err
		}
		g.issuers[configured.URL] = i
		if configured.Introspection != nil || configured.Verify != nil {
			g.opaqueIssuer = i
		}
	}
	n := opts.MaxCachedTokens
	if n <= 0 {
		n = defaultMaxCachedTokens
	}
	g.verified = recent.New[digest, decision](n, maxCacheTime)
	return g, g.prepareMetadata()
}

// Identify implements [serverhttp.Authority]: it verifies a request's token and checks
// [Options].Scopes. The error is an [*serverhttp.AuthError] with status 400, 401 or 403 (RFC 6750,
// section 3.1), or 503 if the token cannot be verified now.
func (g *ResourceServer) Identify(r *http.Request) (serverhttp.Identity, error) {
	id, err := g.authenticateRequest(r)
	if err != nil {
		return serverhttp.Identity{}, g.authError(err)
	}
	if len(g.opts.Scopes) > 0 && id.Access.Check(g.opts.Scopes...) != nil {
		return serverhttp.Identity{}, g.Challenge(id, nil)
	}
	return id, nil
}

// authenticateRequest returns the identity of a request's token, or a *refusedError.
//
//	Identify                        checks Options.Scopes afterwards
//	→ authenticateRequest           reads the header
//	  → findDecision                from the cache, by the token's digest; or else
//	  → verifyOnce                  requests with the same token share one
//	    → runVerification           in a goroutine; caches the decision
//	      → verifyToken
//	        → selectIssuer          by the unverified iss claim
//	        → verifySignature       by the keys of the issuer, or
//	          verifyByLookUp        introspection, or Issuer.Verify
//	        → checkClaims           time, audience, tenant, type
//	        → resolveIdentity       scopes, principal and access
func (g *ResourceServer) authenticateRequest(r *http.Request) (serverhttp.Identity, error) {
	token, err := readToken(r.Header)
	if err != nil {
		if refused, ok := errors.AsType[*refusedError](err); g.opts.Anonymous && ok &&
			refused.why == noToken {
			return serverhttp.Identity{Access: &server.Access{}}, nil // the identity has no scopes
		}
		return serverhttp.Identity{}, err
	}
	var usual [2 << 10]byte // spares most tokens a copy on the heap
	sum := sha256.Sum256(append(usual[:0], token...))
	d, known, ok := g.findDecision(sum)
	if !ok {
		// This follows the cache, which is cheaper and holds well-formed tokens only.
		if !authhttp.IsToken(token) {
			return serverhttp.Identity{}, refuse(badHeader, "", nil)
		}
		d = g.verifyOnce(r.Context(), &presented{token, sum, sourceOf(r), known})
	}
	if d.err != nil {
		return serverhttp.Identity{}, d.err
	}
	return d.identity, nil
}

// readToken returns the only Authorization header's token, which may be malformed.
func readToken(h http.Header) (string, error) {
	values := h["Authorization"]
	switch {
	case len(values) == 0:
		return "", refuse(noToken, "", nil)
	case len(values) > 1:
		return "", refuse(severalHeaders, "", nil)
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", refuse(noToken, "", nil)
	}
	token = strings.Trim(token, " ")
	if len(token) > maxTokenBytes {
		return "", refuse(badHeader, "", nil)
	}
	return token, nil
}

// A digest is the SHA-256 of a token. It is the key of the caches, which hold no tokens.
type digest = [sha256.Size]byte
