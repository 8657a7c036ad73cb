package hophttp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// purpose is what the keyring of replicas is derived for.
const purpose = "rondo/replicas/v2"

// A Kind says what a token means, and so which fields it has. It is the first byte of the
// plaintext, and part of the format.
type Kind byte

// The kinds. Digests are those of SHA-256.
const (
	// KindSession is the id of a session: name and start of its owner, inner id.
	KindSession Kind = iota + 1
	// KindChallenge asks who is at an address to prove that it is an owner: name and start of
	// the owner, nonce.
	KindChallenge
	// KindProof answers a challenge: its nonce, a ticket, and "1" if the owner will end soon.
	KindProof
	// KindHop goes with a request that is passed on: ticket, digests of session id and body,
	// method, address of the client.
	KindHop
	// KindReply goes with the response: digest of the hop, verdict.
	KindReply
)

// fieldsOf is how many fields the kinds have.
var fieldsOf = [...]int{KindSession: 3, KindChallenge: 3, KindProof: 3, KindHop: 5, KindReply: 2}

// The verdicts of an owner on a request that was passed on.
const (
	// VerdictTaken: the response is that of the owner.
	VerdictTaken = "taken"
	// VerdictMisdirected: the request is not for this owner, and was not served.
	VerdictMisdirected = "misdirected"
	// VerdictStale: the ticket is not accepted, and the request was not served.
	VerdictStale = "stale"
	// VerdictHost: what stands before the owner answered, and the owner has not seen the request.
	VerdictHost = "host"
)

const (
	// maxField is the length of the longest field in bytes.
	maxField = 255
	// maxToken is the length of the longest token: a header of some kilobytes.
	maxToken = 1 << 10
)

// A Codec seals and opens the tokens of replicas, under keys that all of them share and that seal
// nothing else.
type Codec struct{ ring *keys.Keyring }

// NewCodec returns the codec of the replicas that share a keyring.
func NewCodec(shared *keys.Keyring) Codec { return Codec{shared.Derive(purpose)} }

// Seal returns a token. Fields of more than 255 bytes are cut.
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

// digest returns the SHA-256 of a text or of bytes.
func digest[T string | []byte](of T) string {
	sum := sha256.Sum256([]byte(of))
	return string(sum[:])
}

// An Owner is one run of a replica.
type Owner struct {
	Name  string
	Start string // random
}

// NewOwner returns the owner that begins now.
func NewOwner(name string) Owner { return Owner{Name: name, Start: rand.Text()} }

// SealSession returns the id of a session of this replica. inner, of at most 255 bytes, tells its
// sessions apart.
func (f *Forwarder) SealSession(inner string) string {
	return f.codec.Seal(KindSession, f.self.Name, f.self.Start, inner)
}

// FindOwner reads the id of a session. The owner is zero for what is none, and has the name of
// this replica and another start where the session was opened before this replica started again.
// inner is what SealSession was given.
func (f *Forwarder) FindOwner(id string) (owner Owner, inner string) {
	fields, ok := f.codec.Open(KindSession, id)
	if !ok {
		return Owner{}, ""
	}
	return Owner{Name: fields[0], Start: fields[1]}, fields[2]
}
