package serverhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/sse"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// A legacyClient is a hand-written legacy client.
type legacyClient struct {
	testing.TB
	ts      *httptest.Server
	client  *http.Client
	version string
	session string
	bearer  string
}

const allCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

// openSession initializes a session of a revision.
func openSession(t testing.TB, ts *httptest.Server, version string) *legacyClient {
	t.Helper()
	c := newClient(t, ts, "")
	c.version = version
	c.initialize()
	return c
}

// startSession opens a session at its own endpoint.
func startSession(t testing.TB, version string) (*legacyClient, *server.Server, *steps) {
	t.Helper()
	srv, steps := legacyServer(t, nil)
	ts, _ := serve(t, srv, nil)
	return openSession(t, ts, version), srv, steps
}

// openAs opens a session of revision 2025-11-25 with credentials.
func openAs(t testing.TB, ts *httptest.Server, bearer string) *legacyClient {
	t.Helper()
	c := newClient(t, ts, bearer)
	c.initialize()
	return c
}

// newClient returns a client of revision 2025-11-25 without a session.
func newClient(t testing.TB, ts *httptest.Server, bearer string) *legacyClient {
	return &legacyClient{TB: t, ts: ts, client: ts.Client(), version: "2025-11-25", bearer: bearer}
}

func (c *legacyClient) initialize() {
	c.Helper()
	got := read(c.TB, c.post(initializeBody(c.version)))
	if got.status != 200 || got.Error != nil {
		c.Fatalf("initialize: got status %d: %s", got.status, got.body)
	}
	c.session = got.header.Get("Mcp-Session-Id")
	if got := read(c.TB, c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); got.status != 202 || got.body != "" {
		c.Fatalf("initialized: got status %d: %s", got.status, got.body)
	}
}

func initializeBody(version string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":` + allCapabilities + `,"clientInfo":{"name":"c","version":"1"}}}`
}

func (c *legacyClient) header(change ...string) http.Header {
	h := http.Header{"Content-Type": {"application/json"},
		"Accept": {"application/json, text/event-stream"}}
	if c.session != "" {
		h.Set("Mcp-Session-Id", c.session)
		h.Set("MCP-Protocol-Version", c.version)
	}
	if c.bearer != "" {
		h.Set("Authorization", c.bearer)
	}
	for i := 0; i+1 < len(change); i += 2 {
		if h.Del(change[i]); change[i+1] != "" {
			h.Set(change[i], change[i+1])
		}
	}
	return h
}

// The method do sends a request; the caller may read the response.
func (c *legacyClient) do(ctx context.Context, method, body string,
	change ...string) *http.Response {
	c.Helper()
	r, err := http.NewRequestWithContext(ctx, method, c.ts.URL, strings.NewReader(body))
	noError(c, err)
	r.Header = c.header(change...)
	response, err := c.client.Do(r)
	noError(c, err)
	return response
}

func (c *legacyClient) post(body string, change ...string) *http.Response {
	c.Helper()
	return c.do(c.Context(), "POST", body, change...)
}

// call calls a tool and reads the whole response.
func (c *legacyClient) call(id int, tool string, change ...string) *reply {
	c.Helper()
	return read(c.TB, c.post(toolCall(id, tool), change...))
}

