package wiretest

import (
	"bytes"
	"io"
	"slices"
	"sync"
)

// From is the peer that sent a message.
type From string

const (
	Client From = "client"
	Server From = "server"
)

// A Message is a JSON-RPC message. The first one in an HTTP request or response has its head.
type Message struct {
	From From
	// HTTP is "POST /mcp" or "200 OK". It is empty outside HTTP and after a stream's first event.
	HTTP   string
	Header []string // relevant header lines, "Name: value", sorted
	Body   []byte   // empty if absent; not necessarily JSON
}

// A Log collects messages in order. Calls may overlap.
type Log struct {
	mu       sync.Mutex
	messages []Message
}

// Add appends a message that came without HTTP. It keeps a copy of body.
func (l *Log) Add(from From, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, Message{From: from, Body: bytes.Clone(body)})
}

// Messages returns the messages so far.
func (l *Log) Messages() []Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.messages)
}

// Lines returns a writer to w that logs every complete line. Writes must not overlap.
func (l *Log) Lines(from From, w io.Writer) io.Writer {
	return &lineWriter{log: l, from: from, w: w}
}

type lineWriter struct {
	log     *Log
	from    From
	w       io.Writer
	pending []byte
}

// Write logs before it passes lines on, so that no answer is logged before its question.
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
