package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

func line(id, method, members string) string {
	if members != "" {
		members = "," + members
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"_meta":{"%s":"2026-07-28","%s":{},"%s":"debug","progressToken":%s}%s}}`,
		id, method, protocol.MetaProtocolVersion, protocol.MetaClientCapabilities,
		protocol.MetaLogLevel, id, members)
}

func callLine(id, tool string) string {
	return line(id, "tools/call", fmt.Sprintf(`"name":%q`, tool))
}

func cancelLine(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

type rawTool = func(context.Context, *server.ToolCall) (toolOutcome, error)

// A wire is a client of one stream that writes and reads by hand.
type wire struct {
	*testing.T
	in    io.WriteCloser
	out   *bufio.Reader
	ended chan error
}

func (h *harness) serve(ctx context.Context, opts *server.StreamOptions) *wire {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	h.Cleanup(func() { inW.Close(); outR.Close() })
	return h.serveOn(ctx, inR, outW, inW, outR, opts)
}

func (h *harness) serveOn(ctx context.Context, in io.Reader, out io.Writer, inW io.WriteCloser,
	outR io.Reader, opts *server.StreamOptions) *wire {
	w := &wire{T: h.T, in: inW, out: bufio.NewReader(outR), ended: make(chan error, 1)}
	go func() {
		w.ended <- h.ServeStream(ctx, in, out, opts)
		if c, ok := out.(io.Closer); ok {
			c.Close()
		}
	}()
	return w
}

func (w *wire) send(lines ...string) {
	w.Helper()
	for _, l := range lines {
		write(w, w.in, l+"\n")
	}
}

func (w *wire) next() protocol.Message {
	w.Helper()
	text, err := w.out.ReadBytes('\n')
	if err != nil {
		w.Fatalf("read: %v after %q", err, text)
	}
	return message(w.T, bytes.TrimSuffix(text, []byte("\n")))
}

func message(t testing.TB, text []byte) protocol.Message {
	t.Helper()
	m, err := protocol.DecodeMessage(text)
	if err != nil {
		t.Fatalf("output is no message: %v: %q", err, text)
	}
	if req, ok := m.(*protocol.Request); ok {
		t.Fatalf("output is a request: %+v", req)
	}
	return m
}

// response reads the next message, which must be the response to id.
func (w *wire) response(id string) *protocol.Response {
	w.Helper()
	m := w.next()
	r, ok := m.(*protocol.Response)
	if !ok {
		w.Fatalf("got %s, want the response to %s", describe(m), id)
	}
	if r.ID.String() != id {
		w.Fatalf("got the response to %s, want the one to %s", r.ID, id)
	}
	return r
}

func (w *wire) succeeds(id string) {
	w.Helper()
	wantCode(w, "the response", w.response(id), 0)
}

func (w *wire) fails(id string, code int64) {
	w.Helper()
	wantCode(w, "request", w.response(id), code)
}

// silentUntilEnd fails on any further message.
func (w *wire) silentUntilEnd() {
	w.Helper()
	if rest, err := io.ReadAll(w.out); len(rest) > 0 || err != nil {
		w.Errorf("got %q, %v, want nothing more", rest, err)
	}
}

func (w *wire) end() error {
	w.in.Close()
	return <-w.ended
}

// describe abbreviates a message: method and id, or id and code.
func describe(m protocol.Message) string {
	switch m := m.(type) {
	case *protocol.Response:
		if m.Error != nil {
			return fmt.Sprintf("%s!%d", m.ID, m.Error.Code)
		}
		return m.ID.String() + "+"
	case *protocol.Notification:
		return m.Method
	}
	return fmt.Sprintf("%T", m)
}

// blocking adds a tool that runs until released or cancelled, and returns the cause.
func (h *harness) blocking() (started chan string, release chan struct{}, causes chan error) {
	started, release, causes = make(chan string, 16), make(chan struct{}), make(chan error, 16)
	h.tool("block", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		started <- call.Meta.ProgressToken.String()
		select {
		case <-release:
		case <-ctx.Done():
			causes <- context.Cause(ctx)
			if err := call.Progress(ctx, 1, 0, "too late"); err == nil &&
				context.Cause(ctx) != server.ErrClosed {
				// The test checks whether the client gets it.
				_ = call.Log(ctx, protocol.LevelError, "", "too late")
			}
		}
		return server.Text("done"), nil
	})
	return started, release, causes
}

func (h *harness) plain() {
	h.tool("x", says("x"))
}

func TestStreamsOfEveryKind(t *testing.T) {
	kinds := map[string]func(t *testing.T, h *harness) *wire{
		"pipes": func(t *testing.T, h *harness) *wire {
			inR, inW, err := os.Pipe()
			noError(t, err)
			outR, outW, err := os.Pipe()
			noError(t, err)
			t.Cleanup(func() { inR.Close(); outR.Close() })
			return h.serveOn(t.Context(), inR, outW, inW, outR, nil)
		},
		"unix socket": func(t *testing.T, h *harness) *wire {
			here, there := sockets(t)
			return h.serveOn(t.Context(), there, there, closeWriter{here}, here, nil)
		},
	}
	for name, start := range kinds {
		t.Run(name, func(t *testing.T) {
			testkit.CheckLeaks(t)
			h := newHarness(t, nil)
			h.plain()
			started, release, _ := h.blocking()
			w := start(t, h)
			w.send(callLine("1", "block"), callLine(`"two"`, "x"))
			w.succeeds(`"two"`) // overtakes the first
			<-started
			close(release)
			w.succeeds("1")
			noError(t, w.end())
			w.silentUntilEnd()
		})
	}
}

// A closeWriter closes the sending half.
type closeWriter struct{ *net.UnixConn }

func (c closeWriter) Close() error { return c.CloseWrite() }

func sockets(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	noError(t, err)
	defer l.Close()
	client, err := net.Dial("unix", l.Addr().String())
	noError(t, err)
	conn, err := l.Accept()
	noError(t, err)
	t.Cleanup(func() { client.Close(); conn.Close() })
	return client.(*net.UnixConn), conn.(*net.UnixConn)
}

func TestStreamInput(t *testing.T) {
	long := strings.Repeat("x", 600)
	tests := []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"blank lines", "\n\r\n   \n" + callLine("1", "x") + "\n\n", []string{"1+"}},
		{"CRLF", callLine("1", "x") + "\r\n", []string{"1+"}},
		{"last line without an end", callLine("1", "x"), []string{"1+"}},
		{"last line cut off", callLine("1", "x")[:60], []string{"1!-32700"}},
		{"garbage, then a request", "hello\n" + callLine("1", "x") + "\n",
			[]string{"!-32700", "1+"}},
		{"invalid UTF-8", "\"\xff\"\n", []string{"!-32700"}},
		{"batch", "[" + callLine("1", "x") + "," + callLine("2", "x") + "]\n", []string{"!-32600"}},
		{"not a message, with an id", `{"jsonrpc":"2.0","id":7}` + "\n", []string{"7!-32600"}},
		{"NaN", strings.Replace(callLine("1", "x"), `"x"`, "NaN", 1), []string{"1!-32700"}},
		{"text cut within a character", line("1", "tools/call", `"name":"x","arguments":{"a":"\ud83d"}`),
			[]string{"1+"}},
		{"notification with a list", `{"jsonrpc":"2.0","method":"n","params":[]}` + "\n" +
			callLine("1", "x"), []string{"1+"}},
		{"answer with NaN", `{"jsonrpc":"2.0","id":1,"result":{"content":{"a":NaN}}}`, nil},
		{"duplicate member", `{"jsonrpc":"2.0","id":7,"id":8,"method":"tools/list"}` + "\n", []string{"!-32700"}},
		{"responses", `{"jsonrpc":"2.0","id":7,"result":{}}` + "\n" + `{"jsonrpc":"2.0","error":{"code":1,"message":""}}` + "\n", nil},
		{"notifications", `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","method":"x","params":{}}` + "\n", nil},
		{"too long", `{"long":"` + long + "\"}\n" + callLine("1", "x") + "\n",
			[]string{"!-32600", "1+"}},
		{"unknown method", line("1", "tools/eat", "") + "\n", []string{"1!-32601"}},
		{"legacy client", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n", []string{"0+"}},
		{"cancelled without params", `{"jsonrpc":"2.0","method":"notifications/cancelled"}` + "\n" + callLine("1", "x"), []string{"1+"}},
		{"cancelled without id", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}` + "\n" + callLine("1", "x"), []string{"1+"}},
		{"cancelled with an unknown id", cancelLine(`"1"`) + "\n" + callLine("1", "x"),
			[]string{"1+"}},
		{"cancelled with an object", cancelLine(`{}`) + "\n" + callLine("1", "x"), []string{"1+"}},
		{"cancelled as a request", strings.Replace(cancelLine("1"), `"method"`, `"id":9,"method"`,
			1), []string{"9!-32602"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, nil)
			h.plain()
			var out bytes.Buffer
			if err := h.ServeStream(t.Context(), strings.NewReader(test.in), &out,
				&server.StreamOptions{MaxLineBytes: 500}); err != nil {
				t.Errorf("stream ended with %v, want nil", err)
			}
			var got []string
			for text := range bytes.Lines(out.Bytes()) {
				got = append(got, describe(message(t, bytes.TrimSuffix(text, []byte("\n")))))
			}
			wantList(t, "the result", got, test.want)
		})
	}
}

func TestMaxLineBytes(t *testing.T) {
	long := strings.TrimSuffix(callLine("1", "x"), "}") + strings.Repeat(" ", 16<<20) + "}\n"
	for name, tc := range map[string]struct {
		limit int
		want  string
	}{
		"default":  {0, "!-32600"},
		"no limit": {-1, "1+"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			h.plain()
			var out bytes.Buffer
			opts := &server.StreamOptions{MaxLineBytes: tc.limit}
			noError(t, h.ServeStream(t.Context(), strings.NewReader(long), &out, opts))
			wantEqual(t, "the result",
				describe(message(t, bytes.TrimSuffix(out.Bytes(), []byte("\n")))), tc.want)
		})
	}
}

func TestStreamBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		started, release, _ := h.blocking()
		w := h.serve(t.Context(), &server.StreamOptions{MaxInFlight: 2})
		w.send(callLine("1", "block"), callLine("2", "block"), callLine("3", "block"))
		w.fails("3", protocol.CodeBusy)
		w.send(callLine("1", "block"))
		w.fails("1", protocol.CodeInvalidRequest) // the id is taken
		<-started
		<-started
		release <- struct{}{}
		first, ok := w.next().(*protocol.Response)
		if !ok || first.Error != nil {
			t.Fatalf("got %+v, want a result", first)
		}
		// There is room, and the id is free.
		w.send(callLine(first.ID.String(), "block"))
		<-started
		close(release)
		for range 2 {
			if got := describe(w.next()); got != "1+" && got != "2+" {
				t.Errorf("got %s, want results of 1 and 2", got)
			}
		}
		noError(t, w.end())
		w.silentUntilEnd()
	})
}

func TestStreamCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.plain()
		started, _, causes := h.blocking()
		w := h.serve(t.Context(), nil)
		w.send(callLine("1", "block"), callLine(`"1"`, "block"))
		<-started
		<-started
		w.send(cancelLine("1"))
		wantPart(t, "context ended with", fmt.Sprint(<-causes), "cancelled")
		synctest.Wait() // the handler has returned, and tried to send
		select {
		case cause := <-causes:
			t.Fatalf(`"1" was cancelled too: %v`, cause)
		default:
		}
		w.send(callLine("2", "x"))
		w.succeeds("2") // no message of 1 precedes it
		w.send(callLine("1", "x"))
		w.succeeds("1") // the id is free
		w.send(cancelLine(`"1"`), cancelLine(`"1"`))
		noError(t, w.end())
		w.silentUntilEnd()
	})
}

// A request can be cancelled while its notification waits for the client to read.
func TestCancellationOvertakesSlowReader(t *testing.T) {
	for name, context := range map[string]func(context.Context) context.Context{
		"context of the request": func(ctx context.Context) context.Context { return ctx },
		"another context":        context.WithoutCancel,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { cancelUnread(t, context) })
		})
	}
}

func cancelUnread(t *testing.T, derive func(context.Context) context.Context) {
	h := newHarness(t, nil)
	h.plain()
	told := make(chan error, 1)
	h.tool("talk", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		for i := range 3 {
			if err := call.Progress(derive(ctx), float64(i+1), 0, ""); err != nil {
				told <- err
				return nil, err
			}
		}
		return server.Text("done"), nil
	})
	w := h.serve(t.Context(), nil)
	w.send(callLine("1", "talk"))
	synctest.Wait() // the first message is being written, the second waits
	w.send(cancelLine("1"))
	synctest.Wait()
	wantEqual(t, "the result", describe(w.next()), protocol.NotifyProgress)
	w.send(callLine("2", "x"))
	w.succeeds("2")
	if err := <-told; err == nil {
		t.Error("handler was not told that nobody listens")
	}
	noError(t, w.end())
	w.silentUntilEnd()
}

func TestStreamKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.tool("talk", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
			for i := range 20 {
				if err := errors.Join(call.Progress(ctx, float64(i+1), 20, ""),
					call.Log(ctx, protocol.LevelInfo, "", i)); err != nil {
					return nil, err
				}
			}
			return server.Text("done"), nil
		})
		w := h.serve(t.Context(), nil)
		w.send(callLine("7", "talk"))
		for i := range 20 {
			var p protocol.Progress
			n, _ := w.next().(*protocol.Notification)
			if n == nil || json.Unmarshal(n.Params, &p) != nil || p.Progress != float64(i+1) ||
				p.Token != protocol.IntID(7) {
				t.Fatalf("got %+v, want progress %d", n, i+1)
			}
			n, _ = w.next().(*protocol.Notification)
			if n == nil || n.Method != protocol.NotifyMessage ||
				!strings.Contains(string(n.Params), fmt.Sprintf(`"data":%d`, i)) {
				t.Fatalf("got %+v, want log message %d", n, i)
			}
		}
		w.succeeds("7")
	})
}

// Invalid messages of handlers would break the stream.
func TestWhatIsNoMessageIsNotSent(t *testing.T) {
	bad := map[string]*protocol.Notification{
		"nil":              nil,
		"newline in text":  {Method: "x", Params: json.RawMessage("{\"a\":\"\n\"}")},
		"second message":   {Method: "x", Params: json.RawMessage("{}}\n{\"jsonrpc\":\"2.0\"}")},
		"duplicate member": {Method: "x", Params: json.RawMessage(`{"a":1,"a":2}`)},
	}
	for name, n := range bad {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			var got error
			h.tool("bad", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
				got = call.Notify(ctx, n)
				return server.Text("x"), nil
			})
			var out bytes.Buffer
			err := h.ServeStream(t.Context(), strings.NewReader(callLine("1", "bad")), &out, nil)
			if err != nil || got == nil {
				t.Errorf("stream ended with %v, handler got %v, want nil and an error", err, got)
			}
			m := message(t, bytes.TrimSuffix(out.Bytes(), []byte("\n")))
			wantEqual(t, "the result", describe(m), "1+")
		})
	}
}

func TestEndOfInput(t *testing.T) {
	// A slow tool ignores its context.
	slow := func(d time.Duration) rawTool {
		return func(context.Context, *server.ToolCall) (toolOutcome, error) {
			time.Sleep(d) // the time of a test bubble
			return server.Text("late"), nil
		}
	}
	tests := []struct {
		name  string
		tool  rawTool // nil: runs until its context ends
		opts  *server.StreamOptions
		want  []string
		after time.Duration
		err   string
	}{
		{"quick", slow(time.Second), nil, []string{"1+"}, time.Second, ""},
		{"as long as the grace", slow(time.Minute), &server.StreamOptions{Grace: time.Hour},
			[]string{"1+"}, time.Minute, ""},
		{"hangs", nil, nil, []string{"1!-32603"}, (2 * time.Second), ""},
		{"hangs, no grace", nil, &server.StreamOptions{Grace: -1}, []string{"1!-32603"}, 0, ""},
		{"stops a little later", slow((2 * time.Second) + time.Second/2), nil,
			[]string{"1+"}, (2 * time.Second) + time.Second/2, ""},
		{"never stops", slow(time.Hour), nil, nil, (2 * time.Second) + time.Second, "did not stop"},
	}
	for _, test := range tests {
		inBubble(t, test.name, func(t *testing.T) {
			h := newHarness(t, nil)
			tool := test.tool
			if tool == nil {
				tool = func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
					<-ctx.Done()
					return nil, protocol.Errorf(protocol.CodeInternalError, "%v",
						context.Cause(ctx))
				}
			}
			h.tool("t", tool)
			var out bytes.Buffer
			start := time.Now()
			err := h.ServeStream(t.Context(), strings.NewReader(callLine("1", "t")), &out,
				test.opts)
			wantEqual(t, "took", time.Since(start), test.after)
			if (err == nil) != (test.err == "") ||
				!strings.Contains(fmt.Sprint(err), test.err) {
				t.Errorf("stream ended with %v, want %q", err, test.err)
			}
			time.Sleep(2 * time.Hour) // the last handler returns
			synctest.Wait()
			var got []string
			for text := range bytes.Lines(out.Bytes()) {
				got = append(got, describe(message(t, bytes.TrimSuffix(text, []byte("\n")))))
			}
			wantList(t, "the result", got, test.want)
		})
	}
}

// ctx ends while the stream waits for input, and then for the client to read.
func TestStreamContext(t *testing.T) {
	quit := errors.New("quit")
	inBubble(t, "while reading", func(t *testing.T) {
		h := newHarness(t, nil)
		h.plain()
		started, _, causes := h.blocking()
		ctx, cancel := context.WithCancelCause(t.Context())
		w := h.serve(ctx, nil)
		w.send(callLine("1", "block"), line("2", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`))
		<-started
		w.next() // acknowledged
		cancel(quit)
		wantEqual(t, "handler was ended by", <-causes, quit)
		var got []string
		for len(got) < 3 {
			switch m := describe(w.next()); m {
			case protocol.NotifyProgress, protocol.NotifyMessage: // may still arrive
			default:
				got = append(got, m)
			}
		}
		slices.Sort(got)
		want := []string{"1+", "2+", protocol.NotifyCancelled}
		wantList(t, "the result", got, want)
		wantEqual(t, "stream ended with", <-w.ended, quit)
		w.in.Close() // frees the goroutine that reads
	})
	inBubble(t, "while writing", func(t *testing.T) {
		h := newHarness(t, nil)
		h.plain()
		ctx, cancel := context.WithCancelCause(t.Context())
		w := h.serve(ctx, nil)
		w.send("garbage", callLine("1", "x"), "garbage")
		synctest.Wait()
		cancel(quit)
		wantEqual(t, "stream ended with", <-w.ended, quit)
	})
	inBubble(t, "with a request that takes its time", func(t *testing.T) {
		h := newHarness(t, nil)
		h.plain()
		release := make(chan struct{})
		h.tool("slow", func(context.Context, *server.ToolCall) (toolOutcome, error) {
			<-release
			return server.Text("done"), nil
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		w := h.serve(ctx, nil)
		w.send(callLine("1", "slow"))
		synctest.Wait()
		cancel(quit)
		synctest.Wait()
		w.send(callLine("2", "x"))
		w.fails("2", protocol.CodeBusy) // too late
		close(release)
		w.succeeds("1")
		wantEqual(t, "stream ended with", <-w.ended, quit)
	})
	inBubble(t, "before it begins", func(t *testing.T) {
		h := newHarness(t, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(quit)
		wantEqual(t, "stream ended with", <-h.serve(ctx, nil).ended, quit)
	})
}

func TestUnreadOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.plain()
		w := h.serve(t.Context(), nil)
		w.send(callLine("1", "x"), callLine("2", "x"))
		start := time.Now()
		if err := w.end(); err == nil || !strings.Contains(err.Error(), "output that was not read") {
			t.Errorf("stream ended with %v, want an error that says why", err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// This is the same with an OS pipe; ctx ends.
func TestUnreadPipe(t *testing.T) {
	testkit.CheckLeaks(t)
	h := newHarness(t, nil)
	h.plain()
	outR, outW, err := os.Pipe()
	noError(t, err)
	defer outR.Close()
	outW.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := outW.Write(make([]byte, 4<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v, want a pipe that is full", err)
	}
	outW.SetWriteDeadline(time.Time{})
	inR, inW := io.Pipe()
	defer inR.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.ServeStream(ctx, inR, outW, nil) }()
	for range 2 { // the second is read when the first has gone to where it blocks
		write(t, inW, "garbage\n")
	}
	cancel()
	wantIs(t, "stream ended with", <-ended, context.Canceled)
	outW.Close()
}

func TestBrokenOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.plain()
		started, _, causes := h.blocking()
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		w := h.serveOn(t.Context(), inR, outW, inW, outR, nil)
		w.send(callLine("1", "block"))
		<-started
		outR.Close()
		w.send(callLine("2", "x"))
		wantIs(t, "stream ended with", <-w.ended, io.ErrClosedPipe)
		if cause := <-causes; cause == nil {
			t.Error("the other request runs on")
		}
		inW.Close()
	})
}

func TestBrokenInput(t *testing.T) {
	broken := errors.New("broken")
	h := newHarness(t, nil)
	inR, inW := io.Pipe()
	inW.CloseWithError(broken)
	wantIs(t, "stream ended with", h.ServeStream(t.Context(), inR, io.Discard, nil), broken)
}

func TestStreamSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t,
			&server.Options{Capabilities: protocol.ServerCapabilities{
				Tools: &protocol.ListCapability{}, Prompts: &protocol.ListCapability{}}})
		w := h.serve(t.Context(), nil)
		const listen = "subscriptions/listen"
		expect := func(method, id string) {
			t.Helper()
			n, ok := w.next().(*protocol.Notification)
			if !ok || n.Method != method ||
				!strings.Contains(string(n.Params), `"`+protocol.MetaSubscriptionID+`":`+id+`}`) {
				t.Fatalf("got %+v, want %s of %s", n, method, id)
			}
		}
		w.send(line("1", listen, `"notifications":{"toolsListChanged":true,"promptsListChanged":true}`))
		expect(protocol.NotifyAcknowledged, "1")
		w.send(line(`"1"`, listen, `"notifications":{"toolsListChanged":true}`))
		expect(protocol.NotifyAcknowledged, `"1"`)
		server.AddPrompt(h.Server, server.Prompt{Name: "p"}, getNothing)
		expect(protocol.NotifyPromptsChanged, "1")
		w.send(cancelLine("1"))
		synctest.Wait()
		h.plain()
		expect(protocol.NotifyToolsChanged, `"1"`)
		w.send(callLine("2", "x"))
		w.succeeds("2")
		w.in.Close()
		// The rest ends gracefully.
		n, ok := w.next().(*protocol.Notification)
		if !ok || n.Method != protocol.NotifyCancelled || string(n.Params) != `{"requestId":"1"}` {
			t.Fatalf("got %+v, want notifications/cancelled", n)
		}
		r := w.response(`"1"`)
		wantPart(t, "the result", string(r.Result), `"`+protocol.MetaSubscriptionID+`":"1"`)
		noError(t, <-w.ended)
		w.silentUntilEnd()
	})
}

func TestShutdownTellsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.plain()
		w := h.serve(t.Context(), nil)
		w.send(line("1", "subscriptions/listen", `"notifications":{}`))
		w.next()
		down := make(chan error, 1)
		go func() { down <- h.Shutdown(t.Context()) }()
		wantEqual(t, "the result", describe(w.next()), protocol.NotifyCancelled)
		w.succeeds("1")
		noError(t, <-down)
		w.send(callLine("2", "x"))
		w.fails("2", protocol.CodeBusy)
		noError(t, w.end())
	})
}

const childEnv = "RONDO_SERVER_CHILD" // makes the test binary a server, see [TestServeStdioChild]

// TestServeStdioChild is not a test but the server that others start.
func TestServeStdioChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		return
	}
	h := newHarness(t, nil)
	h.plain()
	if err := h.ServeStdio(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func TestServeStdio(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServeStdioChild$")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stdin = strings.NewReader(line("1", "server/discover", "") + "\n" + callLine("2", "x") +
		"\nbad\n")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child: %v: %s", err, &stderr)
	}
	var got []string
	for text := range bytes.Lines(out) {
		got = append(got, describe(message(t, bytes.TrimSuffix(text, []byte("\n")))))
	}
	slices.Sort(got)
	wantList(t, "the result", got, []string{"!-32700", "1+", "2+"})
}

