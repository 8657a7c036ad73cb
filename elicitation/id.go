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
	// maxSealedID is the length of the longest id that is opened. The plaintext has
	// 17 bytes; what remains is room for the name of the key.
	maxSealedID = 512
	// idRandomSize is how many random bytes tell the questions of a fleet apart.
	idRandomSize = 16
)

// newQuestionID returns the id of a question of this router. With a store it is
//
//	kind, 128 random bits
//
// sealed under the keys of the fleet: for an id that somebody made up no store is asked.
func (r *Router) newQuestionID(ctx context.Context) (protocol.ID, error) {
	if r.opts.Store == nil {
		return protocol.StringID(newID()), nil
	}
	var plaintext [1 + idRandomSize]byte
	rand.Read(plaintext[1:]) // never fails
	plaintext[0] = idKindQuestion
	text, err := r.opts.Keys.Seal(ctx, plaintext[:])
	if err != nil {
		return protocol.ID{}, err
	}
	return protocol.StringID(text), nil
}

// isFleetID reports whether a router of the fleet made the id of a question.
func (r *Router) isFleetID(ctx context.Context, id protocol.ID) bool {
	s := id.String()
	if len(s) > maxSealedID+2 || len(s) < 2 || s[0] != '"' || strings.IndexByte(s, '\\') >= 0 {
		return false
	}
	plaintext, err := r.opts.Keys.Open(ctx, bareID(id))
	return err == nil && len(plaintext) == 1+idRandomSize && plaintext[0] == idKindQuestion
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
