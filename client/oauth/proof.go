package oauth

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// dpopScheme is the authentication scheme and the token type of bound tokens (RFC 9449).
	dpopScheme = "DPoP"
	// needsNonce is the error code of a proof without the nonce of the server.
	needsNonce = "use_dpop_nonce"
	// maxNonce bounds a nonce, which is sent with each request, in bytes.
	maxNonce = 1 << 10
)

// A prover makes proofs with Options.ProofKey. Nil: tokens are bound to no key.
type prover struct {
	signer     jose.Signer
	thumbprint string // of the key (RFC 7638)

	mu     sync.Mutex
	nonces map[string]string // the last one of each URL
}

// newProver returns a prover, or nil without a key.
func newProver(key crypto.Signer) (*prover, error) {
	if key == nil {
		return nil, nil
	}
	opaque := cryptosigner.Opaque(key)
	if !slices.Equal(opaque.Algs(), []jose.SignatureAlgorithm{jose.ES256}) {
		return nil, errors.New("oauth: Options.ProofKey is not a P-256 key")
	}
	opts := (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: opaque}, opts)
	if err != nil {
		return nil, err
	}
	sum, err := opaque.Public().Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, err
	}
	return &prover{signer: signer, thumbprint: base64.RawURLEncoding.EncodeToString(sum),
		nonces: map[string]string{}}, nil
}

// keyThumbprint returns the thumbprint that tokens are bound to; empty: they are bound to no key.
func (p *prover) keyThumbprint() string {
	if p == nil {
		return ""
	}
	return p.thumbprint
}

// addProof adds a new proof for a request to a header (RFC 9449, section 4.2). access is the token
// of the request; empty: it is a token request.
func (p *prover) addProof(h http.Header, method, at, access string) error {
	if p == nil {
		return nil
	}
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	u.RawQuery, u.ForceQuery, u.Fragment = "", false, ""
	claims := struct {
		ID       string `json:"jti"`
		Method   string `json:"htm"`
		URL      string `json:"htu"`
		IssuedAt int64  `json:"iat"`
		Token    string `json:"ath,omitempty"`
		Nonce    string `json:"nonce,omitempty"`
	}{ID: rand.Text(), Method: method, URL: u.String(), IssuedAt: time.Now().Unix()}
	if access != "" {
		sum := sha256.Sum256([]byte(access))
		claims.Token = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	p.mu.Lock()
	claims.Nonce = p.nonces[at]
	p.mu.Unlock()
	proof, err := jwt.Signed(p.signer).Claims(claims).Serialize()
	if err == nil {
		h.Set("DPoP", proof)
	}
	return err
}

// saveNonce saves the nonce of a response from a URL for later proofs, and reports whether there is
// one.
func (p *prover) saveNonce(at string, h http.Header) bool {
	nonce := h.Get("DPoP-Nonce")
	if p == nil || nonce == "" || len(nonce) > maxNonce {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.nonces) >= maxServers {
		clear(p.nonces)
	}
	p.nonces[at] = nonce
	return true
}
