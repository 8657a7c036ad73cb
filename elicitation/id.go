package elicitation

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// KeyPurpose is what the keyring of [Options].Keys is derived for.
const KeyPurpose = "rondo/elicitation/v1"

// A Sealer encrypts and authenticates short texts under the keys of a fleet. A Keyring of
// package roundtrip/keys is one, and brings rotation: the primary key seals, every key
// opens. Seal returns a text that can be a JSON string without escapes. Open returns an
// error for what was not sealed with one of the keys. Calls may overlap.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte) (string, error)
	Open(ctx context.Context, text string) ([]byte, error)
}

// The first byte of a sealed id says what it names, so that what else is named in this way
// can never be taken for a question. Their numbers are part of the format.
const idKindQuestion = 1

const (
	// maxSealedID is the length of the longest id that is opened. The plaintext has at most
	// 50 bytes; what remains is room for the name of the key.
	maxSealedID = 512
	// idRandomSize is how many random bytes tell the questions of one owner apart.
	idRandomSize = 16
	// maxOwnerName is the length of the longest name of a replica.
	maxOwnerName = 32
)

// newQuestionID returns the id of a question of this router. On a bus it is
//
//	kind, name of this end of the bus, 128 random bits
//
// sealed under the keys of the fleet. So a reply finds the owner without a directory, an id
// that somebody made up is refused without a message, and a client learns nothing from it.
func (r *Router) newQuestionID(ctx context.Context) (protocol.ID, error) {
	if r.opts.Bus == nil && r.opts.Store == nil {
		return protocol.StringID(newID()), nil
	}
	plaintext := append([]byte{idKindQuestion}, r.busName...)
	var random [idRandomSize]byte
	rand.Read(random[:]) // never fails
	text, err := r.opts.Keys.Seal(ctx, append(plaintext, random[:]...))
	if err != nil {
		return protocol.ID{}, err
	}
	return protocol.StringID(text), nil
}

// ownerOf returns the name of the replica that made the id of a question. It reports false
// for any other id.
func (r *Router) ownerOf(ctx context.Context, id protocol.ID) (owner string, ok bool) {
	s := id.String()
	if len(s) > maxSealedID+2 || len(s) < 2 || s[0] != '"' || strings.IndexByte(s, '\\') >= 0 {
		return "", false
	}
	plaintext, err := r.opts.Keys.Open(ctx, bareID(id))
	end := len(plaintext) - idRandomSize
	if err != nil || end < 2 || plaintext[0] != idKindQuestion {
		return "", false
	}
	owner = string(plaintext[1:end])
	return owner, isOwnerName(owner)
}

// isOwnerName reports whether a name is one that [Bus.Name] may return. Names become
// subjects and the like, in which nothing else may stand.
func isOwnerName(name string) bool {
	if name == "" || len(name) > maxOwnerName {
		return false
	}
	for _, c := range []byte(name) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// newID returns 128 random bits in hexadecimal.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// bareID returns an id of the router's without the quotes that it has on the wire.
func bareID(id protocol.ID) string {
	s := id.String()
	return s[1 : len(s)-1]
}
