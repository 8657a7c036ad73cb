// Package hostedtest is shared by tests of hosted SDKs: a core that opens a peer's sessions and
// records messages, clients of a front, and cases for every SDK.
package hostedtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A Back records a hosted server's messages, in order, and answers its questions.
type Back struct {
	Answer   func(ctx context.Context, req *protocol.Request) (string, error) // nil: refuses all
	Notified func()                                                           // may be nil

	mu   sync.Mutex
	sent []string
}

// Says returns a Back that answers every question with the result.
func Says(result string) *Back {
	return &Back{Answer: func(context.Context, *protocol.Request) (string, error) {
		return result, nil
	}}
}

func (b *Back) note(method string, params json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = append(b.sent, strings.TrimSpace(method+" "+string(params)))
}

// Sent returns the questions and notifications so far, as "<method> <params>".
func (b *Back) Sent() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sent)
}

// List returns [Back.Sent] as one text of lines.
func (b *Back) List() string { return strings.Join(b.Sent(), "\n") }

// Notify implements [protocol.Back].
func (b *Back) Notify(_ context.Context, n *protocol.Notification) error {
	b.note(n.Method, n.Params)
	if b.Notified != nil {
		b.Notified()
	}
	return nil
}

// Call implements [protocol.BackCaller].
func (b *Back) Call(ctx context.Context, req *protocol.Request) (*protocol.Response, error) {
	b.note(req.Method, req.Params)
	result, err := "", error(protocol.Errorf(protocol.CodeMethodNotFound, "nobody to ask"))
	if b.Answer != nil {
		result, err = b.Answer(ctx, req)
	}
	if e, ok := err.(*protocol.Error); ok { // a wrapped protocol error is no response
		return &protocol.Response{ID: req.ID, Error: e}, nil
	}
	if err != nil {
		return nil, err
	}
	return &protocol.Response{ID: req.ID, Result: json.RawMessage(result)}, nil
}

// A Core takes the place of package hosted.
type Core struct {
	testing.TB
	Peer    hosted.Peer
	Session protocol.LegacySession
	Offers  string // the result of initialize
	Back    *Back  // of the session
	caller  *hosted.Caller
	ids     atomic.Int64
}

// Initialize returns the request that opens a session, with client capabilities.
func Initialize(capabilities string) *protocol.Request {
	return &protocol.Request{ID: protocol.IntID(0), Method: protocol.MethodInitialize,
		Params: fmt.Appendf(nil, `{"protocolVersion":"2025-11-25","capabilities":%s,`+
			`"clientInfo":{"name":"teller","version":"3"}}`, capabilities)}
}

// Open opens a session s1 without a caller.
func Open(t testing.TB, p hosted.Peer) *Core {
	t.Helper()
	return OpenAs(t, p, &hosted.Caller{SessionID: "s1", Version: protocol.V20260728}, "{}")
}

// OpenAs opens a session for a caller, with client capabilities.
func OpenAs(t testing.TB, p hosted.Peer, caller *hosted.Caller, capabilities string) *Core {
	t.Helper()
	c := &Core{TB: t, Peer: p, caller: caller, Back: &Back{}}
	ctx := hosted.WithCaller(context.Background(), caller)
	session, response, err := p.OpenSession(ctx, Initialize(capabilities), c.Back)
	if err != nil || response.Error != nil {
		t.Fatal(err, response)
	}
	c.Session, c.Offers = session, string(response.Result)
	t.Cleanup(func() { _ = session.Close() })
	err = session.Notify(ctx, &protocol.Notification{Method: protocol.NotifyInitialized})
	testkit.NoError(t, err)
	return c
}

// Send sends a request of the session's caller. Calls may overlap.
func (c *Core) Send(ctx context.Context, method, params string, b *Back) (
	*protocol.Response, error) {
	request := &protocol.Request{ID: protocol.IntID(c.ids.Add(1)), Method: method}
	if params != "" {
		request.Params = json.RawMessage(params)
	}
	response, err := c.Session.Handle(hosted.WithCaller(ctx, c.caller), request,
		cmp.Or(b, &Back{}))
	if err == nil && response.ID != request.ID {
		c.Errorf("the response has id %v, want %v", response.ID, request.ID)
	}
	return response, err
}

// Do sends a request and returns the outcome as [RawOf] does.
func (c *Core) Do(b *Back, method, params string) string {
	return RawOf(c.Send(context.Background(), method, params, b))
}

// Call calls a tool without arguments and returns the outcome as [TextOf] does.
func (c *Core) Call(tool string, b *Back) string {
	return TextOf(c.Send(context.Background(), protocol.MethodCallTool,
		fmt.Sprintf(`{"name":%q}`, tool), b))
}

// RawOf returns a result, or an error's code, message and data.
func RawOf(response *protocol.Response, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	if e := response.Error; e != nil {
		return strings.TrimSpace(fmt.Sprintf("%d %s %s", e.Code, e.Message, string(e.Data)))
	}
	return string(response.Result)
}

// TextOf returns the texts of a tool's result (an error's after "failed: "), or else [RawOf].
func TextOf(response *protocol.Response, err error) string {
	raw := RawOf(response, err)
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if json.Unmarshal([]byte(raw), &r) != nil || len(r.Content) == 0 {
		return raw
	}
	text := ""
	if r.IsError {
		text = "failed: "
	}
	for _, c := range r.Content {
		text += c.Text
	}
	return text
}

// Want compares two texts.
func Want(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

// Dial connects to a front over HTTP, as user (in the header X-User). If empty, it is anonymous.
func Dial(t testing.TB, h *hosted.Server, user string) protocol.Peer {
	t.Helper()
	handler, err := h.Handler(&serverhttp.Options{
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			return protocol.Principal{Subject: r.Header.Get("X-User")}, nil
		},
	})
	testkit.NoError(t, err)
	web := httptest.NewServer(hosted.KeepHeaders(handler, "X-User", "X-Absent"))
	transport := &http.Transport{}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = handler.Shutdown(ctx)
		transport.CloseIdleConnections()
		web.Close()
	})
	peer, err := clienthttp.New(web.URL, &clienthttp.Options{
		HTTPClient: &http.Client{Transport: transport}, Header: http.Header{"X-User": {user}},
	})
	testkit.NoError(t, err)
	return peer
}

// NewClient returns a client of an era.
func NewClient(t testing.TB, peer protocol.Peer, era protocol.Era, opts client.Options,
) *client.Client {
	t.Helper()
	opts.Era = era
	c, err := client.New(peer, &opts)
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Answering makes a client answer forms with an action, and with their message as content.
func Answering(action protocol.ElicitAction) client.Options {
	return client.Options{ElicitForm: func(_ context.Context, q *client.FormQuestion) (
		*protocol.ElicitResult, error) {
		if action != protocol.ActionAccept {
			return &protocol.ElicitResult{Action: action}, nil
		}
		return client.Accept(map[string]any{"text": q.Message})
	}}
}

// CallTool calls a tool and returns the outcome as [TextOf] does.
func CallTool(t testing.TB, c *client.Client, tool string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	result, err := c.CallTool(ctx, tool, nil)
	if err != nil {
		return "error: " + err.Error()
	}
	raw, err := json.Marshal(result)
	return TextOf(&protocol.Response{Result: raw}, err)
}
