// Package claims encodes what a sealed state says, as bytes in layout 4, and reads it again. One
// value has one encoding, and nothing else is read. What a state is sealed with, and whether what
// it says holds for a request, is up to package roundtrip. The layout is written down in
// internal/design/state.md.
package claims

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// Claims are what a sealed state says: for whom and for which request it is, until when it is
// valid, what was asked and answered, and the author's own data.
type Claims struct {
	Principal protocol.Principal
	Method    string
	Target    string
	Audience  string
	Arguments [32]byte

	Flow          [16]byte
	Round         int // the round that asked
	RoundsIgnored int // rounds in a row whose answers were all dropped
	VisitRounds   int // rounds that only showed an agreed visit again: they have no cap
	Issued        time.Time
	Expires       time.Time // of this round, never after deadline
	Deadline      time.Time // of the flow, the same in all rounds
	VisitSince    time.Time // when the person agreed to the visit of this round; zero: none

	Span Span // of the trace in which the round asked; zero: none

	App      string // the version of the application that sealed
	OtherApp string // another one that sealed earlier rounds, empty for none

	Asked   []Question
	Answers []Answer
	State   json.RawMessage

	// Of flow style, in which the handler is straight-line code; empty in guard style.
	Version string
	Memos   []Memo
}

// A Question is what a state says of a question that was asked with it.
type Question struct {
	Key    string
	Kind   protocol.InputKind
	Digest [32]byte        // of the form, zero for other kinds
	Schema json.RawMessage // of a ElicitSchema, else nil
	Mark   Mark            // of its wording, and invalid answers in a row
}

// An Answer is what a state says of an answer that was given before it was sealed.
type Answer struct {
	Key         string
	Kind        protocol.InputKind
	Outcome     Outcome
	Digest      [32]byte        // of the form that was asked
	Schema      json.RawMessage // of a ElicitSchema
	Content     json.RawMessage // accepted content or result; of an unseen refusal its action
	Round       int             // with which the answer came
	Unsolicited bool
	Checked     bool // content that passed the form's validation, or a refusal that was read
	Mark        Mark // of flow style
}

// An Outcome is what became of a question, numbered as roundtrip.Outcome is.
type Outcome byte

// The outcomes that an answer can have. No state carries one that is missing or invalid.
const (
	Accepted Outcome = 1 + iota
	Declined
	Cancelled
	_ // roundtrip.Invalid
	Unseen
)

// A Span names a span of a trace, roundtrip.SpanRef. Where it is not zero, neither part is.
type Span struct {
	Trace [16]byte
	Span  [8]byte
}

func (s Span) isPartial() bool { return s.Trace == [16]byte{} || s.Span == [8]byte{} }

// A Memo is a value that a handler of flow style keeps.
type Memo struct {
	Key   string
	Value json.RawMessage
}

// A Mark is what the journal of a flow keeps of a question besides its key, kind, form and answer.
type Mark struct {
	Set          bool     // asked in flow style
	Again        bool     // asked once more because it had changed
	Unread       bool     // guard style alone: the last answer fitted, and nothing has read it
	Invalid      int      // answers in a row that did not fit; in guard style as well
	PromptDigest [16]byte // digest of the text for the person or the model
}

// MaxInvalidAnswers is the largest Mark.Invalid: a flow ends at that many.
const MaxInvalidAnswers = 3

// layout is the first byte of claims. A release that changes what the bytes say, or what the digest
// of the arguments is taken over, writes the next number and still reads the number of the release
// before. Numbers 1 to 3 were in no release, so nothing reads them.
const layout = 4

