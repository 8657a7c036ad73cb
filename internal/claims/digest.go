package claims

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// canonicalBuffers holds buffers for canonical forms. One grows to the largest
// arguments seen, so those over maxCanonicalBuffer are not kept.
var canonicalBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxCanonicalBuffer = 64 << 10

// DigestArguments returns the SHA-256 of the canonical form of a request's
// arguments: members sorted, strings without needless escapes, numbers as they
// are spelled, absent as {}. A state sealed for one set of arguments opens for
// no other. Numbers keep their spelling because a handler may read it: to one
// that decodes into an integer, or prints what it got, 1 and 1.0 are two things.
func DigestArguments(arguments json.RawMessage) ([32]byte, error) {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	buf := canonicalBuffers.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= maxCanonicalBuffer {
			canonicalBuffers.Put(buf)
		}
	}()
	canonical, err := jsonx.AppendCanonicalSpelled((*buf)[:0], arguments)
	if err != nil {
		return [32]byte{}, fmt.Errorf("arguments: %w", err)
	}
	*buf = canonical
	return sha256.Sum256(canonical), nil
}

// DigestQuestion returns what stands for a question in events.
func DigestQuestion(kind protocol.InputKind, key string, form [32]byte,
	m Mark) (d [16]byte) {
	var few [192]byte
	text := append(few[:0], "rondo question 1\x00"...)
	text = append(append(append(text, kind...), 0), key...)
	text = append(append(append(text, 0), form[:]...), m.PromptDigest[:]...)
	sum := sha256.Sum256(text)
	copy(d[:], sum[:])
	return d
}

// Fingerprint identifies a set of answers, whatever their order.
func Fingerprint(responses protocol.InputResponses) [32]byte {
	// Each answer is hashed alone and the hashes are combined by addition
	// modulo 2^256, byte-wise with carry, so that order does not matter but
	// every answer does.
	var sum [32]byte
	for _, r := range responses {
		h := sha256.New()
		fmt.Fprintf(h, "%d:", len(r.Key))
		h.Write([]byte(r.Key))
		canonical, err := jsonx.AppendCanonical(nil, r.Result)
		if err != nil {
			canonical = r.Result
		}
		h.Write(canonical)
		var one [32]byte
		carry := uint16(0)
		for i, b := range h.Sum(one[:0]) {
			carry += uint16(sum[i]) + uint16(b)
			sum[i] = byte(carry)
			carry >>= 8
		}
	}
	return sum
}
