// Package gatewaytest holds what tests of gateways share: an upstream and a client that are
// nothing but messages on the wire, and the table of what both must read, and the operator
// find in logs and metrics, whatever SDK the gateway between them is built on.
package gatewaytest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
)

// The tools of an [Upstream].
const (
	// ToolAsk asks what its argument "question" says, as it is, and returns as text the
	// response that it reads.
	ToolAsk = "ask"
	// ToolPlain asks nothing.
	ToolPlain = "plain"
	// ToolReport asks, and reports progress before and after, where the call has a token.
	ToolReport = "report"
	// ToolWait waits for two steps.
	ToolWait = "wait"
	// ToolFault ends the process, where that is an upstream. Over HTTP see [AcceptFaults].
	ToolFault = "fault"
)

// An Upstream is a server of revision 2025-11-25 that writes each message itself. It serves
// any number of connections, over HTTP and over lines.
type Upstream struct {
	// URL is the endpoint over HTTP, and HTTPClient what reaches it.
	URL        string
	HTTPClient *http.Client
	// RefuseAnswers has answers over HTTP refused with status 500.
	RefuseAnswers atomic.Bool
	// Intercept reports whether it has served a message over HTTP in place of the upstream.
	// Nil: it has not. It is set before the first connection.
	Intercept func(w http.ResponseWriter, r *http.Request, m *Message) bool

	connections atomic.Int32  // that were opened
	lost        atomic.Int32  // the last of them that is not known any more
	answered    chan string   // gets the response to each question, if somebody receives it
	steps       chan struct{} // lets tools go on
	lingers     atomic.Bool   // calls that have asked wait for a step before they return
	progress    chan string   // gets the params of progress

	mu       sync.Mutex
	outside  func(string) // writes to the connection of the last call what belongs to no call
	asked    int
	declared []string                // the capabilities of the gateway, by connection
	lists    map[string]string       // results, by the method of their requests
	waiting  map[string]chan string  // responses by the id of the question, decoded
	streams  map[string]chan message // standing streams, by session
}

// A Message is one that an [Upstream] has received.
type Message struct {
	Method     string // "": it is a response
	ID, Params json.RawMessage
}

// A message is written on a stream; written is closed then.
type message struct {
	text    string
	written chan struct{}
}

// NewUpstream returns an upstream that serves until the test ends.
func NewUpstream(t testing.TB) *Upstream {
	u := newUpstream()
	served := httptest.NewServer(http.HandlerFunc(u.serveHTTP))
	t.Cleanup(served.Close)
	u.URL, u.HTTPClient = served.URL, newHTTPClient(t)
	return u
}

// newPipeUpstream returns an upstream in fake time, over HTTP within the process.
func newPipeUpstream(t testing.TB) *Upstream {
	u := newUpstream()
	served := pipehttp.Serve(t, http.HandlerFunc(u.serveHTTP))
	u.URL, u.HTTPClient = pipehttp.URL, served.Client()
	return u
}

func newUpstream() *Upstream {
	return &Upstream{
		answered: make(chan string, 1), waiting: map[string]chan string{},
		streams: map[string]chan message{}, steps: make(chan struct{}),
		progress: make(chan string, 64),
	}
}

// newHTTPClient returns a client whose connections end with the test, or by
// CloseIdleConnections.
func newHTTPClient(t testing.TB) *http.Client {
	over := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(over.CloseIdleConnections)
	return &http.Client{Transport: over}
}

// An Envelope is what an upstream or a client reads of any message.
type Envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// outcome is what a response says, without its id.
func (e *Envelope) outcome() string {
	if e.Error != nil {
		return string(e.Error)
	}
	return string(e.Result)
}

func (u *Upstream) serveHTTP(w http.ResponseWriter, r *http.Request) {
	session := r.Header.Get("Mcp-Session-Id")
	number, _ := strconv.Atoi(strings.TrimPrefix(session, "session-"))
	if session != "" && number <= int(u.lost.Load()) {
		http.Error(w, "no session", http.StatusNotFound)
		return
	}
	switch r.Method {
	case http.MethodGet:
		u.serveStanding(w, r, session)
		return
	case http.MethodDelete:
		return
	}
	body, err := io.ReadAll(r.Body)
	var m Envelope
	if err != nil || json.Unmarshal(body, &m) != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	switch {
	case u.Intercept != nil && u.Intercept(w, r, &Message{m.Method, m.ID, m.Params}):
	case isCall(m.Method):
		w.Header().Set("Content-Type", "text/event-stream")
		write := func(text string) {
			fmt.Fprintf(w, "data: %s\n\n", text)
			w.(http.Flusher).Flush()
		}
		u.call(r.Context(), &m, write, func(text string) { u.writeStanding(session, text) })
	case m.Method == "" && m.ID != nil && u.RefuseAnswers.Load():
		http.Error(w, "not now", http.StatusInternalServerError)
	case m.ID == nil || m.Method == "":
		u.answer(&m)
		w.WriteHeader(http.StatusAccepted)
	default:
		response := u.answer(&m)
		if m.Method == "initialize" {
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("session-", u.connections.Load()))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, response)
	}
}

