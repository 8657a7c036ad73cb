package inspect

import (
	"bytes"
	"net"
	"sync"
	"time"
)

const (
	// maxWireLine is how much of a message is kept, and maxWireLines how many messages are: 256 KiB
	// of a side.
	maxWireLine  = 4 << 10
	maxWireLines = 64
)

// A wireLog keeps the messages that passed last.
type wireLog struct {
	mu      sync.Mutex
	lines   []wireLine
	partial [2]wireLine // of the client, and of the server
	Earlier int
}

// A wireLine is a message, cut.
type wireLine struct {
	At         time.Time
	FromServer bool
	Text       string
	Size       int
	text       []byte
}

// add takes the next bytes of one direction.
func (l *wireLog) add(direction int, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.partial[direction]
	for len(data) > 0 {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		p.text = append(p.text, line[:min(len(line), maxWireLine-len(p.text))]...)
		p.Size += len(line)
		if data = rest; !whole {
			return
		}
		if len(l.lines) == maxWireLines {
			l.lines = append(l.lines[:0], l.lines[1:]...)
		}
		text := string(bytes.ToValidUTF8(p.text, []byte("…")))
		if p.Size > len(p.text) {
			text += "…"
		}
		l.lines = append(l.lines, wireLine{At: time.Now(), FromServer: direction == 1, Text: text,
			Size: p.Size})
		p.text, p.Size = p.text[:0], 0
	}
}

func (l *wireLog) list() []wireLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]wireLine(nil), l.lines...)
}

// A tap is the client's end of a pipe, of which a wireLog keeps what passes.
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
