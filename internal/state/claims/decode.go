package claims

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// Errors of [Decode].
var (
	ErrMalformed = errors.New("request state: malformed claims")
	ErrLayout    = errors.New("request state: claims in a layout that this release does not read")
)

// Decode decodes the result of [Claims.AppendTo]. The bytes are authenticated but not trusted: any
// Sealer may have passed them on. Text that equals the text in like, the usual case, is shared, not
// copied. The result refers to data.
func Decode(data []byte, like *Claims) (*Claims, error) {
	r := &reader{data: data}
	if first := r.readByte(); r.bad {
		return nil, ErrMalformed
	} else if first != layout {
		return nil, fmt.Errorf("%w: %d, want %d", ErrLayout, first, layout)
	}
	c := &Claims{}
	code := r.readByte()
	if code == quota.LocalOwnerKind {
		c.Principal = protocol.LocalPrincipal()
	}
	c.Principal.Issuer = r.readExpected(like.Principal.Issuer)
	c.Principal.Subject = r.readExpected(like.Principal.Subject)
	if quota.OwnerKind(c.Principal) != code {
		return nil, ErrMalformed
	}
	c.Method, c.Target, c.Audience = r.readExpected(like.Method), r.readExpected(like.Target),
		r.readExpected(like.Audience)
	copy(c.Arguments[:], r.readBytes(len(c.Arguments)))
	copy(c.Flow[:], r.readBytes(len(c.Flow)))
	c.Round, c.RoundsIgnored = r.readCount(1<<16), r.readCount(1<<16)
	c.VisitRounds = r.readCount(1 << 16)
	c.Issued, c.Expires, c.Deadline = r.readTime(), r.readTime(), r.readTime()
	if since := r.readTime(); since.UnixMilli() != 0 {
		c.VisitSince = since
	}
	c.Span = r.readSpan()
	c.App, c.OtherApp = r.readExpected(like.App), r.readString()
	c.Asked = readList(r, (*reader).readAsked)
	c.Answers = readList(r, (*reader).readAnswer)
	switch r.readByte() {
	case 0:
	case 1:
		c.State = r.readField()
	default:
		r.bad = true
	}
	c.Version = r.readString()
	c.Memos = readList(r, func(r *reader) Memo { return Memo{r.readString(), r.readField()} })
	if r.bad || len(r.data) != 0 {
		return nil, ErrMalformed
	}
	return c, nil
}

// A reader consumes fields of data. After a failure everything reads as zero and bad stays set.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) readBytes(n int) []byte {
	if r.bad || n < 0 || n > len(r.data) {
		r.bad = true
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) readByte() byte {
	if b := r.readBytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) readCount(limit int) int {
	n, size := binary.Uvarint(r.data)
	if size <= 0 || n > uint64(limit) || r.isPadded(size) {
		r.bad = true
		return 0
	}
	r.readBytes(size)
	return int(n)
}

// isPadded reports whether a number has a shorter encoding, and so is not canonical.
func (r *reader) isPadded(size int) bool { return size > 1 && r.data[size-1] == 0 }

func (r *reader) readTime() time.Time {
	n, size := binary.Varint(r.data)
	if size <= 0 || r.isPadded(size) {
		r.bad = true
		return time.Time{}
	}
	r.readBytes(size)
	return time.UnixMilli(n)
}

func (r *reader) readSpan() (s Span) {
	switch r.readByte() {
	case 0:
		return s
	case 1:
		copy(s.Trace[:], r.readBytes(len(s.Trace)))
		copy(s.Span[:], r.readBytes(len(s.Span)))
		r.bad = r.bad || s.isPartial()
	default:
		r.bad = true
	}
	return s
}

func (r *reader) readField() json.RawMessage { return r.readBytes(r.readCount(len(r.data))) }
func (r *reader) readString() string         { return string(r.readField()) }

// readExpected reads a string that is probably s, without a copy if it is.
func (r *reader) readExpected(s string) string {
	if b := r.readField(); string(b) != s {
		return string(b)
	}
	return s
}

func (r *reader) readOptional() json.RawMessage {
	if b := r.readField(); len(b) > 0 {
		return b
	}
	return nil
}

func (r *reader) readKind() protocol.InputKind {
	code := r.readByte()
	if code == 0 || int(code) >= len(kindCodes) {
		r.bad = true
		return ""
	}
	return kindCodes[code]
}

func readList[T any](r *reader, read func(*reader) T) (list []T) {
	n := r.readCount(len(r.data))
	if n > 0 {
		list = make([]T, 0, min(n, 64))
	}
	for ; n > 0 && !r.bad; n-- {
		list = append(list, read(r))
	}
	return list
}

func (r *reader) readAsked() Question {
	q := Question{Key: r.readString(), Kind: r.readKind()}
	if q.Kind == protocol.KindElicitForm {
		copy(q.Digest[:], r.readBytes(len(q.Digest)))
		q.Schema = r.readOptional()
	}
	q.Mark = r.readMark()
	return q
}

func (r *reader) readAnswer() Answer {
	a := Answer{Key: r.readString(), Kind: r.readKind(), Outcome: Outcome(r.readByte())}
	flags := r.readByte()
	if flags > flagUnsolicited|flagChecked {
		r.bad = true
	}
	a.Unsolicited, a.Checked = flags&flagUnsolicited != 0, flags&flagChecked != 0
	a.Round = r.readCount(1 << 16)
	if a.Kind == protocol.KindElicitForm {
		copy(a.Digest[:], r.readBytes(len(a.Digest)))
		a.Schema = r.readOptional()
	}
	a.Content = r.readOptional()
	if a.Mark = r.readMark(); a.Mark.Invalid > 0 { // only for asked questions
		r.bad = true
	}
	if a.Outcome != Unseen && (a.Outcome < Accepted || a.Outcome > Cancelled) {
		r.bad = true
	}
	return a
}

func (r *reader) readMark() (m Mark) {
	first := r.readByte()
	if m.Invalid = int(first >> markInvalidShift); m.Invalid > MaxInvalidAnswers {
		r.bad = true
	}
	switch first & (1<<markInvalidShift - 1) {
	case markNone:
		return m
	case markUnread:
		m.Unread = true
		return m
	case markOnce:
	case markAgain:
		m.Again = true
	default:
		r.bad = true
	}
	m.Set = true
	copy(m.PromptDigest[:], r.readBytes(len(m.PromptDigest)))
	return m
}
