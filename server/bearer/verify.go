package bearer

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// minRSABits is the shortest RSA key that is used (RFC 7518, 3.3).
const minRSABits = 2048

// parse reads a token. Both results are nil where it is no JSON Web Token. Nothing of what it says
// is verified.
func (g *Guard) parse(token string) (*jose.JSONWebSignature, *claims, error) {
	header := headerOf(token)
	if header == nil {
		return nil, nil, nil
	}
	if err := g.checkHeader(header); err != nil {
		return nil, nil, err
	}
	signed, err := jose.ParseSignedCompact(token, g.algorithms)
	if unexpected := (*jose.ErrUnexpectedSignatureAlgorithm)(nil); errors.As(err, &unexpected) {
		return nil, nil, refuse(badAlgorithm, nil)
	}
	if err != nil {
		return nil, nil, refuse(malformed, nil)
	}
	c, err := readClaims(signed.UnsafePayloadWithoutVerification())
	if err != nil {
		return nil, nil, refuse(malformed, err)
	}
	return signed, c, nil
}

// headerOf returns the header of a JSON Web Token, nil: it is none.
func headerOf(token string) map[string]json.RawMessage {
	first, rest, _ := strings.Cut(token, ".")
	if strings.Count(rest, ".") != 1 {
		return nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return nil
	}
	var header map[string]json.RawMessage
	if jsonx.Unmarshal(decoded, &header) != nil || header["alg"] == nil {
		return nil
	}
	return header
}

// checkHeader refuses types that are no access tokens, and extensions that must be understood.
// Keys that the header brings along, or says where to find, are never looked at.
func (g *Guard) checkHeader(header map[string]json.RawMessage) error {
	if _, ok := header["crit"]; ok {
		return refuse(malformed, errors.New("it has critical header parameters"))
	}
	var kind string
	if raw, ok := header["typ"]; ok {
		if json.Unmarshal(raw, &kind) != nil || kind == "" {
			return refuse(badType, nil)
		}
	}
	switch strings.ToLower(kind) {
	case "at+jwt", "application/at+jwt":
		return nil
	case "jwt", "":
		if !g.opts.StrictType {
			return nil
		}
	}
	return refuse(badType, nil)
}

// verify checks the signature and the claims of a token of an issuer.
func (g *Guard) verify(ctx context.Context, i *issuer, signed *jose.JSONWebSignature,
	c *claims) (*claims, error) {
	header := signed.Signatures[0].Protected
	keys, err := i.keysFor(ctx, header.KeyID, header.Algorithm, c.issued.Add(g.opts.leeway()))
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if _, err := signed.Verify(key.Key); err == nil {
			return c, g.checkClaims(c, true)
		}
	}
	return nil, refuse(badSignature, nil)
}

// fits reports whether a key may verify signatures of an algorithm.
func fits(key *jose.JSONWebKey, algorithm string) bool {
	if key.Algorithm != "" && key.Algorithm != algorithm {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return (strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")) &&
			k.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey:
		return k.Curve == map[string]elliptic.Curve{
			"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521(),
		}[algorithm]
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}