func BenchmarkServeStream(b *testing.B) {
	s, err := server.New(nil)
	noError(b, err)
	addTool(s, "x", says("x"))
	request := []byte(callLine("1", "x") + "\n")
	in, requests, err := os.Pipe()
	noError(b, err)
	responses, out, err := os.Pipe()
	noError(b, err)
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStream(context.Background(), in, out, nil) }()
	reader := bufio.NewReader(responses)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := requests.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := reader.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
	requests.Close()
	noError(b, <-ended)
}

// Any input yields only valid messages.
func FuzzServeStream(f *testing.F) {
	seeds := []string{
		callLine("1", "x"), line("1", "tools/list", ""), line("1", "server/discover", ""),
		line(`"a"`, "prompts/list", ""),
		line("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a"]}`),
		callLine("1", "x") + "\n" + cancelLine("1") + "\n" + callLine("1", "x"),
		"garbage\n\n[]\n" + callLine("1", "missing"), `{"jsonrpc":"2.0","id":1,"result":{}}`,
		cancelLine("null"),
		strings.Repeat("x", 3000) + "\n" + callLine("2", "x"),
	}
	for _, seed := range seeds {
		if seed == "" {
			f.Fatal("empty seed")
		}
		f.Add([]byte(seed))
	}
	s, err := server.New(nil)
	noError(f, err)
	addTool(s, "x", says("x"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		err := s.ServeStream(t.Context(), bytes.NewReader(in), &out,
			&server.StreamOptions{MaxLineBytes: 2000, MaxInFlight: 3})
		noError(t, err)
		lines := 0
		for text := range bytes.Lines(out.Bytes()) {
			if len(text) == 0 || text[len(text)-1] != '\n' {
				t.Fatalf("output is cut off: %q", text)
			}
			message(t, text[:len(text)-1])
			lines++
		}
		if most := 3 * (bytes.Count(in, []byte("\n")) + 1); lines > most {
			t.Fatalf("%d lines of output, want at most %d", lines, most)
		}
	})
}
