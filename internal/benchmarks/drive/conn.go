package drive

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// patience is how long a server may take over one response.
const patience = time.Minute

// A Conn is a connection of HTTP/1.1 that does as little as it can, so that
// many leave the processor to the server. It is not for concurrent use.
type Conn struct {
	conn  net.Conn
	in    *bufio.Reader
	heads map[string][]byte // by tool
	out   []byte
	body  []byte
	text  []byte
}

// Dial connects to addr.
func Dial(addr string) (*Conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{conn: conn, in: bufio.NewReaderSize(conn, 8<<10), heads: map[string][]byte{}}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Do sends a call and reads the response, which is valid until the next.
func (c *Conn) Do(call wire.Call, state []byte) (status int, response []byte, err error) {
	if c.heads[call.Tool] == nil {
		head := fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\n", c.conn.RemoteAddr())
		for name, values := range wire.Header(call.Tool) {
			head = fmt.Appendf(head, "%s: %s\r\n", name, values[0])
		}
		c.heads[call.Tool] = append(head, "Content-Length: "...)
	}
	c.text = call.Append(c.text[:0], state)
	c.out = append(c.out[:0], c.heads[call.Tool]...)
	c.out = strconv.AppendInt(c.out, int64(len(c.text)), 10)
	c.out = append(append(c.out, "\r\n\r\n"...), c.text...)
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, nil, err
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, nil, err
	}
	return c.read()
}

// read reads a response, whose body has a length or comes in chunks.
func (c *Conn) read() (int, []byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, nil, fmt.Errorf("a response that starts with %q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	length, chunked := 0, false
	for err == nil {
		if line, err = c.in.ReadSlice('\n'); err != nil || len(line) <= len("\r\n") {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			length, err = strconv.Atoi(string(bytes.TrimSpace(value)))
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		}
	}
	c.body = c.body[:0]
	switch {
	case err != nil:
	case chunked:
		err = c.chunks()
	default:
		err = c.take(length)
	}
	return status, c.body, err
}

func (c *Conn) chunks() error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return err
		}
		if err := c.take(int(n)); err != nil {
			return err
		}
		if _, err := c.in.Discard(len("\r\n")); err != nil || n == 0 {
			return err
		}
	}
}

// take appends n bytes to the body.
func (c *Conn) take(n int) error {
	at := len(c.body)
	c.body = slices.Grow(c.body, n)[:at+n]
	_, err := io.ReadFull(c.in, c.body[at:])
	return err
}
