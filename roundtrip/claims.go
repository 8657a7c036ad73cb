package roundtrip

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/owner"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// claims is what a sealed state says: for whom and for which request it is, until when it is
// valid, what was asked and answered, and the author's own data. Its layout is written down in
// internal/design/0011-claims-layout.md.
type claims struct {
	principal protocol.Principal
	method    string
	target    string
	audience  string
	arguments [32]byte

	flow          [16]byte
	round         int // the round that asked
	roundsIgnored int // rounds in a row whose answers were all dropped
	issued        time.Time
	expires       time.Time // of this round, never after deadline
	deadline      time.Time // of the flow, the same in all rounds

	asked   []carriedQuestion
	answers []*answer
	state   json.RawMessage

	// Of flow style, in which the handler is straight-line code; empty in guard
	// style, which has nothing to do with a [store.Guard].
	version string
	memos   []memo

	encoded []byte // the plaintext that they were decoded from; nil for those being written
}

// A carriedQuestion is what a state says of a question that was asked with it.
type carriedQuestion struct {
	key    string
	kind   protocol.InputKind
	digest [32]byte        // of the form, zero for other kinds
	schema json.RawMessage // of a RawForm, else nil
	mark   journalMark     // of its wording, and invalid answers in a row
}

// claimsLayout is the first byte of claims. A release that changes what the
// bytes say, or what the digest of the arguments is taken over, writes the next
// number and still reads the number of the release before. Numbers 1 and 2 were
// in no release, so nothing reads them.
const claimsLayout = 3

// encodedSize is an upper estimate of what appendTo writes, so that the buffer need not grow.
func (c *claims) encodedSize() int {
	const (
		fixed     = 128 // digest, flow, times, and the lengths of what follows
		perAsked  = 80  // digest and mark
		perAnswer = 96
		perMemo   = 16
	)
	n := fixed + len(c.principal.Issuer) + len(c.principal.Subject) + len(c.method) + len(c.target) + len(c.audience) + len(c.state)
	for i := range c.asked {
		n += perAsked + len(c.asked[i].key) + len(c.asked[i].schema)
	}
	for _, a := range c.answers {
		n += perAnswer + len(a.key) + len(a.schema) + len(a.content)
	}
	for _, m := range c.memos {
		n += perMemo + len(m.key) + len(m.value)
	}
	return n + len(c.version)
}

// The kinds of question, as one byte each.
var kindCodes = [...]protocol.InputKind{
	1: protocol.KindElicitForm,
	2: protocol.KindElicitURL,
	3: protocol.KindCreateMessage,
	4: protocol.KindListRoots,
}

func kindCode(kind protocol.InputKind) byte {
	for code, k := range kindCodes {
		if k == kind && code > 0 {
			return byte(code)
		}
	}
	return 0
}

// appendTo writes the claims. Every string is length-prefixed, so that no two
// different claims have the same encoding.
func (c *claims) appendTo(dst []byte) []byte {
	dst = append(dst, claimsLayout, owner.Kind(c.principal))
	dst = appendField(dst, c.principal.Issuer)
	dst = appendField(dst, c.principal.Subject)
	dst = appendField(dst, c.method)
	dst = appendField(dst, c.target)
	dst = appendField(dst, c.audience)
	dst = append(dst, c.arguments[:]...)
	dst = append(dst, c.flow[:]...)
	dst = binary.AppendUvarint(dst, uint64(c.round))
	dst = binary.AppendUvarint(dst, uint64(c.roundsIgnored))
	dst = binary.AppendVarint(dst, c.issued.UnixMilli())
	dst = binary.AppendVarint(dst, c.expires.UnixMilli())
	dst = binary.AppendVarint(dst, c.deadline.UnixMilli())
	dst = binary.AppendUvarint(dst, uint64(len(c.asked)))
	for _, q := range c.asked {
		dst = appendField(dst, q.key)
		dst = append(dst, kindCode(q.kind))
		if q.kind == protocol.KindElicitForm {
			dst = append(dst, q.digest[:]...)
			dst = appendField(dst, q.schema)
		}
		dst = appendMark(dst, q.mark)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.answers)))
	for _, a := range c.answers {
		dst = appendAnswer(dst, a)
	}
	if c.state == nil {
		dst = append(dst, 0)
	} else {
		dst = append(dst, 1)
		dst = appendField(dst, c.state)
	}
	dst = appendField(dst, c.version)
	dst = binary.AppendUvarint(dst, uint64(len(c.memos)))
	for _, m := range c.memos {
		dst = appendField(dst, m.key)
		dst = appendField(dst, m.value)
	}
	return dst
}

