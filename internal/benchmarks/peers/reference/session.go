package reference

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// NewLegacy returns a server with sessions of older revisions: Deploy asks on the
// stream of its call and waits there. A session is what waits for answers, and
// nothing outlives the request that began it.
func NewLegacy() http.Handler {
	return &legacy{sessions: map[string]*session{}, json: []string{"application/json"},
		events: []string{"text/event-stream"},
		hello:  legacyText(wire.Hello), deployed: legacyText(wire.Deployment().Deployed()),
		question: fmt.Appendf(nil, `,"method":"elicitation/create","params":%s}`, form())}
}

// legacyText is a result of an older revision.
func legacyText(text string) []byte {
	return fmt.Appendf(nil, `,"result":{"content":[{"type":"text","text":%q}]}}`, text)
}

type legacy struct {
	json, events []string // values of Content-Type
	// What follows the id in a message.
	hello, deployed, question []byte

	mu       sync.Mutex
	sessions map[string]*session
}

// session is a client.
type session struct {
	mu    sync.Mutex
	last  int
	asked map[string]chan json.RawMessage // by the id of the question
}

// incoming is any message of a client.
type incoming struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
}

func (s *legacy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m incoming
	if !read(w, r, &m) {
		return
	}
	if m.Method == "initialize" {
		s.open(w, &m)
		return
	}
	s.mu.Lock()
	x := s.sessions[r.Header.Get("Mcp-Session-Id")]
	s.mu.Unlock()
	switch {
	case x == nil:
		http.Error(w, "no such session", http.StatusNotFound)
	case m.Method == "" && !x.deliver(&m):
		http.Error(w, "nothing was asked", http.StatusBadRequest)
	case m.ID == nil || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	case m.Params.Name == wire.Deploy:
		s.deploy(w, r, x, &m)
	default:
		w.Header()["Content-Type"] = s.json
		_, _ = w.Write(withID(nil, m.ID, s.hello))
	}
}

func (s *legacy) open(w http.ResponseWriter, m *incoming) {
	s.mu.Lock()
	id := strconv.Itoa(len(s.sessions))
	s.sessions[id] = &session{asked: map[string]chan json.RawMessage{}}
	s.mu.Unlock()
	w.Header()["Content-Type"], w.Header()["Mcp-Session-Id"] = s.json, []string{id}
	_, _ = w.Write(withID(nil, m.ID, []byte(`,"result":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1.0.0"}}}`)))
}

// deploy asks, waits and answers on one stream.
func (s *legacy) deploy(w http.ResponseWriter, r *http.Request, x *session, m *incoming) {
	id, answer := x.ask()
	defer x.forget(id)
	w.Header()["Content-Type"] = s.events
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	event := append(withID([]byte("data: "), json.RawMessage(id), s.question), "\n\n"...)
	_, _ = w.Write(event)
	w.(http.Flusher).Flush()
	var result struct {
		Action  string `json:"action"`
		Content struct {
			Approve bool `json:"approve"`
		} `json:"content"`
	}
	select {
	case raw := <-answer:
		if err := json.Unmarshal(raw, &result); err != nil || result.Action != "accept" ||
			!result.Content.Approve {
			return
		}
	case <-r.Context().Done():
		return
	}
	event = append(withID(append(event[:0], "data: "...), m.ID, s.deployed), "\n\n"...)
	_, _ = w.Write(event)
	w.(http.Flusher).Flush()
}

func (x *session) ask() (id string, answer chan json.RawMessage) {
	answer = make(chan json.RawMessage, 1)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last++
	id = strconv.Itoa(x.last)
	x.asked[id] = answer
	return id, answer
}

func (x *session) forget(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.asked, id)
}

// deliver hands an answer to whoever asked.
func (x *session) deliver(m *incoming) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	answer, ok := x.asked[string(m.ID)]
	if ok {
		delete(x.asked, string(m.ID))
		answer <- m.Result
	}
	return ok
}
