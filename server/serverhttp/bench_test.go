package serverhttp_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

type confirmation struct {
	Approve bool   `json:"approve"`
	Note    string `json:"note,omitempty"`
}

// benchServer returns a server with a plain tool, and a tool that asks and seals its state.
func benchServer(b *testing.B) *server.Server {
	b.Helper()
	srv, err := server.New(&server.Options{Info: protocol.Implementation{Name: "bench",
		Version: "1.0.0"}})
	noError(b, err)
	type message struct {
		Message string `json:"message"`
		Upper   bool   `json:"upper,omitempty"`
	}
	server.AddTool(srv, server.Tool{Name: "echo"},
		func(_ context.Context, _ *server.ToolCall, in message) (toolOutcome, error) {
			return server.Text(in.Message), nil
		})
	type deployment struct {
		Environment string `json:"environment"`
		Version     string `json:"version"`
	}
	confirm := roundtrip.MustQuestion[confirmation]("confirm")
	server.AddTool(srv, server.Tool{Name: "deploy"},
		func(ctx context.Context, _ *server.ToolCall, in deployment) (toolOutcome, error) {
			if answer := confirm.Answer(ctx); answer.Outcome == roundtrip.Accepted &&
				answer.Content.Approve {
				return server.Text("deployed " + in.Version + " to " + in.Environment), nil
			}
			return roundtrip.InputRequired(confirm.Elicit("Deploy " + in.Version + " to " +
				in.Environment + "?")), nil
		})
	return srv
}

// driver calls a handler without a socket, with the allocations of net/http.
type driver struct {
	h      http.Handler
	base   context.Context
	header http.Header
	body   readCloser
	w      recorder
}

type readCloser struct{ bytes.Reader }

func (*readCloser) Close() error { return nil }

type recorder struct {
	header http.Header
	code   int
	bytes.Buffer
}

func (r *recorder) Header() http.Header  { return r.header }
func (r *recorder) WriteHeader(code int) { r.code = code }
func (r *recorder) Flush()               {}

func newDriver(h http.Handler, tool string) *driver {
	addr := net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080})
	return &driver{
		h: h, base: context.WithValue(context.Background(), http.LocalAddrContextKey, addr),
		header: headers("tools/call", tool),
	}
}

func (d *driver) do(body []byte) []byte {
	ctx, cancel := context.WithCancel(d.base)
	defer cancel()
	d.body.Reset(body)
	r := (&http.Request{
		Method: "POST", URL: &url.URL{Path: "/mcp"}, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     d.header, Body: &d.body, ContentLength: int64(len(body)),
		Host:       "127.0.0.1:8080",
		RequestURI: "/mcp",
	}).WithContext(ctx)
	d.w.header = make(http.Header, 4)
	d.w.Reset()
	d.h.ServeHTTP(&d.w, r)
	return d.w.Bytes()
}

const benchMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"perf","version":"1.0.0"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`

func benchCall(params string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":1000000000,"method":"tools/call","params":{` + params + `,` + benchMeta + `}}`)
}

const deployParams = `"name":"deploy","arguments":{"environment":"production","version":"v1.2.3"}`

func (d *driver) loop(b *testing.B, body []byte, want string) {
	if got := d.do(body); d.w.code != 200 || !bytes.Contains(got, []byte(want)) {
		b.Fatalf("got status %d: %s", d.w.code, got)
	}
	b.ReportAllocs()
	for b.Loop() {
		d.do(body)
	}
}

// BenchmarkServeHTTP measures a plain call and both legs of a sealed flow, without a socket.
func BenchmarkServeHTTP(b *testing.B) {
	srv := benchServer(b)
	h := servertest.NewHandler(b, srv, nil)
	b.Run("echo", func(b *testing.B) {
		newDriver(h, "echo").loop(b, benchCall(`"name":"echo","arguments":{"message":"hello, world","upper":false}`), "hello, world")
	})
	b.Run("leg1", func(b *testing.B) {
		newDriver(h, "deploy").loop(b, benchCall(deployParams), "requestState")
	})
	b.Run("leg2", func(b *testing.B) {
		d := newDriver(h, "deploy")
		_, state, _ := strings.Cut(string(d.do(benchCall(deployParams))), `"requestState":"`)
		state, _, _ = strings.Cut(state, `"`)
		d.loop(b, benchCall(deployParams+`,"inputResponses":{"confirm":{"action":"accept","content":{"approve":true}}},"requestState":"`+state+`"`), "deployed")
	})
	b.Run("refused", func(b *testing.B) {
		d := newDriver(h, "other")
		b.ReportAllocs()
		for b.Loop() {
			d.do(benchCall(deployParams))
		}
	})
}

// BenchmarkLoopback measures a plain call over one connection.
func BenchmarkLoopback(b *testing.B) {
	ts := httptest.NewServer(servertest.NewHandler(b, benchServer(b), nil))
	defer ts.Close()
	message := string(benchCall(`"name":"echo","arguments":{"message":"hello, world","upper":false}`))
	b.ReportAllocs()
	for b.Loop() {
		response, err := ts.Client().Do(newRequest(b, ts, "POST", headers("tools/call", "echo"),
			message))
		noError(b, err)
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}

// BenchmarkLegacyCall measures a call in a session.
func BenchmarkLegacyCall(b *testing.B) {
	d := newDriver(servertest.NewHandler(b, benchServer(b), nil), "echo")
	d.header = http.Header{"Content-Type": {"application/json"},
		"Accept": {"application/json, text/event-stream"}}
	d.do([]byte(initializeBody("2025-11-25")))
	d.header["Mcp-Session-Id"] = d.w.header["Mcp-Session-Id"]
	d.header["Mcp-Protocol-Version"] = []string{"2025-11-25"}
	request := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if response := d.do(request); !bytes.Contains(response, []byte("hello")) {
			b.Fatalf("got %s", response)
		}
	}
}

// BenchmarkLegacySession measures opening and ending a session.
func BenchmarkLegacySession(b *testing.B) {
	h := servertest.NewHandler(b, benchServer(b), nil)
	d := newDriver(h, "")
	request := []byte(initializeBody("2025-11-25"))
	b.ReportAllocs()
	for b.Loop() {
		d.header = http.Header{"Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"}}
		d.do(request)
		session := d.w.header.Get("Mcp-Session-Id")
		if w := serveDirect(b.Context(), h, "DELETE", session, ""); w.Code != http.StatusNoContent {
			b.Fatalf("got status %d", w.Code)
		}
	}
}