// The first byte of a mark: one of these, and in its upper half how many
// answers in a row were invalid.
const (
	markNone = iota
	markOnce
	markAgain

	markInvalidShift = 4
)

func appendMark(dst []byte, m journalMark) []byte {
	first := byte(min(m.invalid, MaxInvalidAnswers)) << markInvalidShift
	switch {
	case !m.set:
		return append(dst, first)
	case m.again:
		first |= markAgain
	default:
		first |= markOnce
	}
	return append(append(dst, first), m.promptDigest[:]...)
}

// The flags of an answer.
const (
	flagUnsolicited = 1 << iota
	flagChecked
)

func appendAnswer(dst []byte, a *answer) []byte {
	dst = appendField(dst, a.key)
	var flags byte
	if a.unsolicited {
		flags |= flagUnsolicited
	}
	if a.checked {
		flags |= flagChecked
	}
	dst = append(dst, kindCode(a.kind), byte(a.outcome), flags)
	dst = binary.AppendUvarint(dst, uint64(a.round))
	if a.kind == protocol.KindElicitForm {
		dst = append(dst, a.digest[:]...)
		dst = appendField(dst, a.schema)
	}
	return appendMark(appendField(dst, a.content), a.mark)
}

func appendField[T string | json.RawMessage](dst []byte, value T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

var (
	errClaims       = errors.New("request state: malformed claims")
	errClaimsLayout = errors.New("request state: claims in a layout that this release does not read")
)

// decodeClaims reads what appendTo wrote. It is given authenticated bytes, but a
// Sealer may be anybody's, so it trusts nothing. Text that is the same in like,
// which is the usual case, is taken from there instead of being copied.
func decodeClaims(data []byte, like *claims) (*claims, error) {
	r := &claimsReader{data: data}
	if layout := r.readByte(); r.bad {
		return nil, errClaims
	} else if layout != claimsLayout {
		return nil, fmt.Errorf("%w: %d, want %d", errClaimsLayout, layout, claimsLayout)
	}
	c := &claims{}
	code := r.readByte()
	if code == owner.LocalKind {
		c.principal = protocol.LocalPrincipal()
	}
	c.principal.Issuer = r.readExpected(like.principal.Issuer)
	c.principal.Subject = r.readExpected(like.principal.Subject)
	if owner.Kind(c.principal) != code {
		return nil, errClaims
	}
	c.method, c.target, c.audience = r.readExpected(like.method), r.readExpected(like.target),
		r.readExpected(like.audience)
	copy(c.arguments[:], r.readBytes(len(c.arguments)))
	copy(c.flow[:], r.readBytes(len(c.flow)))
	c.round, c.roundsIgnored = r.readCount(1<<16), r.readCount(1<<16)
	c.issued, c.expires, c.deadline = r.readTime(), r.readTime(), r.readTime()
	if n := r.readCount(len(data)); n > 0 {
		c.asked = make([]carriedQuestion, 0, min(n, 64))
		for range n {
			if r.bad {
				break
			}
			c.asked = append(c.asked, r.readAsked())
		}
	}
	if n := r.readCount(len(data)); n > 0 {
		c.answers = make([]*answer, 0, min(n, 64))
		for range n {
			if r.bad {
				break
			}
			c.answers = append(c.answers, r.readAnswer())
		}
	}
	switch r.readByte() {
	case 0:
	case 1:
		c.state = r.readField()
	default:
		r.bad = true
	}
	c.version = r.readString()
	for range r.readCount(len(data)) {
		if r.bad {
			break
		}
		c.memos = append(c.memos, memo{r.readString(), r.readField()})
	}
	if r.bad || len(r.data) != 0 {
		return nil, errClaims
	}
	return c, nil
}

// claimsReader takes fields off the front of data. After a failure everything
// reads as zero and bad stays set.
type claimsReader struct {
	data []byte
	bad  bool
}

func (r *claimsReader) readBytes(n int) []byte {
	if r.bad || n < 0 || n > len(r.data) {
		r.bad = true
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}

func (r *claimsReader) readByte() byte {
	if b := r.readBytes(1); b != nil {
		return b[0]
	}
	return 0
}

// readCount reads a number of at most limit.
func (r *claimsReader) readCount(limit int) int {
	n, size := binary.Uvarint(r.data)
	if size <= 0 || n > uint64(limit) || r.isPadded(size) {
		r.bad = true
		return 0
	}
	r.readBytes(size)
	return int(n)
}

// isPadded reports whether the number in the first size bytes has a shorter encoding. One
// value has one encoding.
func (r *claimsReader) isPadded(size int) bool { return size > 1 && r.data[size-1] == 0 }

func (r *claimsReader) readTime() time.Time {
	n, size := binary.Varint(r.data)
	if size <= 0 || r.isPadded(size) {
		r.bad = true
		return time.Time{}
	}
	r.readBytes(size)
	return time.UnixMilli(n)
}

func (r *claimsReader) readField() json.RawMessage { return r.readBytes(r.readCount(len(r.data))) }
func (r *claimsReader) readString() string         { return string(r.readField()) }

// readExpected reads a string that is likely to be s, without a copy if it is.
func (r *claimsReader) readExpected(s string) string {
	if b := r.readField(); string(b) != s {
		return string(b)
	}
	return s
}

// readOptional reads a field that is absent if it is empty.
func (r *claimsReader) readOptional() json.RawMessage {
	if b := r.readField(); len(b) > 0 {
		return b
	}
	return nil
}

func (r *claimsReader) readKind() protocol.InputKind {
	code := r.readByte()
	if code == 0 || int(code) >= len(kindCodes) {
		r.bad = true
		return ""
	}
	return kindCodes[code]
}

func (r *claimsReader) readAsked() carriedQuestion {
	q := carriedQuestion{key: r.readString(), kind: r.readKind()}
	if q.kind == protocol.KindElicitForm {
		copy(q.digest[:], r.readBytes(len(q.digest)))
		q.schema = r.readOptional()
	}
	q.mark = r.readMark()
	return q
}

func (r *claimsReader) readAnswer() *answer {
	a := &answer{key: r.readString(), kind: r.readKind(), outcome: Outcome(r.readByte())}
	flags := r.readByte()
	if flags > flagUnsolicited|flagChecked {
		r.bad = true
	}
	a.unsolicited, a.checked = flags&flagUnsolicited != 0, flags&flagChecked != 0
	a.round = r.readCount(1 << 16)
	if a.kind == protocol.KindElicitForm {
		copy(a.digest[:], r.readBytes(len(a.digest)))
		a.schema = r.readOptional()
	}
	a.content = r.readOptional()
	if a.mark = r.readMark(); a.mark.invalid > 0 { // only of what is asked
		r.bad = true
	}
	if a.outcome <= Missing || a.outcome >= Invalid {
		r.bad = true
	}
	return a
}

func (r *claimsReader) readMark() (m journalMark) {
	first := r.readByte()
	if m.invalid = int(first >> markInvalidShift); m.invalid > MaxInvalidAnswers {
		r.bad = true
	}
	switch first & (1<<markInvalidShift - 1) {
	case markNone:
		return m
	case markOnce:
	case markAgain:
		m.again = true
	default:
		r.bad = true
	}
	m.set = true
	copy(m.promptDigest[:], r.readBytes(len(m.promptDigest)))
	return m
}

// canonicalBuffers holds buffers for canonical forms. One grows to the largest
// arguments seen, so those over maxCanonicalBuffer are not kept.
var canonicalBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxCanonicalBuffer = 64 << 10

// digestArguments returns the SHA-256 of the canonical form of a request's
// arguments: members sorted, strings without needless escapes, numbers as they
// are spelled, absent as {}. A state sealed for one set of arguments opens for
// no other. Numbers keep their spelling because a handler may read it: to one
// that decodes into an integer, or prints what it got, 1 and 1.0 are two things.
func digestArguments(arguments json.RawMessage) ([32]byte, error) {
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

// digestQuestion returns what stands for a question in events.
func digestQuestion(kind protocol.InputKind, key string, form [32]byte,
	m journalMark) (d event.QuestionDigest) {
	var few [192]byte
	text := append(few[:0], "rondo question 1\x00"...)
	text = append(append(append(text, kind...), 0), key...)
	text = append(append(append(text, 0), form[:]...), m.promptDigest[:]...)
	sum := sha256.Sum256(text)
	copy(d[:], sum[:])
	return d
}

// fingerprint identifies a set of answers, whatever their order.
func fingerprint(responses protocol.InputResponses) [32]byte {
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
