package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // for ES384
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"time"
)

// assertionType is the client_assertion_type of a JWT (RFC 7523, section 2.2).
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// assertionLifetime is the lifetime of a client assertion.
const assertionLifetime = time.Minute

// newAssertion returns a JWT that authenticates the client of a registration (RFC 7523, section 3).
func (r *Registration) newAssertion(audience string) (string, error) {
	alg, hash, err := r.signingAlgorithm()
	if err != nil {
		return "", err
	}
	now := time.Now()
	header := map[string]any{"alg": alg, "typ": "JWT"}
	if r.KeyID != "" {
		header["kid"] = r.KeyID
	}
	if r.Certificate != nil {
		sum := sha256.Sum256(r.Certificate)
		header["x5t#S256"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	input, err := encodeJWT(header, map[string]any{"iss": r.ClientID, "sub": r.ClientID,
		"aud": audience, "jti": rand.Text(), "iat": now.Unix(), "nbf": now.Unix(),
		"exp": now.Add(assertionLifetime).Unix()})
	if err != nil {
		return "", err
	}
	signature, err := signJWT(r.PrivateKey, alg, hash, input)
	if err != nil {
		return "", err
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// signingAlgorithm returns the algorithm of the key of a registration (RFC 7518, section 3.1; RFC
// 8037), and its hash. With a certificate RSA keys sign with PSS, as Entra ID wants.
func (r *Registration) signingAlgorithm() (alg string, hash crypto.Hash, err error) {
	switch key := r.PrivateKey.Public().(type) {
	case *rsa.PublicKey:
		if r.Certificate != nil {
			return "PS256", crypto.SHA256, nil
		}
		return "RS256", crypto.SHA256, nil
	case *ecdsa.PublicKey:
		switch key.Curve.Params().BitSize {
		case 256:
			return "ES256", crypto.SHA256, nil
		case 384:
			return "ES384", crypto.SHA384, nil
		}
	case ed25519.PublicKey:
		return "EdDSA", 0, nil
	}
	return "", 0, errors.New("the key is not RSA, P-256, P-384 or Ed25519")
}

// encodeJWT returns the signing input of a JWT (RFC 7515, section 5.1).
func encodeJWT(header, claims map[string]any) (string, error) {
	head, err := json.Marshal(header)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode(head) + "." + encode(body), nil
}

// signJWT signs the input of a JWT. Signatures of ECDSA are two numbers of the same length (RFC
// 7518, section 3.4), and not ASN.1 as [crypto.Signer] returns them.
func signJWT(key crypto.Signer, alg string, hash crypto.Hash, input string) ([]byte, error) {
	digest := []byte(input)
	if hash != 0 {
		h := hash.New()
		h.Write(digest)
		digest = h.Sum(nil)
	}
	var opts crypto.SignerOpts = hash
	if alg == "PS256" {
		opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
	}
	signature, err := key.Sign(rand.Reader, digest, opts)
	public, ok := key.Public().(*ecdsa.PublicKey)
	if err != nil || !ok {
		return signature, err
	}
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &pair); err != nil {
		return nil, errors.New("the key has made no ECDSA signature")
	}
	size := public.Curve.Params().BitSize / 8
	return append(pair.R.FillBytes(make([]byte, size)), pair.S.FillBytes(make([]byte, size))...), nil
}
