package oauth

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"
	"github.com/go-jose/go-jose/v4/jwt"
)

// assertionType comes from RFC 7523, section 2.2.
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

const assertionLifetime = time.Minute

// newAssertion returns a JWT that authenticates the client of a registration (RFC 7523, section 3).
func (r *Registration) newAssertion(audience string) (string, error) {
	signer, err := r.newSigner()
	if err != nil {
		return "", err
	}
	now := time.Now()
	return jwt.Signed(signer).Claims(jwt.Claims{Issuer: r.ClientID, Subject: r.ClientID,
		Audience: jwt.Audience{audience}, ID: rand.Text(), IssuedAt: jwt.NewNumericDate(now),
		NotBefore: jwt.NewNumericDate(now),
		Expiry:    jwt.NewNumericDate(now.Add(assertionLifetime))}).Serialize()
}

// newSigner returns a registration's signer. Entra ID requires PSS for RSA keys with a certificate.
func (r *Registration) newSigner() (jose.Signer, error) {
	key := cryptosigner.Opaque(r.PrivateKey)
	algorithms := key.Algs()
	if len(algorithms) == 0 {
		return nil, errors.New("the key cannot sign assertions")
	}
	algorithm, opts := algorithms[0], (&jose.SignerOptions{}).WithType("JWT")
	if r.KeyID != "" {
		opts.WithHeader("kid", r.KeyID)
	}
	if r.Certificate != nil {
		sum := sha256.Sum256(r.Certificate)
		opts.WithHeader("x5t#S256", base64.RawURLEncoding.EncodeToString(sum[:]))
		if _, ok := r.PrivateKey.Public().(*rsa.PublicKey); ok {
			algorithm = jose.PS256
		}
	}
	return jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, opts)
}