func toolCall(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{},"_meta":{"progressToken":"p"}}}`, id, tool)
}

// A flow is a client's event stream.
type flow struct {
	testing.TB
	*sse.Reader
	response *http.Response
	cancel   context.CancelFunc
}

func (c *legacyClient) flow(method, body string, change ...string) *flow {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	response := c.do(ctx, method, body, change...)
	f := &flow{TB: c.TB, Reader: sse.NewReader(response.Body, 0), response: response,
		cancel: cancel}
	c.Cleanup(f.drop)
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(response.Body)
		c.Fatalf("got status %d and type %s, want a stream: %s", response.StatusCode,
			response.Header.Get("Content-Type"), text)
	}
	return f
}

func (c *legacyClient) callFlow(id int, tool string) *flow {
	c.Helper()
	return c.flow("POST", toolCall(id, tool))
}

// listen opens a GET stream, or resumes one after lastEvent.
func (c *legacyClient) listen(lastEvent string) *flow {
	c.Helper()
	return c.flow("GET", "", "Content-Type", "", "Accept", "text/event-stream", "Last-Event-ID",
		lastEvent)
}

func (f *flow) drop() {
	f.cancel()
	f.response.Body.Close()
}

// The type said is a received message.
type said struct {
	raw    string
	ID     json.RawMessage
	Method string
	Result json.RawMessage
	Error  *protocol.Error
	Params struct{ Progress float64 }
}

func (f *flow) next() said {
	f.Helper()
	event, err := f.Next()
	noError(f, err)
	m := said{raw: string(event.Data)}
	if err := json.Unmarshal(event.Data, &m); err != nil {
		f.Fatalf("%v: %s", err, event.Data)
	}
	return m
}

// expect reads messages that must contain the parts, and returns the last.
func (f *flow) expect(parts ...string) (m said) {
	f.Helper()
	for _, part := range parts {
		if m = f.next(); !strings.Contains(m.raw, part) {
			f.Fatalf("got %s, want %s in it", m.raw, part)
		}
	}
	return m
}

// end checks that the stream ends normally.
func (f *flow) end() {
	f.Helper()
	if event, err := f.Next(); err != io.EOF {
		f.Errorf("got %s, %v, want the end of the stream", event.Data, err)
	}
}

func (c *legacyClient) answer(id json.RawMessage, result string) {
	c.Helper()
	got := read(c.TB, c.post(`{"jsonrpc":"2.0","id":`+string(id)+`,"result":`+result+`}`))
	wantStatus(c, "answer", got, 202)
}

// The type steps is a tool that needs the test's permission for each step.
type steps struct {
	entered chan context.Context
	allow   chan struct{}
	ended   chan error
}

func (s *steps) permit(n int) {
	for range n {
		s.allow <- struct{}{}
	}
}

// legacyServer returns a server with tools for sessions.
func legacyServer(t testing.TB, opts *server.Options) (*server.Server, *steps) {
	srv := newServer(t, opts)
	s := &steps{make(chan context.Context, 100), make(chan struct{}), make(chan error, 100)}
	wait := func(ctx context.Context) bool {
		select {
		case <-s.allow:
			return true
		case <-ctx.Done():
			s.ended <- context.Cause(ctx)
			return false
		}
	}
	// Sends progress 1, 2 and 3, each with permission, and then ends.
	addTool(srv, "steps", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		s.entered <- ctx
		for i := range 3 {
			if !wait(ctx) {
				return server.Text("cancelled"), nil
			}
			if err := call.Progress(ctx, float64(i+1), 0, ""); err != nil {
				if ctx.Err() != nil {
					s.ended <- context.Cause(ctx)
				}
				return nil, err
			}
		}
		if !wait(ctx) {
			return server.Text("cancelled"), nil
		}
		return server.Text("all steps"), nil
	})
	addTool(srv, "wait", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		s.entered <- ctx
		if !wait(ctx) {
			return server.Text("cancelled"), nil
		}
		return server.Text("waited"), nil
	})
	addTool(srv, "elicit", pushForm(func(err error) { s.ended <- err }))
	addTool(srv, "reconnect",
		func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
			if err := call.CloseStream(ctx, 50*time.Millisecond); err != nil {
				return server.Text(err.Error()), nil
			}
			s.entered <- ctx
			if !wait(ctx) {
				return server.Text("cancelled"), nil
			}
			return server.Text("reconnected"), nil
		})
	return srv, s
}

// pushForm pushes a question for a name. It passes an error to the function failed.
func pushForm(failed func(error)) rawTool {
	return func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		raw, err := call.Push(ctx, &protocol.ElicitForm{Message: "Name?", Schema: []byte(
			`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)})
		if err != nil {
			failed(err)
			return nil, err
		}
		answer, err := protocol.DecodeElicitResult(raw)
		if err != nil {
			return nil, err
		}
		return server.Text(string(answer.Action) + " " + string(answer.Content)), nil
	}
}

func readAll(t testing.TB, response *http.Response) string {
	t.Helper()
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	noError(t, err)
	return string(data)
}
