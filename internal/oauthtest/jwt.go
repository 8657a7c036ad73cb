package oauthtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/go-jose/go-jose/v4"
)

// A JWT is a token that is about to be signed. Header and Claims may be anything.
type JWT struct {
	Header Document
	Claims Document

	// Sign makes the signature of what is to be signed. Nil: the current key of the server, by the
	// server's algorithm whatever the header says.
	Sign func(input []byte) []byte
}

// newJWT returns the claims of RFC 9068.
func (s *Server) newJWT(token *accessToken) *JWT {
	key := s.keys.current()
	return &JWT{
		Header: Document{{"alg", key.algorithm}, {"typ", "at+jwt"}, {"kid", key.id}},
		Claims: Document{
			{"iss", s.URL},
			{"sub", token.grant.Subject},
			{"aud", token.grant.Resource},
			{"exp", token.expires.Unix()},
			{"iat", token.issued.Unix()},
			{"jti", token.jwtID},
			{"client_id", token.grant.Client},
			{"scope", strings.Join(token.grant.Scopes, " ")},
		},
	}
}

// Mint signs a token for grant after edit has changed it. The server does not remember the token:
// it is for resources that verify signatures. edit may be nil.
func (s *Server) Mint(grant Grant, edit func(*JWT)) string {
	s.mu.Lock()
	now := s.opts.Now()
	token := &accessToken{grant: s.withDefaultsLocked(grant), issued: now,
		expires: now.Add(s.opts.Lifetime), jwtID: rand.Text()}
	s.mu.Unlock()
	jwt := s.newJWT(token)
	if edit != nil {
		edit(jwt)
	}
	text := jwt.sign(s.keys.current())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepSecretLocked(text)
	return text
}

func (t *JWT) sign(key *signingKey) string {
	encode := base64.RawURLEncoding.EncodeToString
	input := encode(t.Header.encode()) + "." + encode(t.Claims.encode())
	sign := t.Sign
	if sign == nil {
		sign = key.sign
	}
	return input + "." + encode(sign([]byte(input)))
}

// Unsigned has a token say that it needs no signature, and have none.
func Unsigned(t *JWT) {
	t.Header.Set("alg", "none")
	t.Sign = func([]byte) []byte { return nil }
}

// IDToken has a token be one that tells a client who has logged in, and grants nothing.
func IDToken(t *JWT) {
	t.Header.Set("typ", "JWT")
	t.Claims.Set("aud", t.Claims.Get("client_id"))
	t.Claims.Delete("client_id")
	t.Claims.Delete("scope")
	t.Claims.Add("nonce", rand.Text())
	t.Claims.Add("at_hash", "77QmUPtjPfzWtF2AnpK9RQ")
}

// SignedWithPublicKey returns an edit that signs with HMAC and the server's public key as the
// secret, which verifiers accept that let the token choose the algorithm.
func (s *Server) SignedWithPublicKey() func(*JWT) {
	der, err := x509.MarshalPKIXPublicKey(s.keys.current().private.Public())
	if err != nil {
		panic(err) // internal error: the key is of a known type
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return func(t *JWT) {
		t.Header.Set("alg", "HS256")
		t.Sign = func(input []byte) []byte {
			mac := hmac.New(sha256.New, secret)
			mac.Write(input)
			return mac.Sum(nil)
		}
	}
}

// SignedByStranger signs with a key that the server does not have, under the server's key id.
func SignedByStranger(t *JWT) {
	key := newSigningKey(fmt.Sprint(t.Header.Get("alg")), "")
	t.Sign = key.sign
}

// A signingKey is a key of the server.
type signingKey struct {
	id        string
	algorithm string
	private   crypto.Signer
}

func newSigningKey(algorithm, id string) *signingKey {
	key := &signingKey{id: id, algorithm: algorithm}
	var err error
	switch algorithm {
	case "ES256":
		key.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "RS256", "PS256":
		key.private, err = rsa.GenerateKey(rand.Reader, 2048)
	case "EdDSA":
		_, key.private, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("algorithm %q", algorithm)
	}
	if err != nil {
		panic(err) // a mistake of the test
	}
	return key
}

func (k *signingKey) sign(input []byte) []byte {
	sum := sha256.Sum256(input)
	var signature []byte
	var err error
	switch private := k.private.(type) {
	case *ecdsa.PrivateKey: // the two numbers one after the other, not in ASN.1
		r, s, errSign := ecdsa.Sign(rand.Reader, private, sum[:])
		if err = errSign; err == nil {
			signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		}
	case *rsa.PrivateKey:
		if k.algorithm == "PS256" {
			signature, err = rsa.SignPSS(rand.Reader, private, crypto.SHA256, sum[:],
				&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		} else {
			signature, err = rsa.SignPKCS1v15(nil, private, crypto.SHA256, sum[:])
		}
	default:
		signature, err = k.private.Sign(rand.Reader, input, crypto.Hash(0))
	}
	if err != nil {
		panic(err) // internal error: the key was just made for this
	}
	return signature
}

// A keyRing has the keys of a server, the one that signs last.
type keyRing struct {
	mu    sync.Mutex
	keys  []*signingKey
	added int
}

func (r *keyRing) add(algorithm string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.added++
	r.keys = append(r.keys, newSigningKey(algorithm, fmt.Sprintf("key-%d", r.added)))
}

func (r *keyRing) current() *signingKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[len(r.keys)-1]
}

// KeyID returns the id of the key that signs.
func (s *Server) KeyID() string { return s.keys.current().id }

// RotateKeys has a new key sign. The old ones stay published until RetireKeys.
func (s *Server) RotateKeys() { s.keys.add(s.opts.Algorithm) }

// RetireKeys takes all keys except the one that signs off the published set.
func (s *Server) RetireKeys() {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	s.keys.keys = s.keys.keys[len(s.keys.keys)-1:]
}

// PublicKeys returns the published set.
func (s *Server) PublicKeys() jose.JSONWebKeySet {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	var set jose.JSONWebKeySet
	for _, key := range s.keys.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.private.Public(), KeyID: key.id,
			Algorithm: key.algorithm, Use: "sig"})
	}
	return set
}

// serveKeys answers with the published set; edits see each key as a json.RawMessage.
func (s *Server) serveKeys(w http.ResponseWriter) {
	keys := []json.RawMessage{}
	for _, key := range s.PublicKeys().Keys {
		raw, err := key.MarshalJSON()
		if err != nil {
			panic(err) // internal error: the key is of a known type
		}
		keys = append(keys, raw)
	}
	s.log.send(w, JWKS, http.StatusOK, Document{{"keys", keys}})
}
