package serverhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// maxTrusted bytes are allocated on the word of Content-Length; more only as the body arrives.
	maxTrusted = 64 << 10
	pieceBytes = 64 << 10 // of a longer body, or one of unknown length
)

// A piece is a reusable part of an arriving body.
type piece = [pieceBytes]byte

var errTooLarge = errors.New("serverhttp: body is larger than allowed")

// readBody reads the whole body into new memory, because messages and handlers keep it.
func (h *Handler) readBody(rw *responseWriter, r *http.Request) (body []byte, f *fault) {
	if r.ContentLength > h.opts.Limits.BodyBytes {
		return nil, h.bodyTooLarge()
	}
	if r.ContentLength != 0 {
		rw.startBody()
		defer func() { rw.stopBody(f == nil) }()
	}
	body, err := h.readBounded(r)
	if err != nil {
		f = h.bodyFault(err)
	}
	return body, f
}

// readBounded reads a short body into one buffer, and a large body into pieces joined at the end.
func (h *Handler) readBounded(r *http.Request) (body []byte, err error) {
	if n := r.ContentLength; n >= 0 && n <= maxTrusted {
		body, err = readFull(r.Body, make([]byte, 0, n+1)) // the extra byte detects the end
		if err == io.EOF && int64(len(body)) <= h.opts.Limits.BodyBytes {
			return body, nil
		}
	}
	parts := [][]byte{body}
	defer func() {
		for _, p := range parts[1:] {
			h.pieces.Put((*piece)(p[:pieceBytes]))
		}
	}()
	for size := int64(len(body)); ; {
		if size > h.opts.Limits.BodyBytes {
			return nil, errTooLarge
		}
		if err == io.EOF {
			return slices.Concat(parts...), nil
		}
		if err != nil {
			return nil, err
		}
		p, ok := h.pieces.Get().(*piece)
		if !ok {
			p = new(piece)
		}
		body, err = readFull(r.Body, p[:0])
		parts = append(parts, body)
		size += int64(len(body))
	}
}

func readFull(r io.Reader, buf []byte) ([]byte, error) {
	for len(buf) < cap(buf) {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil {
			return buf, err
		}
	}
	return buf, nil
}

func (h *Handler) bodyTooLarge() *fault {
	return &fault{status: http.StatusRequestEntityTooLarge, reason: words.RefusedTooLarge,
		err: protocol.Errorf(protocol.CodeInvalidRequest, "message is larger than %d bytes",
			h.opts.Limits.BodyBytes),
		cause: fmt.Errorf("the body is larger than %d bytes (serverhttp.Options.Limits.BodyBytes)",
			h.opts.Limits.BodyBytes)}
}

func (h *Handler) bodyFault(err error) *fault {
	if err == errTooLarge {
		return h.bodyTooLarge()
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok { // from a wrapping handler
		return &fault{status: http.StatusRequestEntityTooLarge, reason: words.RefusedTooLarge,
			err: protocol.Errorf(protocol.CodeInvalidRequest, "message is too large"),
			cause: errors.New("the body is larger than a wrapping handler allows " +
				"(http.MaxBytesReader)")}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &fault{status: http.StatusRequestTimeout, reason: words.RefusedTooSlow,
			header: "Connection", value: "close",
			err: protocol.Errorf(protocol.CodeInvalidRequest, "message did not arrive in time"),
			cause: errors.New("the body did not arrive in time (serverhttp.Options.ReadTimeout, " +
				"http.Server.ReadTimeout)")}
	}
	return &fault{status: http.StatusBadRequest, reason: words.RefusedMalformed,
		header: "Connection", value: "close",
		err: protocol.Errorf(protocol.CodeParseError, "parse error: message ends early")}
}
