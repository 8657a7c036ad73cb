package inspect

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// 256 KiB of messages for each call.
const maxWireLine, maxWireLines = 4 << 10, 64

// A wireLog keeps the latest messages.
type wireLog struct {
	mu      sync.Mutex
	lines   []wireLine
	partial [2]wireLine // of the client, and of the server
}

// A wireLine is a truncated message.
type wireLine struct {
	At         time.Time
	FromServer bool
	Text       string
	Size       int // of the whole message
}

// add appends bytes of one direction.
func (l *wireLog) add(direction int, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := &l.partial[direction]; len(data) > 0; {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		p.Text += string(line[:min(len(line), maxWireLine-len(p.Text))])
		p.Size += len(line)
		if data = rest; !whole {
			return
		}
		if p.Size > len(p.Text) {
			p.Text += "…"
		}
		l.lines = append(l.lines[max(0, len(l.lines)+1-maxWireLines):], wireLine{time.Now(),
			direction == 1, strings.ToValidUTF8(p.Text, "…"), p.Size})
		*p = wireLine{}
	}
}

func (l *wireLog) list() []wireLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// A tap is the client's end of a pipe; it logs messages.
type tap struct {
	net.Conn
	wire *wireLog
}

func (t *tap) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.wire.add(1, b[:n])
	return n, err
}

func (t *tap) Write(b []byte) (int, error) {
	t.wire.add(0, b)
	return t.Conn.Write(b)
}
