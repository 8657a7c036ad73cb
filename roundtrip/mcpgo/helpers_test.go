package mcpgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

const (
	modern     = "2026-07-28"
	v20251125  = "2025-11-25"
	summary    = "short"
	rootURI    = "file:///work"
	visitURL   = "https://example.com/sign-in"
	formSchema = `{"type":"object","properties":{"zeal":{"type":"string"},"amount":{"type":"integer","default":2}},"required":["zeal"]}`
)

// A person answers what clients ask, and counts how often each question came.
type person struct {
	mu      sync.Mutex
	answers map[string]string // content by message; "decline" and "cancel" are actions
	asked   map[string]int
	mute    bool // declares nothing
}

func newPerson(answers map[string]string) *person {
	return &person{answers: answers, asked: map[string]int{}}
}

func (p *person) answer(message string) (action string, content json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[message]++
	switch text, ok := p.answers[message]; {
	case !ok:
		return "accept", json.RawMessage(`{"zeal":"much"}`)
	case text == "decline" || text == "cancel":
		return text, nil
	default:
		return "accept", json.RawMessage(text)
	}
}

func (p *person) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[what]++
}

// once checks that each of these was asked once, and nothing else.
func (p *person) once(t *testing.T, questions ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range questions {
		if p.asked[q] != 1 {
			t.Errorf("%q was asked %d times, want once", q, p.asked[q])
		}
	}
	for q, n := range p.asked {
		if !slices.Contains(questions, q) {
			t.Errorf("%q was asked %d times, want never", q, n)
		}
	}
}

// A peer is a client of any make.
type peer interface {
	tool(ctx context.Context, name string, args map[string]any) (string, error)
	prompt(ctx context.Context, name string) (string, error)
	resource(ctx context.Context, uri string) (string, error)
}

// A link is how a test reaches a server: it connects a client of some make.
type link func(t *testing.T, a *mcpgo.Adapter, s *server.MCPServer, who *person) peer

// links are all makes of clients over all transports, in one era.
func links(revision string) map[string]link {
	all := map[string]link{}
	for name, dial := range map[string]func(*testing.T, string, string, *person) peer{
		"rondo": dialRondo, "mcp-go": dialHost,
	} {
		all[name+"/http"] = func(t *testing.T, a *mcpgo.Adapter, s *server.MCPServer,
			who *person) peer {
			endpoint, said := serveHTTP(t, a, s)
			t.Cleanup(func() { conform(t, revision, said()) })
			return dial(t, endpoint, revision, who)
		}
	}
	for name, open := range map[string]func(*testing.T, io.ReadCloser, io.WriteCloser, string,
		*person) peer{
		"rondo": openRondo, "mcp-go": openHost,
	} {
		all[name+"/lines"] = func(t *testing.T, a *mcpgo.Adapter, s *server.MCPServer,
			who *person) peer {
			r, w, said := serveLines(t, a, s)
			t.Cleanup(func() { conform(t, revision, said()) })
			return open(t, r, w, revision, who)
		}
	}
	return all
}

// conform holds what the adapted server says of rounds against the schema; the
// rest is the host's own.
func conform(t *testing.T, revision string, messages []wiretest.Message) {
	t.Helper()
	methods := map[string]string{}
	for _, m := range messages {
		var head struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if json.Unmarshal(m.Body, &head) != nil || head.ID == nil {
			continue
		}
		if m.From == wiretest.Client && head.Method != "" {
			methods[string(head.ID)] = head.Method
			continue
		}
		if m.From == wiretest.Server && protocol.MultiRoundTrip(methods[string(head.ID)]) &&
			(head.Result != nil || head.Error != nil) {
			wiretest.Validate(t, revision, wiretest.Server, m.Body, methods[string(head.ID)])
		}
	}
}

