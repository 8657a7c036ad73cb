package wire

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
)

const legacyVersion = "2025-11-25"

const (
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` +
		legacyVersion + `","capabilities":{"elicitation":{"form":{}}},` +
		`"clientInfo":{"name":"bench","version":"1.0.0"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	echoCall    = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + Echo +
		`","arguments":{"message":"` + Hello + `"}}}`
	deployCall = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + Deploy +
		`","arguments":` + DeployArguments + `}}`
)

// A Session is a session of an older revision, without a socket. It is not for concurrent use.
type Session struct {
	driver *Handler
	header http.Header
	call   body
	stream stream
	answer []byte
	calls  chan *stream // the first call creates it
}

func (d *Handler) Open() (*Session, error) {
	s := &Session{driver: d, header: http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
	}}
	status, response := s.post(initialize)
	if status != 200 || !bytes.Contains(response, []byte(`"serverInfo"`)) {
		return nil, fmt.Errorf("initialize: status %d: %.300s", status, response)
	}
	id := d.w.header["Mcp-Session-Id"]
	if len(id) != 1 {
		return nil, fmt.Errorf("initialize: the session ids are %q", id)
	}
	s.header["Mcp-Session-Id"], s.header["Mcp-Protocol-Version"] = id, []string{legacyVersion}
	if status, response = s.post(initialized); status != 202 {
		return nil, fmt.Errorf("initialized: status %d: %.300s", status, response)
	}
	return s, nil
}

func (s *Session) post(message string) (int, []byte) {
	return s.driver.do("POST", s.header, []byte(message))
}

func (s *Session) Echo() error {
	status, response := s.post(echoCall)
	if status != 200 || !bytes.Contains(response, []byte(Hello)) {
		return fmt.Errorf("%s: status %d: %.300s", Echo, status, response)
	}
	return nil
}

// Push calls Deploy, answers the question on the call's stream, and waits for the result.
func (s *Session) Push() error {
	ctx, cancel := context.WithCancel(s.driver.base)
	defer cancel()
	w, call := &s.stream, &s.call
	w.reset()
	call.Reset([]byte(deployCall))
	w.request = s.driver.request(ctx, "POST", s.header, call)
	s.start(w)
	select {
	case <-w.asked:
	case <-w.ended:
		return fmt.Errorf("%s: nothing is asked: %.300s", Deploy, w.Bytes())
	}
	s.answer = append(append(s.answer[:0], `{"jsonrpc":"2.0","id":`...), w.id...)
	s.answer = append(s.answer, `,"result":`+Accept+`}`...)
	if status, response := s.driver.do("POST", s.header, s.answer); status != 202 {
		return fmt.Errorf("answer: status %d: %.300s", status, response)
	}
	<-w.ended
	if !bytes.Contains(w.Bytes(), []byte(Deployment().Deployed())) {
		return fmt.Errorf("%s: %.600s", Deploy, w.Bytes())
	}
	return nil
}

// start serves on a kept-alive connection's goroutine, like net/http, so its stack has grown.
func (s *Session) start(w *stream) {
	if s.calls == nil {
		s.calls = make(chan *stream)
		go func() {
			for w := range s.calls {
				s.driver.handler.ServeHTTP(w, w.request)
				w.ended <- struct{}{}
			}
		}()
	}
	s.calls <- w
}

// Close closes the connection, but not the session.
func (s *Session) Close() {
	if s.calls != nil {
		close(s.calls)
		s.calls = nil
	}
}

// A stream is a response in which a server asks. It reports the question's id at once.
type stream struct {
	mu sync.Mutex // a server's keep-alive may write at the same time as its handler
	recorder
	request *http.Request
	told    bool
	id      []byte        // the question's id, valid once asked is signalled
	asked   chan struct{} // has room for one value
	ended   chan struct{} // has room for one value
}

// reset makes the stream ready for another call. Only net/http's data per request is new.
func (w *stream) reset() {
	if w.asked == nil {
		w.asked, w.ended = make(chan struct{}, 1), make(chan struct{}, 1)
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
	_, event, _ := bytes.Cut(w.Bytes(), []byte(`data:`))
	_, id, _ := bytes.Cut(event, []byte(`"id":`))
	end := bytes.IndexAny(id, ",}")
	if end > 0 && bytes.Contains(event, []byte(`"elicitation/create"`)) {
		w.told, w.id = true, append(w.id[:0], id[:end]...)
		w.asked <- struct{}{}
	}
	return n, err
}