// EncodedSize is an upper estimate of what AppendTo writes, so that the buffer need not grow.
func (c *Claims) EncodedSize() int {
	const (
		fixed     = 169 // digest, flow, times, span, and the lengths of what follows
		perAsked  = 80  // digest and mark
		perAnswer = 96
		perMemo   = 16
	)
	n := fixed + len(c.Principal.Issuer) + len(c.Principal.Subject) + len(c.Method) +
		len(c.Target) + len(c.Audience) + len(c.State) + len(c.App) + len(c.OtherApp)
	for i := range c.Asked {
		n += perAsked + len(c.Asked[i].Key) + len(c.Asked[i].Schema)
	}
	for i := range c.Answers {
		a := &c.Answers[i]
		n += perAnswer + len(a.Key) + len(a.Schema) + len(a.Content)
	}
	for _, m := range c.Memos {
		n += perMemo + len(m.Key) + len(m.Value)
	}
	return n + len(c.Version)
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

// AppendTo writes the claims. Every string is length-prefixed, so that no two different claims have
// the same encoding.
func (c *Claims) AppendTo(dst []byte) []byte {
	dst = quota.AppendPrincipal(append(dst, layout), c.Principal)
	dst = appendField(dst, c.Method)
	dst = appendField(dst, c.Target)
	dst = appendField(dst, c.Audience)
	dst = append(dst, c.Arguments[:]...)
	dst = append(dst, c.Flow[:]...)
	dst = binary.AppendUvarint(dst, uint64(c.Round))
	dst = binary.AppendUvarint(dst, uint64(c.RoundsIgnored))
	dst = binary.AppendUvarint(dst, uint64(c.VisitRounds))
	dst = binary.AppendVarint(dst, c.Issued.UnixMilli())
	dst = binary.AppendVarint(dst, c.Expires.UnixMilli())
	dst = binary.AppendVarint(dst, c.Deadline.UnixMilli())
	if c.VisitSince.IsZero() {
		dst = append(dst, 0)
	} else {
		dst = binary.AppendVarint(dst, c.VisitSince.UnixMilli())
	}
	if c.Span.isPartial() {
		dst = append(dst, 0)
	} else {
		dst = append(append(append(dst, 1), c.Span.Trace[:]...), c.Span.Span[:]...)
	}
	dst = appendField(appendField(dst, c.App), c.OtherApp)
	dst = binary.AppendUvarint(dst, uint64(len(c.Asked)))
	for i := range c.Asked {
		q := &c.Asked[i]
		dst = appendField(dst, q.Key)
		dst = append(dst, kindCode(q.Kind))
		if q.Kind == protocol.KindElicitForm {
			dst = append(dst, q.Digest[:]...)
			dst = appendField(dst, q.Schema)
		}
		dst = appendMark(dst, q.Mark)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Answers)))
	for i := range c.Answers {
		dst = appendAnswer(dst, &c.Answers[i])
	}
	if c.State == nil {
		dst = append(dst, 0)
	} else {
		dst = append(dst, 1)
		dst = appendField(dst, c.State)
	}
	dst = appendField(dst, c.Version)
	dst = binary.AppendUvarint(dst, uint64(len(c.Memos)))
	for _, m := range c.Memos {
		dst = appendField(dst, m.Key)
		dst = appendField(dst, m.Value)
	}
	return dst
}

// The first byte of a mark: one of these, and in its upper half how many answers in a row were
// invalid.
const (
	markNone = iota
	markOnce
	markAgain
	markUnread

	markInvalidShift = 4
)

func appendMark(dst []byte, m Mark) []byte {
	first := byte(min(m.Invalid, MaxInvalidAnswers)) << markInvalidShift
	switch {
	case !m.Set && m.Unread:
		return append(dst, first|markUnread)
	case !m.Set:
		return append(dst, first)
	case m.Again:
		first |= markAgain
	default:
		first |= markOnce
	}
	return append(append(dst, first), m.PromptDigest[:]...)
}

// The flags of an answer.
const (
	flagUnsolicited = 1 << iota
	flagChecked
)

func appendAnswer(dst []byte, a *Answer) []byte {
	dst = appendField(dst, a.Key)
	var flags byte
	if a.Unsolicited {
		flags |= flagUnsolicited
	}
	if a.Checked {
		flags |= flagChecked
	}
	dst = append(dst, kindCode(a.Kind), byte(a.Outcome), flags)
	dst = binary.AppendUvarint(dst, uint64(a.Round))
	if a.Kind == protocol.KindElicitForm {
		dst = append(dst, a.Digest[:]...)
		dst = appendField(dst, a.Schema)
	}
	return appendMark(appendField(dst, a.Content), a.Mark)
}

func appendField[T string | json.RawMessage](dst []byte, value T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}
