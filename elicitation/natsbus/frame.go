package natsbus

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/elicitation"
)

// Frames are what replicas send each other. Everything that arrives is checked:
// NATS authenticates the account of the sender and nothing else.
//
//	request    format, 1; part and parts, 2 bytes each; revision of the claim,
//	           8 bytes; length of the key, 1 byte; key; bytes of the message.
//	           All parts have the same revision and key.
//	response   format, 1; status; part and parts, 2 bytes each; bytes of the
//	           answer
//
// A message that is longer than the server accepts is sent in parts, in order, on
// one subject with one reply subject.
const (
	frameFormat = 1
	// maxParts is into how many parts a message is divided at most.
	maxParts = 1024
	// frameRoom is more than a frame and its subjects take beside the bytes of
	// the message.
	frameRoom = 512
	// leastChunk is the length of the shortest part but the last: maxParts of
	// them make the longest message.
	leastChunk = elicitation.MaxBusMessage / maxParts
)

// noClaim is the revision in a request for the replica that its sender has named, whoever
// has claimed the key.
const noClaim = 0

type status byte

const (
	statusDone    status = 1 // handled, the answer follows
	statusMoved   status = 2 // not handled: the claim has changed since it was read
	statusBusy    status = 3 // not handled: too many requests at a time
	statusRefused status = 4 // not handled: malformed
	statusFailed  status = 5 // handled, but the answer is too long
)

var errFrame = errors.New("malformed frame")

// A span is the place of a part in its message.
type span struct{ part, parts uint16 }

func (s span) isValid() bool { return s.parts >= 1 && s.parts <= maxParts && s.part < s.parts }

// A request carries a message, or a part of one, to the owner of a key.
type request struct {
	span
	revision uint64 // of the claim as the sender has read it, or noClaim
	key      string
	chunk    []byte
}

func (r *request) appendFrame(b []byte) []byte {
	b = append(b, frameFormat)
	b = binary.BigEndian.AppendUint16(b, r.part)
	b = binary.BigEndian.AppendUint16(b, r.parts)
	b = binary.BigEndian.AppendUint64(b, r.revision)
	b = append(b, byte(len(r.key)))
	b = append(b, r.key...)
	return append(b, r.chunk...)
}

func decodeRequest(b []byte) (request, error) {
	const fixed = 1 + 2 + 2 + 8 + 1
	if len(b) < fixed || b[0] != frameFormat || len(b) < fixed+int(b[fixed-1]) {
		return request{}, errFrame
	}
	end := fixed + int(b[fixed-1])
	r := request{
		span:     span{binary.BigEndian.Uint16(b[1:]), binary.BigEndian.Uint16(b[3:])},
		revision: binary.BigEndian.Uint64(b[5:]),
		key:      string(b[fixed:end]),
		chunk:    b[end:],
	}
	if !r.isValid() {
		return request{}, errFrame
	}
	if err := checkKey(r.key); err != nil {
		return request{}, fmt.Errorf("%w: %w", errFrame, err)
	}
	return r, nil
}

// A response carries the answer of the owner, or a part of it, or says why there
// is none.
type response struct {
	span
	status status
	chunk  []byte
}

func (r *response) appendFrame(b []byte) []byte {
	b = append(b, frameFormat, byte(r.status))
	b = binary.BigEndian.AppendUint16(b, r.part)
	b = binary.BigEndian.AppendUint16(b, r.parts)
	return append(b, r.chunk...)
}

func decodeResponse(b []byte) (response, error) {
	const fixed = 1 + 1 + 2 + 2
	if len(b) < fixed || b[0] != frameFormat {
		return response{}, errFrame
	}
	r := response{
		span:   span{binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint16(b[4:])},
		status: status(b[1]),
		chunk:  b[fixed:],
	}
	known := r.status >= statusDone && r.status <= statusFailed
	bare := r.parts == 1 && len(r.chunk) == 0
	if !r.isValid() || !known || r.status != statusDone && !bare {
		return response{}, errFrame
	}
	return r, nil
}

// splitMessage divides a message into chunks whose frames have at most payload
// bytes. An empty message is one empty chunk.
func splitMessage(message []byte, payload int64) (chunks [][]byte) {
	size := max(int(payload)-frameRoom, leastChunk)
	for len(message) > size {
		chunks = append(chunks, message[:size])
		message = message[size:]
	}
	return append(chunks, message)
}

// An assembly puts the parts of a message together.
type assembly struct {
	parts, next uint16
	data        []byte
}

// addPart adds the next part and reports whether it was the last one. Parts out of
// order are an error: NATS keeps the order of one sender.
func (a *assembly) addPart(s span, chunk []byte) (done bool, err error) {
	if a.next == 0 {
		a.parts = s.parts
	}
	if s.parts != a.parts || s.part != a.next ||
		len(a.data)+len(chunk) > elicitation.MaxBusMessage {
		return false, errFrame
	}
	a.next++
	a.data = append(a.data, chunk...)
	return a.next == a.parts, nil
}
