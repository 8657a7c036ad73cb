// Package sse reads and writes server-sent events, the stream format of Streamable HTTP (HTML
// standard, "Server-sent events").
//
// The reader accepts the whole standard (LF, CR and CRLF, a byte order mark, comments, several data
// lines, unknown fields), but limits the size of an event and, unlike a browser, reports a stream
// that ends inside an event. The writer produces one spelling.
package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// DefaultMaxEvent is the default size limit of an event: the largest message of HTTP endpoints.
const DefaultMaxEvent = 16 << 20

// ErrTooLarge is wrapped by errors for an event or line above the limit.
var ErrTooLarge = errors.New("event is too large")

const firstBuffer = 4 << 10 // most messages fit

// An Event is one event that has data.
type Event struct {
	// Type is the event field; empty means "message".
	Type string
	// Data holds the data lines, joined by LF. The caller owns it.
	Data []byte
}

// A Reader reads events from a stream. It must not be used concurrently.
type Reader struct {
	src      io.Reader
	max      int
	buf      []byte // buf[start:end] is read but not consumed
	start    int
	end      int
	scanned  int   // bytes after start without a line end
	searched int   // buf[start:searched] has no LF
	err      error // of src
	started  bool  // past the byte order mark, if any
	afterCR  bool  // the last line ended in CR: skip a following LF
	lastID   string
	retry    time.Duration
	hasRetry bool
}

// NewReader returns a reader of events up to maxEvent bytes, or [DefaultMaxEvent] if not positive.
func NewReader(src io.Reader, maxEvent int) *Reader {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	return &Reader{src: src, max: maxEvent}
}

// LastEventID returns the latest id field, including those of events without data.
func (r *Reader) LastEventID() string { return r.lastID }

// Retry returns the latest retry field and whether there was one.
func (r *Reader) Retry() (time.Duration, bool) { return r.retry, r.hasRetry }

// Next returns the next event that has data. At the end of the stream it returns [io.EOF], or
// [io.ErrUnexpectedEOF] with the part of an unfinished event, which the standard drops.
func (r *Reader) Next() (Event, error) {
	var e Event
	var id []byte
	hasData, hasID, size := false, false, 0
	for {
		line, err := r.readLine(r.max - size)
		if err != nil {
			last, isData := bytes.CutPrefix(r.buf[r.start:r.end], []byte("data:"))
			if isData && err == io.ErrUnexpectedEOF {
				e.Data = append(e.Data, last...) // a lost line break was JSON white space
			}
			if err == io.EOF && size > 0 {
				err = io.ErrUnexpectedEOF
			}
			return e, err
		}
		if len(line) == 0 { // dispatch
			if hasID {
				r.lastID = string(id)
			}
			if hasData && len(e.Data) > 0 {
				return e, nil
			}
			e, hasData, hasID, size = Event{}, false, false, 0
			continue
		}
		if line[0] == ':' {
			continue // comments are not part of an event
		}
		size += len(line) + 1
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(name) {
		case "data":
			if hasData {
				e.Data = append(e.Data, '\n')
			}
			hasData = true
			e.Data = append(e.Data, value...)
		case "event":
			e.Type = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				id, hasID = append(id[:0], value...), true
			}
		case "retry":
			r.setRetry(value)
		}
	}
}

// setRetry reads ASCII digits, in milliseconds, and ignores other values.
func (r *Reader) setRetry(value []byte) {
	const most = uint64(math.MaxInt64 / time.Millisecond)
	if ms, err := strconv.ParseUint(string(value), 10, 64); err == nil && ms <= most { // no sign
		r.retry, r.hasRetry = time.Duration(ms)*time.Millisecond, true
	}
}

// readLine returns the next complete line without its end, valid until the next call.
func (r *Reader) readLine(limit int) ([]byte, error) {
	for {
		r.skipMarks()
		if n := r.findLineEnd(); n >= 0 && r.started {
			if n > limit {
				return nil, r.newTooLargeError()
			}
			line := r.buf[r.start : r.start+n]
			r.afterCR = r.buf[r.start+n] == '\r'
			r.start += n + 1
			r.scanned = 0
			return line, nil
		}
		if r.started {
			r.scanned = r.end - r.start
		}
		if r.scanned > limit {
			return nil, r.newTooLargeError()
		}
		if err := r.fillBuffer(); err != nil {
			return nil, err
		}
	}
}

// findLineEnd returns the offset of the first CR or LF after start, or -1. Each byte is searched
// once for LF and once for CR: the position of the next LF is kept from line to line.
func (r *Reader) findLineEnd() int {
	from := r.start + r.scanned
	r.searched = max(r.searched, from)
	if r.searched == r.end || r.buf[r.searched] != '\n' {
		if i := bytes.IndexByte(r.buf[r.searched:r.end], '\n'); i >= 0 {
			r.searched += i
		} else {
			r.searched = r.end
		}
	}
	if i := bytes.IndexByte(r.buf[from:r.searched], '\r'); i >= 0 {
		return r.scanned + i
	}
	if r.searched < r.end {
		return r.searched - r.start
	}
	return -1
}

// skipMarks drops the byte order mark, and the LF of a CRLF that was split between reads.
func (r *Reader) skipMarks() {
	const mark = "\ufeff"
	have := r.buf[r.start:r.end]
	if !r.started && (len(have) >= len(mark) || !bytes.HasPrefix([]byte(mark), have) ||
		r.err != nil) {
		r.started = true
		if bytes.HasPrefix(have, []byte(mark)) {
			r.start += len(mark)
		}
	}
	if r.afterCR && r.start < r.end {
		r.afterCR = false
		if r.buf[r.start] == '\n' {
			r.start++
		}
	}
}

// fillBuffer reads more. It returns the source's error once the buffer is consumed.
func (r *Reader) fillBuffer() error {
	if r.err != nil {
		if r.err == io.EOF && r.start < r.end {
			return io.ErrUnexpectedEOF
		}
		return r.err
	}
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.searched = max(r.searched-r.start, 0)
		r.start = 0
	}
	if r.end == len(r.buf) {
		grown := make([]byte, max(firstBuffer, 2*len(r.buf)))
		copy(grown, r.buf[:r.end])
		r.buf = grown
	}
	const emptyReads = 100 // as in bufio: then the source is broken
	for range emptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		if n < 0 || n > len(r.buf)-r.end {
			return fmt.Errorf("sse: source read %d bytes into %d", n, len(r.buf)-r.end)
		}
		r.end += n
		r.err = err
		if n > 0 || err != nil {
			return nil
		}
	}
	return io.ErrNoProgress
}

func (r *Reader) newTooLargeError() error {
	return fmt.Errorf("sse: %w: more than %d bytes", ErrTooLarge, r.max)
}
