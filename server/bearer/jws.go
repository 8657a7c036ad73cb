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
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

const minRSABits = 2048 // RFC 7518, section 3.3

// splitJWT returns the unverified header and payload of a JSON Web Token in compact serialization
// (RFC 7515, section 7.1), or nil. Each part must have its canonical encoding.
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

// readType returns the header's type in lower case, "" if absent. ok is false for a bad type.
func readType(header map[string]json.RawMessage) (kind string, ok bool) {
	raw, found := header["typ"]
	if !found {
		return "", true
	}
	err := json.Unmarshal(raw, &kind)
	return strings.ToLower(kind), err == nil && kind != ""
}

// isAccessType reports whether a type is an access token's (RFC 9068, section 2.1).
func isAccessType(kind string) bool { return kind == "at+jwt" || kind == "application/at+jwt" }

// checkHeader refuses types of other tokens than access tokens (RFC 9068, section 4), and critical
// extensions (RFC 7515, section 4.1.11). Keys in the header (jwk, jku, x5c, x5u) are not read.
func (g *ResourceServer) checkHeader(i *issuer, header map[string]json.RawMessage) error {
	if _, ok := header["crit"]; ok {
		return refuse(malformed, "", errors.New("it has critical header parameters"))
	}
	kind, ok := readType(header)
	switch {
	case !ok:
	case isAccessType(kind), kind == "jwt", kind == "",
		kind != "" && strings.EqualFold(kind, i.Type):
		return nil
	}
	return refuse(badType, hintType, fmt.Errorf("typ in its header is %s", errtext.Value(kind)))
}

// acceptedAlgorithms returns the asymmetric signature algorithms (RFC 7518, RFC 8037). "none" and
// algorithms with a shared secret are not among them. canVerify checks the key's algorithm.
func acceptedAlgorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384,
		jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}
}

// verifySignature checks a token's header and its signature of payload. issued is its iat.
func (g *ResourceServer) verifySignature(ctx context.Context, i *issuer,
	header map[string]json.RawMessage,
	token string, payload []byte, issued time.Time) error {
	if err := g.checkHeader(i, header); err != nil {
		return err
	}
	signed, err := jose.ParseSignedCompact(token, acceptedAlgorithms())
	if _, ok := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); ok {
		return refuse(badAlgorithm, hintAlgorithm, fmt.Errorf("alg is %s",
			errtext.Value(string(header["alg"]))))
	}
	if err != nil {
		return refuse(malformed, "", nil)
	}
	id, algorithm := signed.Signatures[0].Protected.KeyID, signed.Signatures[0].Protected.Algorithm
	issued = issued.Add(g.leeway)
	keys, err := i.findKeys(ctx, id, algorithm, issued)
	if err != nil {
		return err
	}
	if isSignedByAny(signed, keys, payload) {
		return nil
	}
	if id != "" {
		return refuse(badSignature, hintSignature, fmt.Errorf("kid is %s", errtext.Value(id)))
	}
	if keys, err = i.refetchKeys(ctx, algorithm, issued); err != nil {
		return err
	}
	if isSignedByAny(signed, keys, payload) {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.recordMissLocked("", issued)
}

// isSignedByAny reports whether one of the keys has signed payload. The library decodes the token
// itself, so it must find the payload that was read here.
func isSignedByAny(signed *jose.JSONWebSignature, keys []jose.JSONWebKey, payload []byte) bool {
	return slices.ContainsFunc(keys, func(key jose.JSONWebKey) bool {
		got, err := signed.Verify(key.Key)
		return err == nil && bytes.Equal(got, payload)
	})
}

// canVerify reports whether a key may verify signatures of an algorithm (RFC 7518, section 3.1).
func canVerify(key *jose.JSONWebKey, algorithm string) bool {
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
