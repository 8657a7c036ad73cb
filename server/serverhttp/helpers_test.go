package serverhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

type echoInput struct {
	Message string `json:"message"`
}

// newServer returns a server with one tool of each kind.
func newServer(t testing.TB, opts *server.Options) *server.Server {
	t.Helper()
	srv, err := server.New(opts)
	noError(t, err)
	echo := func(_ context.Context, _ *server.ToolCall, in echoInput) (toolOutcome, error) {
		return server.Text(in.Message), nil
	}
	server.AddTool(srv, server.Tool{Name: "echo"}, echo)
	server.AddTool(srv, server.Tool{Name: "wörk"}, echo)
	server.AddTool(srv, server.Tool{Name: "=?base64?YQ==?="}, echo)
	addTool(srv, "notify", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		for i := range 2 {
			if err := call.Notify(ctx, progress(i)); err != nil {
				return nil, err
			}
		}
		return server.Text("done"), nil
	})
	addTool(srv, "notify then fail",
		func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
			_ = call.Notify(ctx, progress(0))
			return nil, protocol.Errorf(protocol.CodeMissingRequiredClientCapability,
				"too late for a status")
		})
	addTool(srv, "panic", func(context.Context, *server.ToolCall) (toolOutcome, error) {
		panic("on purpose")
	})
	server.AddRawTool(srv, server.Tool{Name: "sample",
		Needs: protocol.ClientCapabilities{Sampling: &protocol.SamplingCapability{}}},
		says("never"))
	addTool(srv, "large", says(strings.Repeat("large ", 50_000)))
	server.AddResource(srv, server.Resource{URI: "test://a", Name: "a"},
		func(_ context.Context, call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return &protocol.ReadResourceResult{
				Contents: []protocol.ResourceContents{{URI: "test://a",
					Text: "a"}}}, nil
		})
	return srv
}

func progress(i int) *protocol.Notification {
	return &protocol.Notification{Method: protocol.NotifyProgress,
		Params: fmt.Appendf(nil, `{"progressToken":"p","progress":%d}`, i)}
}

