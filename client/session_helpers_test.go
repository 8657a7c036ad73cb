package client_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
)

func overEach(t *testing.T, test func(t *testing.T, way string)) {
	for _, way := range legacyTransports {
		t.Run(way, func(t *testing.T) { test(t, way) })
	}
}

func pushed(id, method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q%s}`, id, method, params)
}

const (
	nameParams = `{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","minLength":2},"size":{"type":"integer","default":3}},"required":["name"]}}`
	askedModel = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":10}`
)

func allHandlers() *client.Options {
	return &client.Options{
		ElicitForm: acceptName,
		ElicitURL: func(context.Context, *client.URLQuestion) (elicited, error) {
			return client.Accept(nil)
		},
		CreateMessage: func(context.Context,
			*client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			return &protocol.CreateMessageResult{
				Role: protocol.Assistant, Model: "m",
				Content: []protocol.Content{&protocol.TextContent{Text: "hello"}},
			}, nil
		},
		ListRoots: func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
			return []protocol.Root{{URI: "file:///work"}}, nil
		},
	}
}

// A legacyMessage is any message, as a handwritten server decodes it.
type legacyMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// answer returns the client's answer to a pushed request: the result, or the error's code.
func (m legacyMessage) answer() string {
	if m.Error != nil {
		return fmt.Sprint(m.Error.Code)
	}
	return string(m.Result)
}

// A pusher sends a message on a call's stream, and returns the client's answer to a request, if
// any.
type pusher = func(message string) legacyMessage

// A legacyServer is a legacy server that the test controls, independent of the transport.
type legacyServer struct {
	version string // of initialize; empty: 2025-11-25
	caps    string // JSON of its capabilities
	// inMemory means that HTTP uses pipes instead of sockets, for a test in a bubble.
	inMemory bool
	// refuse answers server/discover. By default it is refused as a legacy server does.
	refuse func(w http.ResponseWriter, m legacyMessage)
	call   func(m legacyMessage, push pusher) (result string) // answers tools/call
	// handle answers a request if it returns a text.
	handle func(m legacyMessage) string

	mu      sync.Mutex
	heard   []legacyMessage
	waiting map[string]chan legacyMessage
}

func (s *legacyServer) note(m legacyMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, m)
	if m.Method == "" {
		if c := s.waiting[string(m.ID)]; c != nil {
			delete(s.waiting, string(m.ID))
			c <- m
		}
	}
}

// The method methods returns the methods that the client sent, in order, notifications included.
func (s *legacyServer) methods() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.heard {
		if m.Method != "" {
			list = append(list, m.Method)
		}
	}
	return list
}

func (s *legacyServer) params(method string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range slices.Backward(s.heard) {
		if m.Method == method {
			return string(m.Params)
		}
	}
	return ""
}

// ask passes a message to write. If the message has an id, ask waits for the answer until ctx, the
// call's, ends: a client that has given up does not answer.
func (s *legacyServer) ask(ctx context.Context, message string, write func(string)) legacyMessage {
	var m legacyMessage
	_ = json.Unmarshal([]byte(message), &m)
	if m.ID == nil {
		write(message)
		return m
	}
	c := make(chan legacyMessage, 1)
	s.mu.Lock()
	if s.waiting == nil {
		s.waiting = map[string]chan legacyMessage{}
	}
	s.waiting[string(m.ID)] = c
	s.mu.Unlock()
	write(message)
	select {
	case m := <-c:
		return m
	case <-ctx.Done():
		return legacyMessage{}
	}
}

