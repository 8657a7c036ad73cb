package wiretest

import (
	"bytes"
	"io"
	"slices"
	"sync"
)

// From tells which peer said a message.
type From string

// The two peers.
const (
	Client From = "client"
	Server From = "server"
)

// other is the peer on the far side.
func (f From) other() From {
	if f == Client {
		return Server
	}
	return Client
}

// A Message is a JSON-RPC message with the head of the HTTP request or response that it opened.
type Message struct {
	From From
	// "POST /mcp" or "200 OK"; empty outside HTTP and for a second event of the same stream
	HTTP   string
	Header []string // the header lines worth keeping, "Name: value", sorted
	Body   []byte   // empty where there was none; not necessarily JSON
}

// A Log collects messages in the order in which they are added. Calls may overlap.
type Log struct {
	mu       sync.Mutex
	messages []Message
}

// Add appends a message that came without HTTP around it. It keeps a copy of body.
func (l *Log) Add(from From, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, Message{From: from, Body: bytes.Clone(body)})
}

// Messages is what was added so far.
func (l *Log) Messages() []Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.messages)
}

// Lines passes writes on to w and logs every complete line. Writes must not overlap.
func (l *Log) Lines(from From, w io.Writer) io.Writer {
	return &lineWriter{log: l, from: from, w: w}
}

type lineWriter struct {
	log     *Log
	from    From
	w       io.Writer
	pending []byte
}

// Write logs before it passes on, so that an answer can never be logged ahead of its question.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.pending = append(w.pending, p...)
	for {
		line, rest, ok := bytes.Cut(w.pending, []byte("\n"))
		if !ok {
			break
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			w.log.Add(w.from, line)
		}
		w.pending = rest
	}
	return w.w.Write(p)
}
