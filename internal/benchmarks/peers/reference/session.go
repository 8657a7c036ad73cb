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
// stream of its call and waits there. Nothing outlives the request that began it.
func NewLegacy() http.Handler {
	return &legacy{sessions: map[string]bool{}, asked: map[string]chan json.RawMessage{},
		json: []string{"application/json"}, events: []string{"text/event-stream"},
		hello: legacyText(wire.Hello), deployed: legacyText(wire.Deployment().Deployed()),
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
	sessions map[string]bool
	last     int                             // question
	asked    map[string]chan json.RawMessage // by the id of the question
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
	known := s.sessions[r.Header.Get("Mcp-Session-Id")]
	s.mu.Unlock()
	switch {
	case !known:
		http.Error(w, "no such session", http.StatusNotFound)
	case m.Method == "" && !s.deliver(&m):
		http.Error(w, "nothing was asked", http.StatusBadRequest)
	case m.ID == nil || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	case m.Params.Name == wire.Deploy:
		s.deploy(w, r, &m)
	default:
		w.Header()["Content-Type"] = s.json
		_, _ = w.Write(withID(nil, m.ID, s.hello))
	}
}

func (s *legacy) open(w http.ResponseWriter, m *incoming) {
	s.mu.Lock()
	id := strconv.Itoa(len(s.sessions))
	s.sessions[id] = true
	s.mu.Unlock()
	w.Header()["Content-Type"], w.Header()["Mcp-Session-Id"] = s.json, []string{id}
	_, _ = w.Write(withID(nil, m.ID, []byte(`,"result":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1.0.0"}}}`)))
}

// deploy asks, waits and answers on one stream.
func (s *legacy) deploy(w http.ResponseWriter, r *http.Request, m *incoming) {
	id, answer := s.ask()
	defer s.forget(id)
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

func (s *legacy) ask() (id string, answer chan json.RawMessage) {
	answer = make(chan json.RawMessage, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	id = strconv.Itoa(s.last)
	s.asked[id] = answer
	return id, answer
}

func (s *legacy) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, id)
}

// deliver hands an answer to whoever asked.
func (s *legacy) deliver(m *incoming) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, ok := s.asked[string(m.ID)]
	if ok {
		delete(s.asked, string(m.ID))
		answer <- m.Result
	}
	return ok
}