// answer serves what is no call, and returns the response, "" if there is none.
func (u *Upstream) answer(m *Envelope) string {
	result := "{}"
	switch {
	case m.Method == "" && m.ID != nil:
		u.receive(m)
		return ""
	case m.Method == "notifications/progress":
		u.progress <- string(m.Params)
		return ""
	case m.ID == nil:
		return ""
	case m.Method == "initialize":
		var params struct{ Capabilities json.RawMessage }
		_ = json.Unmarshal(m.Params, &params)
		u.mu.Lock()
		defer u.mu.Unlock()
		u.connections.Add(1)
		u.declared = append(u.declared, string(params.Capabilities))
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},` +
			`"prompts":{"listChanged":true},"resources":{"listChanged":true},"logging":{}},` +
			`"serverInfo":{"name":"upstream","version":"1"}}`
	case strings.HasSuffix(m.Method, "/list"):
		u.mu.Lock()
		defer u.mu.Unlock()
		result = u.lists[m.Method]
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// Serve serves one connection over lines until in ends.
func (u *Upstream) Serve(ctx context.Context, in io.Reader, out io.Writer) {
	var mu sync.Mutex
	write := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(out, text+"\n")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var m Envelope
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		if isCall(m.Method) {
			go u.call(ctx, &m, write, write)
		} else if response := u.answer(&m); response != "" {
			write(response)
		}
	}
}

func isCall(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// callParams are those of a call of a tool, and of requests for prompts and resources.
type callParams struct {
	Name, URI string
	Arguments struct{ Question json.RawMessage }
	Meta      struct{ ProgressToken json.RawMessage } `json:"_meta"`
}

// call runs a tool, or asks before it returns a prompt or a resource. write writes on the stream of
// the call, outside where messages go that belong to no call.
func (u *Upstream) call(ctx context.Context, m *Envelope, write, outside func(string)) {
	var p callParams
	_ = json.Unmarshal(m.Params, &p)
	u.mu.Lock()
	u.outside = outside
	u.mu.Unlock()
	text := "done"
	switch {
	case p.URI == missingPage:
		write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, noPage))
		return
	case p.Name == ToolFault:
		os.Exit(0)
	case p.Name == ToolReport && p.Meta.ProgressToken != nil:
		text = u.report(ctx, &p, write)
	case p.Name == ToolWait:
		<-u.steps
		<-u.steps
	case p.Name != ToolPlain:
		question := p.Arguments.Question
		if question == nil {
			question = json.RawMessage(plain)
		}
		text = u.ask(ctx, question, write)
		visited := strings.Contains(string(question), `"v1"`) && strings.Contains(text, "accept")
		if visited {
			write(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete",` +
				`"params":{"elicitationId":"v1"}}`)
		}
		if visited || u.lingers.Load() {
			<-u.steps
		}
	}
	write(encodeResult(m, p.URI, text))
}

// encodeResult returns the response to a call, with a text.
func encodeResult(m *Envelope, uri, text string) string {
	quoted, _ := json.Marshal(text)
	content := fmt.Sprintf(`{"type":"text","text":%s}`, quoted)
	result := map[string]string{
		"tools/call":     fmt.Sprintf(`"content":[%s]`, content),
		"prompts/get":    fmt.Sprintf(`"messages":[{"role":"user","content":%s}]`, content),
		"resources/read": fmt.Sprintf(`"contents":[{"uri":%q,"text":%s}]`, uri, quoted),
	}[m.Method]
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s}}`, m.ID, result)
}

// lateAsker returns what asks on the connection of the last call so far, also after its end.
func (u *Upstream) lateAsker() func(ctx context.Context, question string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	write := u.outside
	return func(ctx context.Context, question string) string {
		return u.ask(ctx, json.RawMessage(question), write)
	}
}

func (u *Upstream) ask(ctx context.Context, question json.RawMessage, write func(string)) string {
	response := make(chan string, 1)
	u.mu.Lock()
	u.asked++
	u.waiting[fmt.Sprintf("<question/%d>", u.asked)] = response
	id := fmt.Sprintf(`"<question\/%d>"`, u.asked) // which encoders spell in different ways
	u.mu.Unlock()
	write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":%s}`, id,
		question))
	select {
	case text := <-response:
		return text
	case <-ctx.Done():
		return "nobody answered"
	}
}

func (u *Upstream) receive(m *Envelope) {
	var id string
	_ = json.Unmarshal(m.ID, &id)
	u.mu.Lock()
	defer u.mu.Unlock()
	if response, ok := u.waiting[id]; ok {
		delete(u.waiting, id)
		response <- m.outcome()
		select {
		case u.answered <- m.outcome():
		default:
		}
	}
}

// serveStanding serves the stream of a session that belongs to no call.
func (u *Upstream) serveStanding(w http.ResponseWriter, r *http.Request, session string) {
	messages := u.standing(session)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case m := <-messages:
			fmt.Fprintf(w, "data: %s\n\n", m.text)
			w.(http.Flusher).Flush()
			close(m.written)
		case <-r.Context().Done():
			return
		}
	}
}

// writeStanding writes on the standing stream of a session.
func (u *Upstream) writeStanding(session, text string) {
	m := message{text, make(chan struct{})}
	u.standing(session) <- m
	<-m.written
}

// standing returns the standing stream of a session, which the gateway may not have opened.
func (u *Upstream) standing(session string) chan message {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.streams[session] == nil {
		u.streams[session] = make(chan message)
	}
	return u.streams[session]
}
