// Package sse reads and writes server-sent events, the stream format of
// Streamable HTTP (HTML standard, "Server-sent events").
//
// The reader accepts what the standard accepts (LF, CR and CRLF line ends, a
// byte order mark, comments, several data lines, unknown fields) and limits
// memory: an event larger than its limit is an error. Unlike a browser it
// reports a stream that ends inside an event. The writer produces one spelling.
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

// DefaultMaxEvent is the size limit of an event when none is given: the size of
// the largest message that HTTP endpoints accept.
const DefaultMaxEvent = 16 << 20

// ErrTooLarge is within the error for an event or line above the limit.
var ErrTooLarge = errors.New("event is too large")

// firstBuffer is the initial size of the buffer. Most messages fit.
const firstBuffer = 4 << 10

// An Event is one event that has data.
type Event struct {
	// Type is the event field; empty means "message".
	Type string
	// Data is the data lines, joined by LF. The caller may keep it.
	Data []byte
}

// A Reader reads events from a stream. It must not be used concurrently.
type Reader struct {
	src      io.Reader
	max      int
	buf      []byte // buf[start:end] has been read and not consumed
	start    int
	end      int
	scanned  int   // bytes after start known to hold no line end
	searched int   // buf[start:searched] holds no LF
	err      error // of src
	started  bool  // the byte order mark has been skipped, or there is none
	afterCR  bool  // the last line ended in CR: an LF that follows belongs to it
	lastID   string
	retry    time.Duration
	hasRetry bool
}

// NewReader returns a reader of src that refuses events whose lines exceed
// maxEvent bytes in total, [DefaultMaxEvent] when it is zero or negative.
func NewReader(src io.Reader, maxEvent int) *Reader {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	return &Reader{src: src, max: maxEvent}
}

// LastEventID returns the most recent id field, also of events without data.
func (r *Reader) LastEventID() string { return r.lastID }

// Retry returns the most recent retry field and whether there was one.
func (r *Reader) Retry() (time.Duration, bool) { return r.retry, r.hasRetry }

// Next returns the next event that has data. At the end of the stream it
// returns [io.EOF], or [io.ErrUnexpectedEOF] when the stream ends inside an
// event, with what has arrived of that event, which the standard would drop.
func (r *Reader) Next() (Event, error) {
	var e Event
	var id []byte
	hasData, hasID, size := false, false, 0
	for {
		line, err := r.readLine(r.max - size)
		if err != nil {
			last, isData := bytes.CutPrefix(r.buf[r.start:r.end], []byte("data:"))
			if isData && err == io.ErrUnexpectedEOF {
				e.Data = append(e.Data, last...) // white space of JSON in between, at most
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
			continue // comments are no part of an event, however many there are
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

// setRetry sets the retry time from a field of ASCII digits, in milliseconds.
// It ignores other values.
func (r *Reader) setRetry(value []byte) {
	for _, c := range value {
		if c < '0' || c > '9' {
			return
		}
	}
	const most = math.MaxInt64 / int64(time.Millisecond)
	if ms, err := strconv.ParseInt(string(value), 10, 64); err == nil && ms <= most {
		r.retry, r.hasRetry = time.Duration(ms)*time.Millisecond, true
	}
}

// readLine returns the next line without its end, valid until the next call. It
// does not return a line that the end of the stream cuts off.
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

// findLineEnd returns how many bytes after start the first CR or LF is, -1 if
// there is none. Each byte is searched once for LF and once for CR, however
// many lines end in CR: the position of the next LF is kept from line to line.
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

// skipMarks drops the byte order mark at the start of the stream, and the LF
// of a CRLF of which only the CR had arrived when its line was returned.
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

// fillBuffer reads more into the buffer. It returns the error of the source
// when the caller has consumed what was read before it.
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
	const emptyReads = 100 // as bufio: a source that gives nothing is broken
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
