package natsbus

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/elicitation"
)

// What replicas send each other. Everything that arrives is checked: NATS
// vouches for the account of the sender and for nothing else.
//
//	question   format, 1; part and parts, 2 bytes each; revision of the claim,
//	           8 bytes; length of the key, 1 byte; key; bytes of the message
//	answer     format, 1; status; part and parts, 2 bytes each; bytes of the
//	           answer
//
// A message that is longer than the server takes comes in parts, in order, on
// one subject with one reply subject.
const (
	frameFormat = 1
	// maxParts bounds what a long message is cut into.
	maxParts = 1024
	// frameRoom is what a frame and its subjects take, generously.
	frameRoom = 512
	// leastChunk is the shortest part that a message is cut into: maxParts of
	// them make the longest message.
	leastChunk = elicitation.MaxBusMessage / maxParts
)

type status byte

const (
	statusDone    status = 1 // handled, the answer follows
	statusMoved   status = 2 // not handled: the claim is not the one that was read
	statusBusy    status = 3 // not handled: too much to do
	statusRefused status = 4 // not handled: malformed
	statusFailed  status = 5 // handled, but the answer cannot be sent
)

var errFrame = errors.New("malformed frame")

// span is where a part belongs.
type span struct{ part, parts uint16 }

func (s span) valid() bool { return s.parts >= 1 && s.parts <= maxParts && s.part < s.parts }

type question struct {
	span
	revision uint64
	key      string
	chunk    []byte
}

func (q *question) append(b []byte) []byte {
	b = append(b, frameFormat)
	b = binary.BigEndian.AppendUint16(b, q.part)
	b = binary.BigEndian.AppendUint16(b, q.parts)
	b = binary.BigEndian.AppendUint64(b, q.revision)
	b = append(b, byte(len(q.key)))
	b = append(b, q.key...)
	return append(b, q.chunk...)
}

func decodeQuestion(b []byte) (question, error) {
	const fixed = 1 + 2 + 2 + 8 + 1
	if len(b) < fixed || b[0] != frameFormat || len(b) < fixed+int(b[fixed-1]) {
		return question{}, errFrame
	}
	end := fixed + int(b[fixed-1])
	q := question{
		span:     span{binary.BigEndian.Uint16(b[1:]), binary.BigEndian.Uint16(b[3:])},
		revision: binary.BigEndian.Uint64(b[5:]),
		key:      string(b[fixed:end]),
		chunk:    b[end:],
	}
	if !q.valid() {
		return question{}, errFrame
	}
	if err := checkKey(q.key); err != nil {
		return question{}, fmt.Errorf("%w: %w", errFrame, err)
	}
	return q, nil
}

type answer struct {
	span
	status status
	chunk  []byte
}

func (a *answer) append(b []byte) []byte {
	b = append(b, frameFormat, byte(a.status))
	b = binary.BigEndian.AppendUint16(b, a.part)
	b = binary.BigEndian.AppendUint16(b, a.parts)
	return append(b, a.chunk...)
}

func decodeAnswer(b []byte) (answer, error) {
	const fixed = 1 + 1 + 2 + 2
	if len(b) < fixed || b[0] != frameFormat {
		return answer{}, errFrame
	}
	a := answer{span{binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint16(b[4:])}, status(b[1]), b[fixed:]}
	known := a.status >= statusDone && a.status <= statusFailed
	bare := a.parts == 1 && len(a.chunk) == 0
	if !a.valid() || !known || a.status != statusDone && !bare {
		return answer{}, errFrame
	}
	return a, nil
}

// cut divides a message into chunks that go into messages of at most payload
// bytes. An empty message is one empty chunk.
func cut(message []byte, payload int64) (chunks [][]byte) {
	size := max(int(payload)-frameRoom, leastChunk)
	for len(message) > size {
		chunks = append(chunks, message[:size])
		message = message[size:]
	}
	return append(chunks, message)
}

// assembly puts parts together again.
type assembly struct {
	parts, next uint16
	data        []byte
}

// add takes the next part and says whether it was the last one.
func (a *assembly) add(s span, chunk []byte) (done bool, err error) {
	if a.next == 0 {
		a.parts = s.parts
	}
	if s.parts != a.parts || s.part != a.next || len(a.data)+len(chunk) > elicitation.MaxBusMessage {
		return false, errFrame
	}
	a.next++
	a.data = append(a.data, chunk...)
	return a.next == a.parts, nil
}
