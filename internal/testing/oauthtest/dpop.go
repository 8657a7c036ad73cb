package oauthtest

import (
	"crypto"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// A Proofs is what a server wants of DPoP proofs (RFC 9449). Without any wish it binds the tokens
// of requests that have a proof.
type Proofs struct {
	Required bool // requests without a proof are refused
	Nonces   bool // proofs have the last nonce of the server
	Forever  bool // no nonce is ever right
}

// WantProofs has the server want proofs from now on, with a new nonce.
func (s *Server) WantProofs(p Proofs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proofs, s.nonce = p, "as-nonce-"+rand.Text()
}

// A proofClaims has the claims of a proof at the token endpoint.
type proofClaims struct {
	ID       string `json:"jti"`
	Method   string `json:"htm"`
	URL      string `json:"htu"`
	IssuedAt int64  `json:"iat"`
	Token    string `json:"ath"`
	Nonce    string `json:"nonce"`
}

// checkProofLocked returns the thumbprint of the key of a proof, empty if there is none, or the
// code of an error. It sends the nonce for the next one.
func (s *Server) checkProofLocked(w http.ResponseWriter, r Request) (thumbprint, failure string) {
	const refused = "invalid_dpop_proof"
	values := r.Header.Values("DPoP")
	if len(values) == 0 && !s.proofs.Required {
		return "", ""
	}
	if len(values) != 1 {
		return "", refused
	}
	s.secrets = append(s.secrets, values[0])
	parsed, err := jwt.ParseSigned(values[0], []jose.SignatureAlgorithm{jose.ES256, jose.ES384,
		jose.RS256, jose.EdDSA})
	if err != nil || len(parsed.Headers) != 1 || parsed.Headers[0].JSONWebKey == nil ||
		parsed.Headers[0].ExtraHeaders["typ"] != "dpop+jwt" {
		return "", refused
	}
	key, claims := parsed.Headers[0].JSONWebKey, proofClaims{}
	if !key.IsPublic() || parsed.Claims(key, &claims) != nil || claims.ID == "" ||
		s.proofIDs[claims.ID] || claims.Method != r.Method || claims.URL != s.URL+"/token" ||
		claims.Token != "" || time.Since(time.Unix(claims.IssuedAt, 0)).Abs() > time.Minute {
		return "", refused
	}
	s.proofIDs[claims.ID] = true
	if s.proofs.Nonces {
		last := s.nonce
		if claims.Nonce != last || s.proofs.Forever {
			failure = "use_dpop_nonce"
		}
		s.nonce = "as-nonce-" + rand.Text() // each is good once
		w.Header().Set("DPoP-Nonce", s.nonce)
	}
	sum, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", refused
	}
	return base64.RawURLEncoding.EncodeToString(sum), failure
}
