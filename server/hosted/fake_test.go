package hosted_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// A fake is a hosted server. Its methods are functions by tool name, or by method.
type fake struct {
	offers  string // the capabilities, a JSON object
	answers map[string]handler

	mu       sync.Mutex
	sessions []*fakeSession
	open     int
	closed   atomic.Int32
	refuses  atomic.Bool   // sessions end as soon as they begin
	changed  chan struct{} // closed when a session is closed
}

type handler func(ctx context.Context, c *fakeCall) (result string, err error)

type fakeCall struct {
	session *fakeSession
	request *protocol.Request
	back    protocol.BackCaller
}

// ask pushes a form with one text and returns the answer.
func (c *fakeCall) ask(ctx context.Context, message string) (*protocol.ElicitResult, error) {
	return c.askForm(ctx, message, `{"type":"object","properties":{"text":{"type":"string"}}}`)
}

func (c *fakeCall) askForm(ctx context.Context, message, schema string) (
	*protocol.ElicitResult, error) {
	params := fmt.Appendf(nil, `{"message":%q,"requestedSchema":%s}`, message, schema)
	response, err := c.back.Call(ctx, &protocol.Request{ID: protocol.StringID("q"),
		Method: protocol.MethodElicit, Params: params})
	if err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, response.Error
	}
	return protocol.DecodeElicitResult(response.Result)
}

func (c *fakeCall) notify(ctx context.Context, method, params string) error {
	return c.back.Notify(ctx, &protocol.Notification{Method: method,
		Params: json.RawMessage(params)})
}

func (c *fakeCall) token() string {
	var p struct {
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(c.request.Params, &p)
	return string(p.Meta.Token)
}

func textResult(format string, args ...any) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, fmt.Sprintf(format, args...))
}

func (f *fake) Close() error { f.closed.Add(1); return nil }

func (f *fake) OpenSession(ctx context.Context, initialize *protocol.Request,
	back protocol.BackCaller) (protocol.LegacySession, *protocol.Response, error) {
	if open := f.answers["initialize"]; open != nil {
		if _, err := open(ctx, &fakeCall{request: initialize, back: back}); err != nil {
			return nil, nil, err
		}
	}
	s := &fakeSession{fake: f, back: back, done: make(chan struct{}),
		caller: hosted.CallerFrom(ctx), initialize: string(initialize.Params)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions = append(f.sessions, s)
	if f.refuses.Load() {
		s.once.Do(func() { close(s.done) })
	} else {
		f.open++
	}
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	offers := f.offers
	if offers == "" {
		offers = `{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},` +
			`"completions":{}}`
	}
	return s, &protocol.Response{ID: initialize.ID, Result: fmt.Appendf(nil,
		`{"protocolVersion":"2025-11-25","capabilities":%s,"serverInfo":{"name":"fake",`+
			`"version":"7"},"instructions":"be kind"}`, offers)}, nil
}

func (f *fake) openSessions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

func (f *fake) awaitClosed(t testing.TB) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		f.mu.Lock()
		n, changed := f.open, f.changed
		f.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Errorf("%d sessions are open after the end", n)
			return
		}
	}
}

func (f *fake) last() *fakeSession {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessions[len(f.sessions)-1]
}

type fakeSession struct {
	*fake
	caller     *hosted.Caller
	initialize string
	back       protocol.BackCaller
	done       chan struct{}
	once       sync.Once
}

func (s *fakeSession) Handle(ctx context.Context, req *protocol.Request,
	back protocol.Back) (*protocol.Response, error) {
	name := req.Method
	if name == protocol.MethodCallTool {
		var p struct{ Name string }
		if err := json.Unmarshal(req.Params, &p); err != nil {
			return nil, err
		}
		name = p.Name
	}
	answer := s.answers[name]
	if answer == nil {
		return &protocol.Response{ID: req.ID,
			Error: protocol.Errorf(protocol.CodeMethodNotFound, "the fake has no %s", name)}, nil
	}
	result, err := answer(ctx, &fakeCall{s, req, back.(protocol.BackCaller)})
	if e, ok := protocol.AsError(err); ok {
		return &protocol.Response{ID: req.ID, Error: e}, nil
	}
	if err != nil {
		return nil, err
	}
	if result == "" {
		return nil, nil
	}
	return &protocol.Response{ID: req.ID, Result: json.RawMessage(result)}, nil
}

func (s *fakeSession) Close() error {
	s.once.Do(func() {
		close(s.done)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		close(s.changed)
		s.changed = make(chan struct{})
	})
	return nil
}

func (s *fakeSession) Notify(context.Context, *protocol.Notification) error { return nil }

func (s *fakeSession) Done() <-chan struct{} { return s.done }
func (s *fakeSession) Err() error            { return nil }

func host(t testing.TB, f *fake, opts *hosted.Options) *hosted.Server {
	t.Helper()
	h, err := hosted.New(hosted.One(f), opts)
	noError(t, err)
	t.Cleanup(func() {
		_ = h.Close()
		f.awaitClosed(t)
		if f.closed.Load() == 0 {
			t.Error("the peer is open after the end")
		}
	})
	return h
}

// A route is a way to the front.
type route struct {
	name string
	open func(t testing.TB, h *hosted.Server) protocol.Peer
}

func routes() []route {
	return []route{
		{"http", func(t testing.TB, h *hosted.Server) protocol.Peer {
			return hostedtest.Dial(t, h, "")
		}},
		{"stdio", openLines},
		{"in process", func(_ testing.TB, h *hosted.Server) protocol.Peer { return h.Server() }},
	}
}

func openLines(t testing.TB, h *hosted.Server) protocol.Peer {
	r, w := servertest.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
		_ = h.Server().ServeStream(ctx, in, out, nil)
	})
	return client.NewStream(r, w, nil)
}

func open(t testing.TB, peer protocol.Peer, era protocol.Era, opts client.Options,
) *client.Client {
	t.Helper()
	return hostedtest.NewClient(t, peer, era, opts)
}

func wantText(t testing.TB, c *client.Client, tool, want string) {
	t.Helper()
	hostedtest.Want(t, tool, hostedtest.CallTool(t, c, tool), want)
}

func eachWay(t *testing.T, f func(t *testing.T, r route, era protocol.Era)) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		for _, r := range routes() {
			if era == protocol.Legacy && r.name == "in process" {
				continue
			}
			t.Run(fmt.Sprintf("%v/%s", era, r.name), func(t *testing.T) { f(t, r, era) })
		}
	}
}