func (s *legacyServer) reply(m legacyMessage) string {
	body := `"result":{}`
	if s.handle != nil {
		if text := s.handle(m); text != "" {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, text)
		}
	}
	switch m.Method {
	case "initialize":
		version, caps := s.version, s.caps
		if version == "" {
			version = "2025-11-25"
		}
		if caps == "" {
			caps = `{"tools":{}}`
		}
		body = fmt.Sprintf(
			`"result":{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"old","version":"1"},"instructions":"be gentle"}`,
			version, caps,
		)
	case "tools/list":
		body = `"result":{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"not valid"}}}}],"ttlMs":60000,"cacheScope":"public"}`
	case "server/discover":
		body = `"error":{"code":-32601,"message":"Method not found"}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, body)
}

const legacyDone = `{"content":[{"type":"text","text":"done"}]}`

func (s *legacyServer) result(m legacyMessage, push pusher) string {
	result := legacyDone
	if s.call != nil {
		result = s.call(m, push)
	}
	if strings.HasPrefix(result, `{"code"`) {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, result)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (s *legacyServer) onLines(t *testing.T, opts *client.StreamOptions) *client.Stream {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	var mu sync.Mutex
	write := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(toClient, line+"\n")
	}
	go func() {
		defer toClient.Close()
		var calls sync.WaitGroup
		defer calls.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		lines := bufio.NewScanner(fromClient)
		for lines.Scan() {
			var m legacyMessage
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Errorf("client wrote %q", lines.Text())
			}
			s.note(m)
			switch {
			case m.Method == "tools/call":
				calls.Go(func() {
					write(s.result(m, func(message string) legacyMessage {
						return s.ask(ctx, message, write)
					}))
				})
			case m.Method != "" && m.ID != nil:
				if text := s.reply(m); !strings.Contains(text, `"silence"`) {
					write(text)
				}
			}
		}
	}()
	return client.NewStream(fromServer, toServer, opts)
}

type legacyHTTP struct {
	*legacyServer
	session string // session id; empty: no session
	noGet   bool
	plain   bool        // answers calls as JSON
	gets    chan string // output of the session's stream
}

func (s *legacyHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet:
		s.get(w, r)
	}
}

func (s *legacyHTTP) get(w http.ResponseWriter, r *http.Request) {
	if s.noGet {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.(http.Flusher).Flush()
	for {
		select {
		case message := <-s.gets:
			fmt.Fprintf(w, "data: %s\n\n", message)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (s *legacyHTTP) post(w http.ResponseWriter, r *http.Request) {
	var m legacyMessage
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &m)
	s.note(m)
	if s.refuse != nil && m.Method == "server/discover" {
		s.refuse(w, m)
		return
	}
	if m.Method == "initialize" && s.session != "" {
		w.Header().Set("Mcp-Session-Id", s.session)
	}
	switch {
	case m.ID == nil || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	case m.Method != "tools/call":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, s.reply(m))
	case s.plain:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, s.result(m, func(message string) legacyMessage {
			return s.ask(r.Context(), message, func(text string) {
				select {
				case s.gets <- text:
				case <-r.Context().Done(): // no one reads the stream any more
				}
			})
		}))
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		var mu sync.Mutex
		write := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(w, "data: %s\n\n", text)
			w.(http.Flusher).Flush()
		}
		write(s.result(m, func(message string) legacyMessage {
			return s.ask(r.Context(), message, write)
		}))
	}
}

// legacyTransports says where a legacyServer asks: on the call's, the session's or the only stream.
var legacyTransports = []string{"post stream", "get stream", "lines"}

func (s *legacyServer) reach(t *testing.T, way string, opts *client.Options) *client.Client {
	t.Helper()
	if way == "lines" {
		return newClient(t, s.onLines(t, nil), opts)
	}
	web := &legacyHTTP{
		legacyServer: s, session: "s1", plain: way == "get stream", gets: make(chan string),
	}
	return web.client(t, opts)
}

func (s *legacyHTTP) client(t *testing.T, opts *client.Options) *client.Client {
	t.Helper()
	if s.inMemory {
		tr, err := clienthttp.New("http://server.test/mcp",
			&clienthttp.Options{HTTPClient: servertest.ServePipe(t, s).Client()})
		noError(t, err)
		return newClient(t, tr, opts)
	}
	return newClient(t, dialHTTP(t, s, nil), opts)
}

func dialHTTP(t *testing.T, h http.Handler, opts *clienthttp.Options) *clienthttp.Transport {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	tr, err := clienthttp.New(web.URL, opts)
	noError(t, err)
	return tr
}

var _ protocol.LegacyPeer = (*clienthttp.Transport)(nil)

// peek returns the message of a request, whose body stays readable.
func peek(t *testing.T, r *http.Request) (m legacyMessage) {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	_ = json.Unmarshal(body, &m)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return m
}

func on(method, answer string) func(m legacyMessage) string {
	return func(m legacyMessage) string {
		if m.Method == method {
			return answer
		}
		return ""
	}
}
