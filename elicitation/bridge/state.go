package bridge

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A binding is a digest of what must be the same in all requests of a call: the principal or the
// credential, the method, the target and the arguments.
type binding [sha256.Size]byte

// bind returns the binding of a request. Arguments that differ in spelling alone, such as in the
// order of members, have the same one.
func bind(r *Request) (binding, error) {
	var plain []byte
	credential := ""
	if r.Principal.Anonymous() {
		credential = r.Credential
	}
	for _, text := range [...]string{
		r.Principal.Issuer, r.Principal.Subject, credential, r.Method, r.Target,
	} {
		plain = appendText(plain, text)
	}
	if len(r.Arguments) > 0 && jsonx.KindOf(r.Arguments) != jsonx.Null {
		err := jsonx.Check(r.Arguments)
		if err == nil {
			plain, err = jsonx.AppendCanonical(plain, r.Arguments)
		}
		if err != nil {
			return binding{}, protocol.Errorf(protocol.CodeInvalidParams, "arguments: %v", err)
		}
	}
	return sha256.Sum256(plain), nil
}

// appendText appends a text and, before it, its length.
func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// answers are the results in a request, by the ids of questions.
type answers map[string]json.RawMessage

// maxAnswers is how many answers one request may have: far more than a router lets one call ask at
// once, and cheap to check.
const maxAnswers = 1000

// check refuses answers that are not results of elicitations.
func (a answers) check() error {
	if len(a) > maxAnswers {
		return protocol.Errorf(protocol.CodeInvalidParams,
			"inputResponses: %d answers, at most %d are read", len(a), maxAnswers)
	}
	for _, raw := range a {
		err := jsonx.Check(raw)
		if err == nil {
			_, err = protocol.DecodeElicitResult(raw)
		}
		if err != nil {
			// The text of the error may quote the answer.
			return protocol.Errorf(protocol.CodeInvalidParams,
				"inputResponses: an answer is not the result of an elicitation")
		}
	}
	return nil
}

// digest returns the same for requests with the same answers.
func (a answers) digest() [sha256.Size]byte {
	names := make([]string, 0, len(a))
	for key := range a {
		names = append(names, key)
	}
	slices.Sort(names)
	var plain []byte
	for _, key := range names {
		plain = appendText(plain, key)
		value, err := jsonx.AppendCanonicalSpelled(nil, a[key])
		if err != nil { // it was checked
			value = a[key]
		}
		plain = appendText(plain, string(value))
	}
	return sha256.Sum256(plain)
}

// A state is what a requestState says, sealed.
type state struct {
	owner   string // the replica that has the call, "": there is one
	call    string // its id
	round   int    // the round whose questions came with the state
	binding binding
	expires time.Time
}

const (
	// stateFormat begins each state. It changes with the format.
	stateFormat = 1
	// maxStateLength is the length of the longest state that is opened. The plaintext has some
	// 120 bytes; what remains is room for the name of the key.
	maxStateLength = 1024
)

// seal returns the requestState of s.
func (b *Bridge) seal(s state) (string, error) {
	return b.opts.Keys.Seal(b.ctx, s.encode())
}

// encode returns the plaintext of a state.
func (s state) encode() []byte {
	plain := []byte{stateFormat}
	plain = appendText(plain, s.owner)
	plain = appendText(plain, s.call)
	plain = binary.AppendUvarint(plain, uint64(s.round))
	plain = binary.AppendVarint(plain, s.expires.UnixMilli())
	return append(plain, s.binding[:]...)
}

var errState = errors.New("elicitation bridge: not a state of this bridge")

// openState returns what a requestState says.
func (b *Bridge) openState(ctx context.Context, text string) (state, error) {
	if len(text) > maxStateLength {
		return state{}, errState
	}
	plain, err := b.opts.Keys.Open(ctx, text)
	if err != nil {
		return state{}, err
	}
	return decodeState(plain)
}

// decodeState reads the plaintext of a state.
func decodeState(plain []byte) (s state, err error) {
	r := stateReader{rest: plain}
	if format := r.take(1); len(format) != 1 || format[0] != stateFormat {
		return state{}, errState
	}
	s.owner = string(r.take(r.readLength()))
	s.call = string(r.take(r.readLength()))
	s.round = r.readNumber(math.MaxInt32)
	expires, n := binary.Varint(r.rest)
	if n <= 0 || r.failed {
		return state{}, errState
	}
	s.expires = time.UnixMilli(expires)
	if copy(s.binding[:], r.rest[n:]) != len(s.binding) || len(r.rest[n:]) != len(s.binding) {
		return state{}, errState
	}
	return s, nil
}

// A stateReader reads the parts of a state.
type stateReader struct {
	rest   []byte
	failed bool
}

// readLength reads a number that is at most maxStateLength.
func (r *stateReader) readLength() int { return r.readNumber(maxStateLength) }

// readNumber reads a number that is at most limit.
func (r *stateReader) readNumber(limit uint64) int {
	value, n := binary.Uvarint(r.rest)
	if n <= 0 || value > limit {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return int(value)
}

// take returns the next n bytes, nil if there are less.
func (r *stateReader) take(n int) []byte {
	if r.failed || n > len(r.rest) {
		r.failed = true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// newID returns 128 random bits in hexadecimal.
func newID() string {
	var random [16]byte
	rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}
