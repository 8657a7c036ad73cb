package drive

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// LegacyVersion is the revision that sessions are opened with.
const LegacyVersion = "2025-11-25"

// A Session is a session of an older revision, without a socket. It is not for
// concurrent use.
type Session struct {
	driver *Handler
	header http.Header
	call   body
	stream stream
	answer []byte
	calls  chan *stream // nil: nobody takes them yet
}

// Open opens a session.
func (d *Handler) Open() (*Session, error) {
	s := &Session{driver: d, header: http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
	}}
	status, response := s.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + LegacyVersion +
		`","capabilities":{"elicitation":{"form":{}}},"clientInfo":{"name":"bench","version":"1.0.0"}}}`)
	if status != 200 || !bytes.Contains(response, []byte(`"serverInfo"`)) {
		return nil, fmt.Errorf("initialize: status %d: %.300s", status, response)
	}
	id := d.w.header["Mcp-Session-Id"]
	if len(id) != 1 {
		return nil, fmt.Errorf("initialize: the session ids are %q", id)
	}
	s.header["Mcp-Session-Id"], s.header["Mcp-Protocol-Version"] = id, []string{LegacyVersion}
	if status, response := s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != 202 {
		return nil, fmt.Errorf("initialized: status %d: %.300s", status, response)
	}
	return s, nil
}

// Header returns the headers of requests of the session.
func (s *Session) Header() http.Header { return s.header.Clone() }

func (s *Session) post(message string) (int, []byte) {
	return s.driver.do("POST", s.header, []byte(message))
}

// Echo makes a plain call.
func (s *Session) Echo() error {
	status, response := s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + wire.Echo + `","arguments":{"message":"` + wire.Hello + `"}}}`)
	if status != 200 || !bytes.Contains(response, []byte(wire.Hello)) {
		return fmt.Errorf("%s: status %d: %.300s", wire.Echo, status, response)
	}
	return nil
}

// Push calls Deploy, answers the question that the server sends on the stream
// of the call, and waits for the result.
func (s *Session) Push() error {
	ctx, cancel := context.WithCancel(s.driver.base)
	defer cancel()
	w, call := &s.stream, &s.call
	w.reset()
	call.Reset([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + wire.Deploy +
		`","arguments":{"environment":"` + wire.Environment +
		`","version":"` + wire.Release + `"}}}`))
	w.request = s.driver.request(ctx, "POST", s.header, call)
	s.start(w)
	if !<-w.asked {
		<-w.ended
		return fmt.Errorf("%s: nothing is asked: %.300s", wire.Deploy, w.Bytes())
	}
	s.answer = append(append(append(s.answer[:0], `{"jsonrpc":"2.0","id":`...), w.id...), `,"result":{"action":"accept","content":{"approve":true}}}`...)
	if status, response := s.driver.do("POST", s.header, s.answer); status != 202 {
		return fmt.Errorf("answer: status %d: %.300s", status, response)
	}
	<-w.ended
	if !bytes.Contains(w.Bytes(), []byte(wire.Deployed(wire.Environment, wire.Release))) {
		return fmt.Errorf("%s: %.600s", wire.Deploy, w.Bytes())
	}
	return nil
}

// start serves a call on the goroutine of a connection that is kept alive, as
// net/http does: its stack has grown already.
func (s *Session) start(w *stream) {
	if s.calls == nil {
		s.calls = make(chan *stream)
		go func() {
			for w := range s.calls {
				s.driver.handler.ServeHTTP(w, w.request)
				w.end()
			}
		}()
	}
	s.calls <- w
}

// Close closes the connection; the session stays.
func (s *Session) Close() {
	if s.calls != nil {
		close(s.calls)
		s.calls = nil
	}
}

// A stream is a response in which a server asks: it tells the id of the
// question as soon as it is there.
type stream struct {
	mu sync.Mutex // the keep-alive of a server may write beside its handler
	recorder
	request *http.Request
	told    bool
	id      []byte        // of the question, once asked has said that there is one
	asked   chan bool     // has room for one
	ended   chan struct{} // likewise
}

// end tells that the handler has returned.
func (w *stream) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.told {
		w.told = true
		w.asked <- false
	}
	w.ended <- struct{}{}
}

// reset makes the stream ready for another call. Only what net/http makes for
// each request is made anew.
func (w *stream) reset() {
	if w.asked == nil {
		w.asked, w.ended = make(chan bool, 1), make(chan struct{}, 1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.header, w.status, w.told = make(http.Header, 4), 0, false
	w.Reset()
}

func (w *stream) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.recorder.Write(p)
	if w.told || !bytes.HasSuffix(w.Bytes(), []byte("\n\n")) {
		return n, err
	}
	_, event, found := bytes.Cut(w.Bytes(), []byte(`data:`))
	if !found || !bytes.Contains(event, []byte(`"elicitation/create"`)) {
		return n, err
	}
	if _, id, found := bytes.Cut(event, []byte(`"id":`)); found {
		if end := bytes.IndexAny(id, ",}"); end > 0 {
			w.told = true
			w.id = append(w.id[:0], id[:end]...)
			w.asked <- true
		}
	}
	return n, err
}
