package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// patience is how long a server may take over one response.
const patience = time.Minute

// A Conn is a connection of HTTP/1.1 that does little, so that many leave the
// processor to the server. It is not for concurrent use.
type Conn struct {
	conn  net.Conn
	in    *bufio.Reader
	heads map[string][]byte // by tool
	out   []byte
	body  bytes.Buffer
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
func (c *Conn) Do(call Call, state []byte) (status int, response []byte, err error) {
	if c.heads[call.Tool] == nil {
		head := fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\n", c.conn.RemoteAddr())
		for name, values := range Header(call.Tool) {
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
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, err
	}
	c.body.Reset()
	_, err = c.body.ReadFrom(r.Body)
	return r.StatusCode, c.body.Bytes(), err
}
