// Package lineio sends and receives messages as lines, one JSON value and one newline each
// (basic/transports/stdio): the common part of clients and servers, and a server of one client.
package lineio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLong reports a line over the limit, which was skipped; the next call returns the next line.
var ErrTooLong = errors.New("line: too long")

// A Reader reads lines. It must not be used concurrently.
type Reader struct {
	buf *bufio.Reader
	max int
}

// NewReader returns a reader of lines of at most max bytes, newline excluded.
func NewReader(r io.Reader, max int) *Reader {
	return &Reader{bufio.NewReaderSize(r, 32<<10), max}
}

// Next returns the next line that is not blank, trimmed; the caller owns it. A last line without
// newline counts. Errors are [ErrTooLong] for a line over the limit, io.EOF, and the stream's own.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.readLine()
		line = bytes.TrimSpace(line)
		if len(line) > 0 || err != nil {
			return line, err
		}
	}
}

func (r *Reader) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := r.buf.ReadSlice('\n')
		if len(line)+len(part) > r.max+2 { // allow \r\n
			return nil, r.skipLine(err)
		}
		if err == nil && len(line) == 0 && len(bytes.TrimSpace(part)) == 0 {
			continue // no allocation for a blank line
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)):
			return nil, err
		case len(bytes.TrimRight(line, "\r\n")) > r.max:
			return nil, ErrTooLong
		}
		return line, nil // the next call returns io.EOF again
	}
}

func (r *Reader) skipLine(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.buf.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return ErrTooLong
}
