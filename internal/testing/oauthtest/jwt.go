package oauthtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// A signingKey is a key of the server, for ES256.
type signingKey struct {
	id      string
	private *ecdsa.PrivateKey
}

// RotateKeys has a new key sign. The old ones stay published until RetireKeys.
func (s *Server) RotateKeys() {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // internal error: the curve is a good one
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.added++
	s.keys = append(s.keys, signingKey{fmt.Sprintf("key-%d", s.added), private})
}

// RetireKeys takes all keys except the one that signs off the published set.
func (s *Server) RetireKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = s.keys[len(s.keys)-1:]
}

// serveKeys answers with the published set.
func (s *Server) serveKeys(w http.ResponseWriter) {
	s.mu.Lock()
	set := []jose.JSONWebKey{}
	for _, key := range s.keys {
		set = append(set, jose.JSONWebKey{Key: key.private.Public(), KeyID: key.id,
			Algorithm: "ES256", Use: "sig"})
	}
	s.mu.Unlock()
	s.sendDocument(w, JWKS, http.StatusOK, Document{{"keys", set}})
}

// accessClaims returns the claims of RFC 9068.
func (s *Server) accessClaims(t *token) Document {
	return Document{
		{"iss", s.URL},
		{"sub", t.grant.Subject},
		{"aud", t.grant.Resource},
		{"exp", t.expires.Unix()},
		{"iat", t.issued.Unix()},
		{"jti", rand.Text()},
		{"client_id", t.grant.Client},
		{"scope", strings.Join(t.grant.Scopes, " ")},
	}
}

// signLocked returns an access token as a JWT of the key that signs.
func (s *Server) signLocked(t *token) string {
	key := s.keys[len(s.keys)-1]
	encode := base64.RawURLEncoding.EncodeToString
	header := Document{{"alg", "ES256"}, {"typ", "at+jwt"}, {"kid", key.id}}
	input := encode(header.encodeJSON()) + "." + encode(s.accessClaims(t).encodeJSON())
	sum := sha256.Sum256([]byte(input))
	a, b, err := ecdsa.Sign(rand.Reader, key.private, sum[:])
	if err != nil {
		panic(err) // internal error: the key was made for this
	}
	// The two numbers one after the other, not in ASN.1.
	signature := append(a.FillBytes(make([]byte, 32)), b.FillBytes(make([]byte, 32))...)
	return input + "." + encode(signature)
}
