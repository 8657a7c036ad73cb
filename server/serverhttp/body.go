package serverhttp

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// firstRead is what is set aside for a body of unknown length: most
	// messages fit.
	firstRead = 2 << 10
	// maxTrusted is how much is set aside on the word of a Content-Length
	// alone. Beyond it memory is used in proportion to what the client sends,
	// so that announcing large bodies costs nobody but the client.
	maxTrusted = 64 << 10
)

// readBody reads the whole body. The buffer is not reused: messages alias it,
// and handlers may keep what they were given.
func (h *Handler) readBody(x *exchange, r *http.Request) ([]byte, *fault) {
	limit := h.opts.MaxBodyBytes
	if r.ContentLength > limit {
		return nil, h.tooLarge()
	}
	if h.opts.ReadTimeout > 0 && r.ContentLength != 0 && !x.deadline.none {
		x.deadline.read(time.Now().Add(h.opts.ReadTimeout))
		// The same deadline would later look like a client that went away.
		defer x.deadline.read(time.Time{})
	}
	size := int64(firstRead)
	if r.ContentLength >= 0 {
		size = min(r.ContentLength, maxTrusted)
	}
	body := make([]byte, 0, size+1) // one more than the length shows its end
	for {
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if int64(len(body)) > limit {
			return nil, h.tooLarge()
		}
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return nil, h.unreadable(err)
		}
		if len(body) == cap(body) {
			most := limit + 1
			if announced := r.ContentLength + 1; announced > int64(cap(body)) {
				most = min(most, announced)
			}
			body = grow(body, most)
		}
	}
}

// grow returns a full buffer with four times its capacity, or with most, where
// that is not much more.
func grow(body []byte, most int64) []byte {
	size := 4 * int64(cap(body))
	if 2*size > most {
		size = most
	}
	grown := make([]byte, len(body), size)
	copy(grown, body)
	return grown
}

func (h *Handler) tooLarge() *fault {
	return &fault{status: http.StatusRequestEntityTooLarge,
		err: protocol.Errorf(protocol.CodeInvalidRequest, "message is larger than %d bytes", h.opts.MaxBodyBytes)}
}

// unreadable is the answer to a body that did not arrive.
func (h *Handler) unreadable(err error) *fault {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok { // of a wrapping handler
		return &fault{status: http.StatusRequestEntityTooLarge,
			err: protocol.Errorf(protocol.CodeInvalidRequest, "message is too large")}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &fault{status: http.StatusRequestTimeout, header: "Connection", value: "close",
			err: protocol.Errorf(protocol.CodeInvalidRequest, "message did not arrive in time")}
	}
	return &fault{status: http.StatusBadRequest, header: "Connection", value: "close",
		err: protocol.Errorf(protocol.CodeParseError, "parse error: message ends early")}
}
