// Package claims encodes and decodes the content of a sealed state, as bytes in layout 4. One value
// has exactly one encoding; all others are refused. Package roundtrip seals states and checks them
// against requests. The layout is documented in internal/design/state.md.
package claims

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// Claims are a sealed state's content: caller, request, expiry, questions, answers, author's data.
type Claims struct {
	Principal protocol.Principal
	Method    string
	Target    string
	Audience  string
	Arguments [32]byte

	Flow          [16]byte
	Round         int // the round that asked
	RoundsIgnored int // consecutive rounds whose answers were all dropped
	VisitRounds   int // rounds that only repeated an agreed visit: uncapped
	Issued        time.Time
	Expires       time.Time // of this round, never after Deadline
	Deadline      time.Time // of the flow, the same in all rounds
	VisitSince    time.Time // when the user agreed to this round's visit; may be zero

	Span Span // of the asking round's trace; may be zero

	App      string // the sealing application's version
	OtherApp string // another version that sealed earlier rounds, or empty

	Asked   []Question
	Answers []Answer
	State   json.RawMessage

	// The rest is for flow style, in which the handler is straight-line code; empty in guard style.
	Version string
	Memos   []Memo
}

type Question struct {
	Key    string
	Kind   protocol.InputKind
	Digest [32]byte        // of the form, zero for other kinds
	Schema json.RawMessage // of an ElicitSchema, else nil
	Mark   Mark            // of its wording, and consecutive invalid answers
}

// An Answer was given before the state was sealed.
type Answer struct {
	Key         string
	Kind        protocol.InputKind
	Outcome     Outcome
	Digest      [32]byte        // of the form
	Schema      json.RawMessage // of an ElicitSchema
	Content     json.RawMessage // accepted content or result; an unseen refusal's action
	Round       int             // in which the answer came
	Unsolicited bool
	Checked     bool // validated content, or a refusal that was read
	Mark        Mark // in flow style
}

// An Outcome is numbered like roundtrip.Outcome.
type Outcome byte

// States carry no missing or invalid answers.
const (
	Accepted Outcome = 1 + iota
	Declined
	Cancelled
	_ // roundtrip.Invalid
	Unseen
)

// A Span identifies a trace span, roundtrip.SpanRef. Either both parts are zero or neither is.
type Span struct {
	Trace [16]byte
	Span  [8]byte
}

func (s Span) isPartial() bool { return s.Trace == [16]byte{} || s.Span == [8]byte{} }

// A Memo is a value kept by a flow-style handler.
type Memo struct {
	Key   string
	Value json.RawMessage
}

// A Mark is the journal's record of a question besides key, kind, form and answer.
type Mark struct {
	Set          bool     // asked in flow style
	Again        bool     // asked again because it had changed
	Unread       bool     // guard style only: the last answer was valid but not read
	Invalid      int      // consecutive invalid answers, in guard style too
	PromptDigest [16]byte // of the text for the person or model
}

// MaxInvalidAnswers ends a flow that reaches it in Mark.Invalid.
const MaxInvalidAnswers = 3

// layout is the first byte of claims. A change of the encoding, or of what the arguments' digest
// covers, uses the next number and reads the previous release's too. 1 to 3 were never released.
const layout = 4

// EncodedSize is an upper estimate for AppendTo, so that the buffer need not grow.
func (c *Claims) EncodedSize() int {
	const (
		fixed     = 169 // digest, flow, times, span, and length prefixes
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

// AppendTo writes the claims. Strings are length-prefixed, so that no two claims share an encoding.
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

// Values of the lower half of a mark's first byte; the upper half counts invalid answers in a row.
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
