package claims

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// canonicalBuffers grow to the largest arguments; buffers over maxCanonicalBuffer are not kept.
var canonicalBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxCanonicalBuffer = 64 << 10

func putCanonicalBuffer(buf *[]byte) {
	if cap(*buf) <= maxCanonicalBuffer {
		canonicalBuffers.Put(buf)
	}
}

// DigestArguments returns the SHA-256 of a request's canonical arguments: sorted members, minimally
// escaped strings, numbers as spelled, absent as {}. A state sealed for one set of arguments opens
// for no other. Number spelling counts because a handler may see it, when it decodes into an
// integer or prints: 1 is not 1.0.
func DigestArguments(arguments json.RawMessage) ([32]byte, error) {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	buf := canonicalBuffers.Get().(*[]byte)
	defer putCanonicalBuffer(buf)
	canonical, err := jsonx.AppendCanonicalSpelled((*buf)[:0], arguments)
	if err != nil {
		return [32]byte{}, fmt.Errorf("arguments: %w", err)
	}
	*buf = canonical
	return sha256.Sum256(canonical), nil
}

// DigestQuestion returns a question's digest for events.
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

// Fingerprint identifies a set of answers in any order.
func Fingerprint(responses protocol.InputResponses) [32]byte {
	// Answers' hashes are added modulo 2^256, byte-wise with carry, in any order.
	var sum [32]byte
	buf := canonicalBuffers.Get().(*[]byte)
	defer putCanonicalBuffer(buf)
	for _, r := range responses {
		*buf = appendFingerprinted((*buf)[:0], r)
		carry := uint16(0)
		for i, b := range sha256.Sum256(*buf) {
			carry += uint16(sum[i]) + uint16(b)
			sum[i] = byte(carry)
			carry >>= 8
		}
	}
	return sum
}

func appendFingerprinted(dst []byte, r protocol.KeyedResponse) []byte {
	dst = append(strconv.AppendInt(dst, int64(len(r.Key)), 10), ':')
	dst = append(dst, r.Key...)
	canonical, err := jsonx.AppendCanonical(dst, r.Result)
	if err != nil {
		return append(dst, r.Result...)
	}
	return canonical
}
