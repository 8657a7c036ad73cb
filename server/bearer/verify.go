package bearer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// minRSABits is the shortest RSA key that is used (RFC 7518, 3.3).
const minRSABits = 2048

// splitJWT returns the header and the payload of a JSON Web Token, nil: it is none. Nothing of
// what they say is verified. Each part has one spelling only.
func splitJWT(token string) (header map[string]json.RawMessage, payload []byte) {
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 {
		return nil, nil
	}
	var decoded [3][]byte
	for n, part := range parts {
		var err error
		if decoded[n], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil {
			return nil, nil
		}
	}
	if jsonx.Unmarshal(decoded[0], &header) != nil || header["alg"] == nil {
		return nil, nil
	}
	return header, decoded[1]
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

// verify checks the header of a token of an issuer, and that its signature is one of payload. The
// token was issued at the time issued, as it says.
func (g *Guard) verify(ctx context.Context, i *issuer, header map[string]json.RawMessage,
	token string, payload []byte, issued time.Time) error {
	if err := g.checkHeader(header); err != nil {
		return err
	}
	signed, err := jose.ParseSignedCompact(token, g.algorithms)
	if unexpected := (*jose.ErrUnexpectedSignatureAlgorithm)(nil); errors.As(err, &unexpected) {
		return refuse(badAlgorithm, nil)
	}
	if err != nil {
		return refuse(malformed, nil)
	}
	said := signed.Signatures[0].Protected
	keys, err := i.keysFor(ctx, said.KeyID, said.Algorithm, issued.Add(g.opts.leeway()))
	if err != nil {
		return err
	}
	for _, key := range keys {
		// The library decodes the token for itself: what it verified must be what we have read.
		if got, err := signed.Verify(key.Key); err == nil && bytes.Equal(got, payload) {
			return nil
		}
	}
	return refuse(badSignature, nil)
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
