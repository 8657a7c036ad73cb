package hophttp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

const purpose = "rondo/replicas/v2" //

// A Kind is the meaning of a token and defines its fields: the first byte of the plaintext.
type Kind byte

// The kinds. Digests are SHA-256.
const (
	// KindSession is a session id: name and start of its owner, inner id.
	KindSession Kind = iota + 1
	// KindChallenge asks an address to prove an owner: its name and start, and a nonce.
	KindChallenge
	// KindProof answers a challenge: its nonce, a ticket, and "1" if the owner will end soon.
	KindProof
	// KindHop authorizes a request: ticket, digests of session id and body, method, client address.
	KindHop
	// KindReply authenticates a response: digest of the hop, verdict.
	KindReply
)

var fieldsOf = [...]int{KindSession: 3, KindChallenge: 3, KindProof: 3, KindHop: 5, KindReply: 2}

// The verdicts of an owner on a forwarded request.
const (
	VerdictTaken       = "taken"       // the response is the owner's
	VerdictMisdirected = "misdirected" // not for this owner; not served
	VerdictStale       = "stale"       // ticket refused; not served
	VerdictHost        = "host"        // a handler before the owner answered
)

const (
	maxField = 255     // bytes of a field
	maxToken = 1 << 10 // bytes of a token, so that it fits in a header
)

// A Codec seals and opens the tokens of replicas, with keys derived from the shared ones.
type Codec struct{ ring *keys.Keyring }

// NewCodec returns the codec of the replicas that share a keyring.
func NewCodec(shared *keys.Keyring) Codec { return Codec{shared.Derive(purpose)} }

// Seal returns a token. Fields over 255 bytes are truncated.
func (c Codec) Seal(kind Kind, fields ...string) string {
	plaintext := make([]byte, 1, 256)
	plaintext[0] = byte(kind)
	for _, field := range fields {
		field = field[:min(len(field), maxField)]
		plaintext = append(append(plaintext, byte(len(field))), field...)
	}
	token, err := c.ring.Seal(context.Background(), plaintext)
	if err != nil || len(fields) != fieldsOf[kind] {
		panic("hophttp: internal error: a token cannot be sealed")
	}
	return token
}

// Open returns the fields of a token of a kind.
func (c Codec) Open(kind Kind, token string) (fields []string, ok bool) {
	if len(token) > maxToken {
		return nil, false
	}
	plaintext, err := c.ring.Open(context.Background(), token)
	if err != nil || len(plaintext) == 0 || Kind(plaintext[0]) != kind {
		return nil, false
	}
	fields = make([]string, 0, fieldsOf[kind])
	for rest := string(plaintext[1:]); rest != ""; {
		end := 1 + int(rest[0])
		if end > len(rest) {
			return nil, false
		}
		fields, rest = append(fields, rest[1:end]), rest[end:]
	}
	return fields, len(fields) == fieldsOf[kind]
}

func digest[T string | []byte](of T) string {
	sum := sha256.Sum256([]byte(of))
	return string(sum[:])
}

// An Owner is one run of a replica.
type Owner struct {
	Name  string
	Start string // random
}

// NewOwner returns an owner that starts now.
func NewOwner(name string) Owner { return Owner{Name: name, Start: rand.Text()} }

// SealSession returns the fleet-wide id of this replica's session inner, of up to 255 bytes.
func (f *Forwarder) SealSession(inner string) string {
	return f.codec.Seal(KindSession, f.self.Name, f.self.Start, inner)
}

// FindOwner returns the owner and the inner id in a session id. The owner is zero if id is invalid,
// and has this replica's name with another start if the replica has restarted since.
func (f *Forwarder) FindOwner(id string) (owner Owner, inner string) {
	fields, ok := f.codec.Open(KindSession, id)
	if !ok {
		return Owner{}, ""
	}
	return Owner{Name: fields[0], Start: fields[1]}, fields[2]
}