// serve runs a handler on a loopback address.
func serve(t testing.TB, srv *server.Server,
	opts *serverhttp.Options) (*httptest.Server, *serverhttp.Handler) {
	t.Helper()
	h := servertest.NewHandler(t, srv, opts)
	return serveHandler(t, h), h
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// body returns a request with id 7. params is the content of the object, without _meta.
func body(method, params string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + meta + `}}`
}

// headers returns the headers of a correct request. Pairs of change set headers; "" removes one.
func headers(method, name string, change ...string) http.Header {
	h := http.Header{
		"Content-Type":         {"application/json"},
		"Accept":               {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"},
		"Mcp-Method":           {method},
	}
	if name != "" {
		h.Set("Mcp-Name", name)
	}
	for i := 0; i+1 < len(change); i += 2 {
		if h.Del(change[i]); change[i+1] != "" {
			h.Set(change[i], change[i+1])
		}
	}
	return h
}

type reply struct {
	status int
	header http.Header
	body   string
	ID     json.RawMessage
	Result struct {
		ResultType string
		IsError    bool
		Content    []struct{ Text string }
	}
	Error *struct {
		Code    int64
		Message string
		Data    struct {
			Supported []string
			Requested string
		}
	}
}

func (r *reply) code() int64 {
	if r.Error == nil {
		return 0
	}
	return r.Error.Code
}

// The function do sends a request; the Host header is taken from h.
func do(t testing.TB, ts *httptest.Server, method string, h http.Header, body string) *reply {
	t.Helper()
	return send(t, ts, newRequest(t, ts, method, h, body))
}

func newRequest(t testing.TB, ts *httptest.Server, method string, h http.Header,
	body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, ts.URL, strings.NewReader(body))
	noError(t, err)
	r.Header = h
	r.Host = h.Get("Host")
	return r
}

func send(t testing.TB, ts *httptest.Server, r *http.Request) *reply {
	t.Helper()
	response, err := ts.Client().Do(r)
	noError(t, err)
	return read(t, response)
}

// read reads a whole response and checks its general properties.
func read(t testing.TB, response *http.Response) *reply {
	t.Helper()
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	noError(t, err)
	got := &reply{status: response.StatusCode, header: response.Header, body: string(data)}
	if response.Header.Get("Content-Type") != "application/json" || len(data) == 0 {
		return got // 202, events, or the response to HEAD
	}
	if bytes.ContainsAny(data, "\r\n") {
		t.Errorf("JSON is not on one line: %q", data)
	}
	if err := json.Unmarshal(data, got); err != nil {
		t.Errorf("body %q: %v", data, err)
	}
	return got
}

// rawExchange sends a raw request on its own connection and reads one response.
func rawExchange(t testing.TB, ts *httptest.Server, request string) *reply {
	t.Helper()
	conn := dial(t, ts)
	return exchange(t, conn, bufio.NewReader(conn), request)
}

// exchange sends a raw request and reads the response.
func exchange(t testing.TB, conn net.Conn, in *bufio.Reader, request string) *reply {
	t.Helper()
	write(t, conn, request)
	response, err := http.ReadResponse(in, nil)
	noError(t, err)
	return read(t, response)
}

func dial(t testing.TB, ts *httptest.Server) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", ts.Listener.Addr().String())
	noError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// servePipes is serve with in-process connections, for synctest.
func servePipes(t testing.TB, srv *server.Server,
	opts *serverhttp.Options) (*httptest.Server, *serverhttp.Handler) {
	t.Helper()
	h := servertest.NewHandler(t, srv, opts)
	return servertest.StartPipe(t, h), h
}

// rawRequest returns a POST of body. Each line of extra is a header.
func rawRequest(body string, extra ...string) string {
	return "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
		strings.Join(append(extra, fmt.Sprintf("Content-Length: %d", len(body))), "\r\n") +
		"\r\n\r\n" + body
}

func serveHandler(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	return ts
}

var (
	noError    = testkit.NoError
	wantPart   = testkit.WantPart
	wantIs     = testkit.WantIs
	wantNoPart = testkit.WantNoPart
	wantEqual  = testkit.WantEqual
)

func wantStatus(t testing.TB, what string, got *reply, status int) {
	t.Helper()
	if got.status != status {
		t.Errorf("%s: got status %d, want %d: %s", what, got.status, status, got.body)
	}
}

// wantRefusal checks a response's status and error code, 0 for none.
func wantRefusal(t testing.TB, what string, got *reply, status int, code int64) {
	t.Helper()
	wantStatus(t, what, got, status)
	if got.code() != code {
		t.Errorf("%s: got code %d, want %d: %s", what, got.code(), code, got.body)
	}
}

func wantText(t testing.TB, what string, got *reply, text string) {
	t.Helper()
	wantRefusal(t, what, got, 200, 0)
	wantPart(t, what, got.body, fmt.Sprintf(`"text":%q`, text))
}

type (
	toolOutcome = protocol.CallToolOutcome
	rawTool     = func(context.Context, *server.ToolCall) (toolOutcome, error)
)

func addTool(srv *server.Server, name string, handle rawTool) {
	server.AddRawTool(srv, server.Tool{Name: name}, handle)
}

func says(text ...string) rawTool {
	return func(context.Context, *server.ToolCall) (toolOutcome, error) {
		return server.Text(text...), nil
	}
}

// wantError checks that err is not nil.
func wantError(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("no error: %s", what)
	}
}

func write(t testing.TB, to io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(to, text)
	noError(t, err)
}

func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// The function before returns a middleware that calls look first; an error refuses the request.
func before(look func(ctx context.Context, r *server.Request) error) []server.Middleware {
	return []server.Middleware{func(next server.Handler) server.Handler {
		return func(ctx context.Context, r *server.Request) (protocol.Result, error) {
			if err := look(ctx, r); err != nil {
				return nil, err
			}
			return next(ctx, r)
		}
	}}
}