// serveHTTP serves both eras at one URL, and records what is said.
func serveHTTP(t *testing.T, a *mcpgo.Adapter, s *server.MCPServer,
	opts ...server.StreamableHTTPOption) (endpoint string, said func() []wiretest.Message) {
	t.Helper()
	log := &wiretest.Log{}
	behind := httptest.NewServer(recordExchanges(log, newHTTPHandler(a, s, opts...)))
	t.Cleanup(behind.Close)
	return behind.URL + "/mcp", log.Messages
}

// newHTTPHandler returns the endpoint of s, behind the adapter if there is one.
func newHTTPHandler(a *mcpgo.Adapter, s *server.MCPServer,
	opts ...server.StreamableHTTPOption) http.Handler {
	opts = append(opts, server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	h := server.NewStreamableHTTPServer(s, opts...)
	if a == nil {
		return h
	}
	return a.Handler(h)
}

// recordExchanges writes down what a handler reads and says, JSON and events alike.
func recordExchanges(log *wiretest.Log, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			log.Add(wiretest.Client, body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
		}
		next.ServeHTTP(&recordedWriter{w, log}, r)
	})
}

type recordedWriter struct {
	http.ResponseWriter
	log *wiretest.Log
}

func (w *recordedWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

func (w *recordedWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "data: ")
		if strings.HasPrefix(line, "{") {
			w.log.Add(wiretest.Server, []byte(line))
		}
	}
	return w.ResponseWriter.Write(p)
}

// serveLines serves a stream of lines. mcp-go has one session for all of them,
// so tests that use it do not overlap.
func serveLines(t *testing.T, a *mcpgo.Adapter,
	s *server.MCPServer) (io.ReadCloser, io.WriteCloser, func() []wiretest.Message) {
	t.Helper()
	messages := &wiretest.Log{}
	stdio := server.NewStdioServer(s)
	stdio.SetErrorLogger(log.New(io.Discard, "", 0))
	r, w := pipehttp.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
		out = messages.Lines(wiretest.Server, out)
		if a == nil {
			_ = stdio.Listen(ctx, in, out)
			return
		}
		_ = a.Listen(ctx, stdio, in, out)
	})
	type writer struct {
		io.Writer
		io.Closer
	}
	return r, writer{messages.Lines(wiretest.Client, w), w}, messages.Messages
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// newHostServer is a server as an author has it before the adapter comes.
func newHostServer(opts ...server.ServerOption) *server.MCPServer {
	return server.NewMCPServer("host", "1.0.0",
		append([]server.ServerOption{server.WithToolCapabilities(false),
			server.WithPromptCapabilities(false), server.WithResourceCapabilities(false, false),
			server.WithElicitation(), server.WithRoots()}, opts...)...)
}

func install(t testing.TB, s *server.MCPServer, opts *mcpgo.Options) *mcpgo.Adapter {
	t.Helper()
	var o mcpgo.Options
	if opts != nil {
		o = *opts
	}
	if o.MinHumanTime == 0 { // who answers here is a test, at once
		o.MinHumanTime = -1
	}
	a, err := mcpgo.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Install(s); err != nil {
		t.Fatal(err)
	}
	return a
}

// bugs collects what is reported to the author.
type bugs struct {
	mu     sync.Mutex
	events []event.Event
}

func (b *bugs) Observe(_ context.Context, e event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}

func (b *bugs) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []error
	for _, e := range b.events {
		if bug, ok := e.(event.ServerBug); ok {
			all = append(all, bug.Err)
		}
	}
	return errors.Join(all...)
}

// live calls a tool in revision 2025-11-25 on a session of the process.
func live(ctx context.Context, s *server.MCPServer, client server.ElicitationHandler,
	tool string) answered {
	session := server.NewInProcessSessionWithHandlers("test", nil, client, nil)
	session.SetProtocolVersion(v20251125)
	session.SetClientCapabilities(mcp.ClientCapabilities{
		Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}})
	message := s.HandleMessage(s.WithContext(ctx, session), json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`))
	raw, err := json.Marshal(message)
	a := answered{body: string(raw)}
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		a.body = err.Error()
	}
	return a
}

type elicitFunc func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error)

func (f elicitFunc) Elicit(ctx context.Context,
	r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return f(ctx, r)
}
