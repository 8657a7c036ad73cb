package bearer

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

const (
	// nonceLifetime is the age up to which a nonce counts. Clocks of replicas may differ by
	// replicaSkew, so that a nonce counts for up to proofMemory after it was made: as long a proof
	// is remembered.
	nonceLifetime = 2 * time.Minute
	replicaSkew   = time.Minute
	proofMemory   = nonceLifetime + replicaSkew
	// maxProofAge bounds how far iat of a proof is from now, either way. The nonce tells its age
	// by the clock of the server.
	maxProofAge      = 5 * time.Minute
	defaultMaxProofs = 3 << 16
	maxProofBytes    = 8 << 10
)

// A DPoP accepts tokens that are bound to a key, from senders who prove with each request that they
// have it (RFC 9449): somebody who has read a token cannot use it. Proofs have a nonce of the
// server, so that none can be made in advance.
//
// A proof is good once in each process. Without Store, whoever can read a whole request could send
// it again to another replica within three minutes.
type DPoP struct {
	// Keys seal the nonces. Replicas must share them, also those that pass requests on. Nil: a
	// key of this process.
	Keys *keys.Keyring
	// Store remembers the proofs for all replicas, so that each is good once, such as
	// redisstore.Store. Requests get 503 while it fails. Nil: the memory of this process.
	Store ProofStore
	// Required refuses tokens that are not bound to a key.
	Required bool
	// MaxProofs bounds the remembered proofs, of 200 bytes each, one for each request of three
	// minutes, where Store is nil. When it is full, requests get 503. 0: 196608, which is 1000
	// requests a second.
	MaxProofs int
}

// A ProofStore remembers proofs that were used, for replicas that share it.
type ProofStore interface {
	// Spend remembers a proof by its digest, for at least as long as given. first is false if it
	// was remembered already: of calls that overlap, at whatever replicas, one gets true. A store
	// that cannot tell, or has no room, returns an error. ctx ends after five seconds.
	Spend(ctx context.Context, proof [sha256.Size]byte, keep time.Duration) (first bool, err error)
}

// storeTimeout bounds a call of a ProofStore.
const storeTimeout = 5 * time.Second

// A proofChecker checks the proofs of a [DPoP].
type proofChecker struct {
	DPoP
	nonces *keys.Keyring
	forURL digest // of Options.Resource: a nonce is for one server
	store  ProofStore
}

func newProofChecker(o *Options) *proofChecker {
	if o.DPoP == nil {
		return nil
	}
	p := &proofChecker{DPoP: *o.DPoP, forURL: sha256.Sum256([]byte(o.Resource))}
	if p.store = p.Store; p.store == nil {
		if p.MaxProofs <= 0 {
			p.MaxProofs = defaultMaxProofs
		}
		p.store = &memoryProofs{seen: recent.New[digest, time.Time](p.MaxProofs, proofMemory)}
	}
	if p.Keys == nil {
		p.Keys = keys.EphemeralKeyring()
	}
	p.nonces = p.Keys.Derive("nonces of DPoP proofs")
	return p
}

// newNonce returns a nonce, which tells its own age.
func (p *proofChecker) newNonce() string {
	text, _ := p.nonces.Seal(context.Background(), // never fails
		binary.BigEndian.AppendUint64(p.forURL[:], uint64(time.Now().UnixMilli())))
	return text
}

// isNonce reports whether a nonce is of this server, or another replica, and counts still.
func (p *proofChecker) isNonce(text string) bool {
	opened, err := p.nonces.Open(context.Background(), text)
	if err != nil || len(opened) != len(p.forURL)+8 || !bytes.HasPrefix(opened, p.forURL[:]) {
		return false
	}
	made := time.UnixMilli(int64(binary.BigEndian.Uint64(opened[len(p.forURL):])))
	age := time.Since(made)
	return -replicaSkew < age && age < nonceLifetime
}

// readBinding returns the thumbprint of the key to which a token is bound, its confirmation (RFC
// 9449, section 6). Empty: it is bound to none.
func (g *ResourceServer) readBinding(c *claims) (thumbprint string, err error) {
	if !c.hasClaim("cnf") {
		if g.proofs != nil && g.proofs.Required {
			return "", refuse(badType, hintNotBound, nil)
		}
		return "", nil
	}
	var cnf map[string]string // one that has more is bound in another way, too
	if g.proofs == nil || c.readClaim("cnf", &cnf) != nil || len(cnf) != 1 || cnf["jkt"] == "" {
		return "", refuse(badType, hintBound, nil)
	}
	return cnf["jkt"], nil
}

