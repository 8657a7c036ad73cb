package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/client/clienthttp"
)

const (
	// dpopScheme is the authentication scheme and the token type of bound tokens (RFC 9449).
	dpopScheme = "DPoP"
	// needsNonce is the error code of a proof without the nonce of the server, and badProof that of
	// any other proof that is refused.
	needsNonce = "use_dpop_nonce"
	badProof   = "invalid_dpop_proof"
	// maxNonce bounds a nonce, which is sent with each request, in bytes.
	maxNonce = 1 << 10
	// newNonceAge is the age up to which a nonce is new. A request whose proof is refused in spite
	// of one is not sent again: the next nonce would be refused, too.
	newNonceAge = 10 * time.Second
	// maxClockSkew is the difference of two clocks that the error of a refused proof leaves out.
	maxClockSkew = 30 * time.Second
)

// A proofKey signs the proofs for the tokens that are bound to it.
type proofKey struct {
	signer     crypto.Signer
	header     string // of its proofs, as in a JWS
	thumbprint string // RFC 7638
}

// newProofKey returns the proofKey of a P-256 key.
func newProofKey(signer crypto.Signer) (*proofKey, error) {
	public, ok := signer.Public().(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return nil, errors.New("oauth: Options.ProofKey is not a P-256 key")
	}
	key := &jose.JSONWebKey{Key: public}
	header, err := json.Marshal(map[string]any{"typ": "dpop+jwt", "alg": jose.ES256, "jwk": key})
	if err != nil {
		return nil, err
	}
	sum, err := key.Thumbprint(crypto.SHA256)
	return &proofKey{signer, base64.RawURLEncoding.EncodeToString(header),
		base64.RawURLEncoding.EncodeToString(sum)}, err
}

// signProof returns a proof as a JWS (RFC 7515, section 7.1), whose signature has the two numbers
// of the one in DER (RFC 7518, section 3.4). Package jose takes twice the time for each request.
func (k *proofKey) signProof(claims *proofClaims) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text := k.header + "." + base64.RawURLEncoding.EncodeToString(payload)
	sum := sha256.Sum256([]byte(text))
	der, err := k.signer.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return "", err
	}
	var pair struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(der, &pair); err != nil || len(rest) > 0 ||
		max(pair.R.BitLen(), pair.S.BitLen()) > 256 {
		return "", errors.New("oauth: the signature of Options.ProofKey is malformed")
	}
	var raw [64]byte
	pair.R.FillBytes(raw[:32])
	pair.S.FillBytes(raw[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(raw[:]), nil
}

// bindRecord returns the key that the token of a record will be bound to: that of the login, and
// for a new login the key of the host or one that is made and stored with it. Nil: none.
func (s *Source) bindRecord(r *tokenRecord) (*proofKey, error) {
	switch {
	case r.BoundTo != "": // a refresh
	case s.hostKey != nil:
		r.BoundTo = s.hostKey.thumbprint
	case s.opts.DPoP:
		made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		if r.Key, err = x509.MarshalPKCS8PrivateKey(made); err != nil {
			return nil, err
		}
		key, err := newProofKey(made)
		if err != nil {
			return nil, err
		}
		r.BoundTo = key.thumbprint
		return key, nil
	}
	return s.findKey(r)
}

// errKeyLost is the error of a stored login whose tokens cannot be used.
var errKeyLost = errors.New("the login in the store is not used: its tokens are not bound to the " +
	"key of this client (see Options.DPoP and Options.ProofKey)")

// findKey returns the key that the token of a record is bound to. Nil: it is bound to none, and
// need not be. The error is errKeyLost.
func (s *Source) findKey(r *tokenRecord) (*proofKey, error) {
	key := s.hostKey
	if key == nil && r.Key != nil {
		parsed, _ := x509.ParsePKCS8PrivateKey(r.Key)
		if own, ok := parsed.(*ecdsa.PrivateKey); ok {
			key, _ = newProofKey(own)
		}
	}
	switch {
	case key == nil && r.BoundTo == "" && !s.opts.DPoP:
		return nil, nil
	case key == nil || key.thumbprint != r.BoundTo:
		return nil, errKeyLost
	}
	return key, nil
}

// A proofClaims has the claims of a proof (RFC 9449, section 4.2).
type proofClaims struct {
	ID       string `json:"jti"`
	Method   string `json:"htm"`
	URL      string `json:"htu"`
	IssuedAt int64  `json:"iat"`
	Token    string `json:"ath,omitempty"`
	Nonce    string `json:"nonce,omitempty"`
}

// addProof adds a new proof for a request to a header. access is the token of the request; empty:
// it is a token request.
func (s *Source) addProof(h http.Header, key *proofKey, method, at, access string) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	u.RawQuery, u.ForceQuery, u.Fragment = "", false, ""
	claims := proofClaims{ID: rand.Text(), Method: method, URL: u.String(),
		IssuedAt: time.Now().Unix()}
	if access != "" {
		sum := sha256.Sum256([]byte(access))
		claims.Token = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	s.mu.Lock()
	claims.Nonce = s.nonces[at]
	s.mu.Unlock()
	proof, err := key.signProof(&claims)
	if err == nil {
		h.Set("DPoP", proof)
	}
	return err
}

// saveNonce saves the nonce of a response from a URL for later proofs there, and returns it. Empty:
// there is none.
func (s *Source) saveNonce(at string, h http.Header) string {
	values := h["Dpop-Nonce"]
	if len(values) != 1 || len(values[0]) > maxNonce {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.nonces[at]; !known && len(s.nonces) >= maxServers {
		clear(s.nonces)
	}
	s.nonces[at] = values[0]
	return values[0]
}

// ReadHeader implements [clienthttp.HeaderReader]: it saves the nonce for later proofs.
func (s *Source) ReadHeader(_ clienthttp.Outgoing, h http.Header) {
	s.saveNonce(s.endpointText, h)
}

// A refusedNonce is the last nonce that came with the refusal of a proof.
type refusedNonce struct {
	text string
	at   time.Time
}

// answerProofRefusal reports whether a request whose proof was refused is sent again: once, with a
// nonce of the server (RFC 9449, section 9). No other token would help.
func (s *Source) answerProofRefusal(r clienthttp.Refusal, code string) (again bool, err error) {
	nonce := s.saveNonce(s.endpointText, r.Header)
	var used proofClaims
	if parts := strings.Split(r.Sent.Get("DPoP"), "."); len(parts) == 3 {
		data, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(data, &used) // a proof of another signer has no nonce of ours
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.lastNonce
	s.lastNonce = refusedNonce{nonce, time.Now()}
	isRetry := r.Attempt > 1 && used.Nonce != "" && used.Nonce == last.text &&
		time.Since(last.at) < newNonceAge
	if code == needsNonce && nonce != "" && nonce != used.Nonce && !isRetry {
		return true, nil
	}
	return false, fmt.Errorf("oauth: the server refuses the DPoP proof%s: %w",
		describeSkew(r.Header), &clienthttp.StatusError{Status: r.Status, Header: r.Header})
}

// describeSkew returns what the Date of a response says about the clock of this machine, as a part
// of the error of a refused proof: a proof of another time is refused.
func describeSkew(h http.Header) string {
	at, err := http.ParseTime(h.Get("Date"))
	switch skew := time.Since(at).Round(time.Second); {
	case err != nil || skew.Abs() <= maxClockSkew:
		return ""
	case skew < 0:
		return fmt.Sprintf(" (the clock of this machine is %s behind)", -skew)
	default:
		return fmt.Sprintf(" (the clock of this machine is %s ahead)", skew)
	}
}