// checkProof checks that the sender of a request with a verified token has the key to which the
// token is bound. at is the URL of the request as clients know it.
func (g *ResourceServer) checkProof(r *http.Request, at, scheme string, token digest,
	thumbprint string) error {
	isProof := strings.EqualFold(scheme, dpopScheme)
	switch {
	case thumbprint == "" && !isProof:
		return nil
	case thumbprint == "":
		return refuse(badType, hintNotBound, nil)
	case !isProof:
		return refuse(badType, hintBearer, nil)
	}
	proof, err := g.readProof(r.Header["Dpop"])
	if err != nil {
		return refuse(badProof, "", err)
	}
	// Of a request that was passed on the first replica has checked the age. The owner may have
	// been stopped for longer since.
	isOld := !hophttp.IsHop(r.Context()) && time.Since(proof.issued).Abs() > maxProofAge
	switch {
	case proof.thumbprint != thumbprint:
		err = errors.New("it is of another key than that of the token")
	case proof.Method != r.Method:
		err = fmt.Errorf("htm is %s", errtext.Value(proof.Method))
	case !isSameURL(proof.URL, at):
		err = fmt.Errorf("htu is %s, want %s", errtext.Value(proof.URL), at)
	case proof.Token != base64.RawURLEncoding.EncodeToString(token[:]):
		err = errors.New("ath is not the digest of the token")
	case proof.ID == "" || isOld:
		err = errors.New("it has no jti, or its iat is too far from now")
	case !hophttp.IsHop(r.Context()) && !g.proofs.isNonce(proof.Nonce):
		return refuse(noNonce, "", nil)
	}
	if err != nil {
		return refuse(badProof, "", err)
	}
	return g.proofs.spendProof(r.Context(), thumbprint+" "+proof.ID)
}

// spendProof remembers a proof, and refuses one that was used. A request that another replica has
// passed on was counted there: here the proof of the hop is good once.
func (p *proofChecker) spendProof(ctx context.Context, id string) error {
	if p.Store != nil && hophttp.IsHop(ctx) {
		id = "hop " + id
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	first, err := p.store.Spend(ctx, sha256.Sum256([]byte(id)), proofMemory)
	if err != nil && !isRefusal(err) {
		return postpone(proofsLost, defaultRetry, err)
	}
	if err == nil && !first {
		err = refuse(badProof, "", errors.New("it was used before"))
	}
	return err
}

// memoryProofs are the proofs of one process.
type memoryProofs struct {
	mu   sync.Mutex
	seen *recent.Map[digest, time.Time] // expiry of accepted proofs
}

// Spend implements [ProofStore]. While the memory is full, no proof is accepted: one that is not
// remembered could be used again.
func (m *memoryProofs) Spend(_ context.Context, sum digest, keep time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.seen.Get(sum); ok {
		return false, nil
	}
	if oldest, ok := m.seen.Oldest(); ok && m.seen.Full() && time.Now().Before(oldest) {
		return false, postpone(proofsFull, max(time.Until(oldest), time.Second), nil)
	}
	m.seen.Put(sum, time.Now().Add(keep))
	return true, nil
}

// A proof has the claims of a DPoP proof (RFC 9449, section 4.2).
type proof struct {
	ID     string `json:"jti"`
	Method string `json:"htm"`
	URL    string `json:"htu"`
	Token  string `json:"ath"`
	Nonce  string `json:"nonce"`

	issued     time.Time // iat
	thumbprint string    // of the key that signed it
}

// readProof returns the proof in the header of a request, whose signature is of the key in it.
func (g *ResourceServer) readProof(values []string) (*proof, error) {
	if len(values) != 1 || len(values[0]) > maxProofBytes {
		return nil, errors.New("there is none, or more than one, or it is too long")
	}
	header, payload := splitJWT(values[0])
	kind, _ := readType(header)
	if _, critical := header["crit"]; critical || kind != "dpop+jwt" {
		return nil, errors.New("it is no DPoP proof")
	}
	signed, err := jose.ParseSignedCompact(values[0], g.algorithms)
	var key jose.JSONWebKey
	if err != nil || json.Unmarshal(header["jwk"], &key) != nil || !key.Valid() ||
		!key.IsPublic() || !canVerify(&key, signed.Signatures[0].Protected.Algorithm) ||
		!isSignedByAny(signed, []jose.JSONWebKey{key}, payload) {
		return nil, errors.New("its signature is not of the key in it")
	}
	c, p := &claims{}, &proof{}
	sum, err := key.Thumbprint(crypto.SHA256)
	if err != nil || jsonx.Unmarshal(payload, &c.all) != nil ||
		jsonx.Unmarshal(payload, p) != nil || c.readTime("iat", &p.issued) != nil {
		return nil, errors.New("its claims are malformed")
	}
	p.thumbprint = base64.RawURLEncoding.EncodeToString(sum)
	return p, nil
}

// isSameURL reports whether htu of a proof is a URL, but for query and fragment, which it leaves
// out, and for the case of the host.
func isSameURL(htu, at string) bool {
	got, err := url.Parse(htu)
	want, err2 := url.Parse(at)
	if err != nil || err2 != nil {
		return false
	}
	return got.Scheme == want.Scheme && got.User == nil && strings.EqualFold(got.Host, want.Host) &&
		strings.TrimSuffix(got.EscapedPath(), "/") == strings.TrimSuffix(want.EscapedPath(), "/")
}
