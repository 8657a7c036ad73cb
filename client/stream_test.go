package client_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// A lineServer is the server's end of a stream. The test drives it.
type lineServer struct {
	*testing.T
	*client.Stream
	in  *bufio.Reader
	out *io.PipeWriter

	mu       sync.Mutex
	reported []string
}

func newLineServer(t *testing.T, opts client.StreamOptions) *lineServer {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &lineServer{T: t, in: bufio.NewReader(inR), out: outW}
	opts.Violation = func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reported = append(s.reported, err.Error())
	}
	s.Stream = client.NewStream(outR, inW, &opts)
	t.Cleanup(func() {
		s.Close()
		inR.Close()
		outW.Close()
	})
	return s
}

func (s *lineServer) send(lines ...string) {
	s.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(s.out, l+"\n"); err != nil {
			s.Fatalf("write: %v", err)
		}
	}
}

// expect reads a line, which must be a message with the method.
func (s *lineServer) expect(method string) string {
	s.Helper()
	line, err := s.in.ReadString('\n')
	if err != nil {
		s.Fatalf("read: %v", err)
	}
	m, err := protocol.DecodeMessage([]byte(strings.TrimSuffix(line, "\n")))
	if err != nil {
		s.Fatalf("client wrote no message: %v: %q", err, line)
	}
	got := ""
	switch m := m.(type) {
	case *protocol.Request:
		got = m.Method
	case *protocol.Notification:
		got = m.Method
	}
	if got != method {
		s.Fatalf("got %s, want %s", line, method)
	}
	return strings.TrimSpace(line)
}

func (s *lineServer) expectCancelled(id string) {
	s.Helper()
	if got := s.expect(protocol.NotifyCancelled); !strings.Contains(got, `"requestId":`+id+`}`) {
		s.Errorf("got %s, want the cancellation of %s", got, id)
	}
}

// violations waits until the client is idle. It returns the violations since the last call of it.
func (s *lineServer) violations() (reported []string) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	reported, s.reported = s.reported, nil
	return reported
}

type inFlight struct {
	s    *lineServer
	done chan struct{}
	resp *protocol.Response
	err  error

	mu  sync.Mutex
	got []string
	// The channel hold, unless nil, blocks every notification.
	hold chan struct{}
	fail error
}

func (r *inFlight) Notify(ctx context.Context, n *protocol.Notification) error {
	r.mu.Lock()
	r.got = append(r.got, n.Method)
	r.mu.Unlock()
	if r.hold != nil {
		select {
		case <-r.hold:
		case <-ctx.Done():
		}
	}
	return r.fail
}

func (r *inFlight) told() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func request(id int64, method, meta string) *protocol.Request {
	return &protocol.Request{
		ID: protocol.IntID(id), Method: method, Params: json.RawMessage(`{"_meta":{` + meta + `}}`),
	}
}

func progress(token string) string {
	return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":1}}`
}

func logLine(level string) string {
	return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + level + `","data":1}}`
}

func result(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }

func changed(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"` + protocol.MetaSubscriptionID + `":` + id + `}}}`
}

// start sends a request and waits until the server has read it.
func (s *lineServer) start(ctx context.Context, req *protocol.Request, r *inFlight) *inFlight {
	s.Helper()
	s.begin(ctx, req, r)
	s.expect(req.Method)
	return r
}

func (s *lineServer) begin(ctx context.Context, req *protocol.Request, r *inFlight) {
	r.s, r.done = s, make(chan struct{})
	go func() {
		defer close(r.done)
		r.resp, r.err = s.Handle(ctx, req, r)
	}()
}

// end waits until the request ends. If it does not end soon, the test fails.
func (r *inFlight) end() error {
	r.s.Helper()
	synctest.Wait()
	select {
	case <-r.done:
	default:
		r.s.Fatal("request runs on")
	}
	return r.err
}

func (r *inFlight) wantResult() {
	r.s.Helper()
	if err := r.end(); err != nil || r.resp == nil || r.resp.Error != nil {
		r.s.Errorf("got %+v, %v, want a result", r.resp, err)
	}
}

func (r *inFlight) wantError(want error) {
	r.s.Helper()
	if err := r.end(); !errors.Is(err, want) || r.resp != nil {
		r.s.Errorf("got %+v, %v, want %v", r.resp, err, want)
	}
}

func bubble(t *testing.T, opts client.StreamOptions, f func(t *testing.T, s *lineServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newLineServer(t, opts)) })
}

func runBubble(t *testing.T, name string, f func(t *testing.T, s *lineServer)) {
	t.Run(name, func(t *testing.T) { bubble(t, client.StreamOptions{}, f) })
}

func TestStreamRoutes(t *testing.T) {
	const call, listen = protocol.MethodCallTool, protocol.MethodListen
	running3 := func(t *testing.T, s *lineServer, meta1, meta2 string) (a, b, sub *inFlight) {
		a = s.start(t.Context(), request(1, call, meta1), &inFlight{})
		b = s.start(t.Context(), request(2, call, meta2), &inFlight{})
		sub = s.start(t.Context(), request(3, listen, ""), &inFlight{})
		return a, b, sub
	}
	const level = `"` + protocol.MetaLogLevel + `":"info"`
	tests := []struct {
		name, meta1, meta2, line string
		want                     int // receiver: 1, 2 or 3: that request; 0: Violation; -1: none
	}{
		{"progress of the first", `"progressToken":"a"`, `"progressToken":"b"`, progress(`"a"`), 1},
		{"progress of the second", `"progressToken":"1"`, `"progressToken":1`, progress(`1`), 2},
		{"progress with another token", `"progressToken":"a"`, "", progress(`"c"`), -1},
		{"progress without a token", "", "",
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`, -1},
		{"progress without parameters", "", "", `{"jsonrpc":"2.0","method":"notifications/progress"}`, -1},
		{"log message", level, "", logLine("error"), 1},
		{"log message, not severe", level, "", logLine("debug"), 0},
		{"log message, unknown level", level, "", logLine("loud"), 0},
		{"log message that nobody asked for", "", "", logLine("error"), 0},
		{"log message that two asked for", level, level, logLine("error"), 0},
		{"subscription", "", "", changed("3"), 3},
		{"subscription, id of another type", "", "", changed(`"3"`), 0},
		{"subscription, id of a call", "", "", changed("1"), 0},
		{"subscription, no id", "", "", changed("null"), 0},
		{"no subscription", "", "", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, 0},
		{"progress within a subscription", `"progressToken":"a"`, "",
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"_meta":{"` + protocol.MetaSubscriptionID + `":3},"progressToken":"a","progress":1}}`,
			3},
		{"unknown", "", "", `{"jsonrpc":"2.0","method":"x"}`, 0},
	}
	for _, test := range tests {
		runBubble(t, test.name, func(t *testing.T, s *lineServer) {
			a, b, sub := running3(t, s, test.meta1, test.meta2)
			s.send(test.line)
			for i, got := range [][]string{s.violations(), a.told(), b.told(), sub.told()} {
				if want := i == test.want; (len(got) == 1) != want || len(got) > 1 {
					t.Errorf("receiver %d got %q, want it: %t", i, got, want)
				}
			}
			s.send(result("2"), result("1"), result("3"))
			a.wantResult()
			b.wantResult()
			sub.wantResult()
			if a.resp.ID != protocol.IntID(1) || b.resp.ID != protocol.IntID(2) {
				t.Errorf("responses are mixed up: %v, %v", a.resp.ID, b.resp.ID)
			}
		})
	}
}

// In this test a receiver is so slow that the response overtakes the notifications.
func TestStreamOrder(t *testing.T) {
	bubble(t, client.StreamOptions{}, func(t *testing.T, s *lineServer) {
		a := s.start(t.Context(), request(1, "a", `"progressToken":1`),
			&inFlight{hold: make(chan struct{})})
		b := s.start(t.Context(), request(2, "b", ""), &inFlight{})
		s.send(progress("1"), progress("1"), progress("1"), result("1"), result("2"))
		b.wantResult() // a's receiver delays no other request
		if got := a.told(); len(got) != 1 {
			t.Errorf("got %q while the first is held", got)
		}
		close(a.hold)
		a.wantResult()
		if got := a.told(); len(got) != 3 {
			t.Errorf("got %q, want all three before the response", got)
		}
	})
}

func TestBackMayCall(t *testing.T) {
	bubble(t, client.StreamOptions{}, func(t *testing.T, s *lineServer) {
		inner := &inFlight{}
		back := backFunc(func(ctx context.Context, _ *protocol.Notification) error {
			inner.resp, inner.err = s.Handle(ctx, request(2, "inner", ""), nil)
			return inner.err
		})
		done := make(chan error, 1)
		go func() {
			_, err := s.Handle(t.Context(), request(1, "outer", `"progressToken":1`), back)
			done <- err
		}()
		s.expect("outer")
		s.send(progress("1"))
		s.expect("inner")
		s.send(result("2"), result("1"))
		if err := <-done; err != nil || inner.resp == nil {
			t.Errorf("got %v, %+v", err, inner.resp)
		}
	})
}

type backFunc func(context.Context, *protocol.Notification) error

func (f backFunc) Notify(ctx context.Context, n *protocol.Notification) error { return f(ctx, n) }

func TestStreamCancellation(t *testing.T) {
	quit := errors.New("quit")
	runBubble(t, "in flight", func(t *testing.T, s *lineServer) {
		ctx, cancel := context.WithCancelCause(t.Context())
		a := s.start(ctx, request(1, "a", `"progressToken":1`), &inFlight{})
		b := s.start(t.Context(), request(2, "b", ""), &inFlight{})
		cancel(quit)
		a.wantError(quit)
		s.expectCancelled("1")
		s.send(progress("1"), result("1"), result("1"), result("2"))
		b.wantResult()
		if got := s.violations(); len(got) > 0 {
			t.Errorf("a late response was reported: %q", got)
		}
		if got := a.told(); len(got) > 0 {
			t.Errorf("got %q after the end", got)
		}
		// The first request's id is free again.
		again := s.start(t.Context(), request(1, "a", ""), &inFlight{})
		s.send(result("1"))
		again.wantResult()
	})
	runBubble(t, "server does not read", func(t *testing.T, s *lineServer) {
		ctx, cancel := context.WithCancelCause(t.Context())
		a, b := &inFlight{}, &inFlight{}
		s.begin(ctx, request(1, "a", ""), a)
		synctest.Wait() // the request is being written
		s.begin(ctx, request(2, "b", ""), b)
		synctest.Wait() // the request waits for its turn
		cancel(quit)
		a.wantError(quit)
		b.wantError(quit)
		s.expect("a")
		s.expectCancelled("1")
		// The second request was never sent, so it is not cancelled.
		c := s.start(t.Context(), request(3, "c", ""), &inFlight{})
		s.send(result("3"))
		c.wantResult()
	})
	runBubble(t, "before it is sent", func(t *testing.T, s *lineServer) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(quit)
		a := &inFlight{}
		s.begin(ctx, request(1, "a", ""), a)
		a.wantError(quit)
		wantEqual(t, "notify", s.Stream.Notify(ctx, &protocol.Notification{Method: "n"}), quit)
		s.start(t.Context(), request(2, "b", ""), &inFlight{})
	})
	runBubble(t, "initialize", func(t *testing.T, s *lineServer) {
		ctx, cancel := context.WithCancelCause(t.Context())
		a := s.start(ctx, request(1, protocol.MethodInitialize, ""), &inFlight{})
		cancel(quit)
		a.wantError(quit)
		s.start(t.Context(), request(2, "b", ""), &inFlight{}) // sent directly after initialize
	})
	runBubble(t, "while a notification is handled", func(t *testing.T, s *lineServer) {
		ctx, cancel := context.WithCancelCause(t.Context())
		a := s.start(ctx, request(1, "a", `"progressToken":1`),
			&inFlight{hold: make(chan struct{})})
		s.send(progress("1"), progress("1"))
		synctest.Wait()
		cancel(quit)
		a.wantError(quit)
		s.expectCancelled("1")
		if got := a.told(); len(got) != 1 {
			t.Errorf("got %q, want nothing after the end", got)
		}
	})
	runBubble(t, "by whom the notifications are for", func(t *testing.T, s *lineServer) {
		a := s.start(t.Context(), request(1, "a", `"progressToken":1`), &inFlight{fail: quit})
		s.send(progress("1"))
		a.wantError(quit)
		s.expectCancelled("1")
	})
}

func TestStreamViolations(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"garbage", "Listening on port 80", "no message"},
		{"blank", "  ", ""},
		{"batch", "[" + result("1") + "]", "no message"},
		{"request", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`, "request"},
		{"malformed request", `{"jsonrpc":"2.0","id":1,"x":NaN,"method":"elicitation/create"}`,
			"no message"},
		{"response with an unknown id", result("9"), ""},
		{"response with the id as text", result(`"1"`), ""},
		{"malformed, unknown id", `{"jsonrpc":"2.0","id":9,"result":[]}`, "no message"},
		{"notification with a list", `{"jsonrpc":"2.0","method":"notifications/message","params":[]}`,
			"no message"},
		{"unreadable, without id", `{"jsonrpc":"2.0","result":{"v":NaN}}`, "no message"},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, "no message"},
		{
			"cancels a call",
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "cancelled",
		},
		{"cancels the unknown",
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`, ""},
		{"cancels nothing", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, "cancelled"},
	}
	for _, test := range tests {
		runBubble(t, test.name, func(t *testing.T, s *lineServer) {
			a := s.start(t.Context(), request(1, "a", ""), &inFlight{})
			s.send(test.line)
			got := strings.Join(s.violations(), "; ")
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got the report %q, want %q", got, test.want)
			}
			s.send(result("1"))
			a.wantResult()
		})
	}
}

// An unreadable response ends its call. A result whose text is cut within a character is valid.
func TestUnreadableResponses(t *testing.T) {
	bubble(t, client.StreamOptions{}, func(t *testing.T, s *lineServer) {
		a := s.start(t.Context(), request(1, "a", ""), &inFlight{})
		b := s.start(t.Context(), request(2, "b", ""), &inFlight{})
		c := s.start(t.Context(), request(3, "c", ""), &inFlight{})
		s.send(`{"result":{"v":NaN},"jsonrpc":"2.0","id":1}`,
			`{"jsonrpc":"2.0","id":2,"result":{"requestState":"\ud83d"}}`,
			`{"jsonrpc":"2.0","id":3,"result":{"text":"cut \ud83d"}}`)
		for call, want := range map[*inFlight]string{a: "unexpected 'N'", b: "lone surrogate"} {
			if err := call.end(); !isResponseError(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		if err := c.end(); err != nil || string(c.resp.Result) != "{\"text\":\"cut \ufffd\"}" {
			t.Errorf("got %+v, %v", c.resp, err)
		}
	})
}

func TestErrorWithoutID(t *testing.T) {
	bubble(t, client.StreamOptions{}, func(t *testing.T, s *lineServer) {
		const line = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`
		a := s.start(t.Context(), request(1, "a", ""), &inFlight{})
		b := s.start(t.Context(), request(2, "b", ""), &inFlight{})
		s.send(line, result("1"))
		a.wantResult()
		s.send(line)
		if err := b.end(); err != nil || b.resp.Error == nil ||
			b.resp.Error.Code != protocol.CodeParseError {
			t.Errorf("got %+v, %v, want the error", b.resp, err)
		}
	})
}

func TestLongLines(t *testing.T) {
	bubble(t, client.StreamOptions{MaxLineBytes: 300}, func(t *testing.T, s *lineServer) {
		a := s.start(t.Context(), request(1, "a", ""), &inFlight{})
		sub := s.start(t.Context(), request(2, protocol.MethodListen, ""), &inFlight{})
		s.send(`{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", 100_000) + `"}}`)
		a.wantError(client.ErrMessageTooLong)
		s.expectCancelled("1")
		s.send(changed("2"), result("2"))
		sub.wantResult()
		if got := sub.told(); len(got) != 1 {
			t.Errorf("subscription got %q", got)
		}
		if got := s.violations(); len(got) != 1 {
			t.Errorf("got the reports %q, want one", got)
		}
	})
}

func TestNegativeMaxLineBytesIsNoLimit(t *testing.T) {
	for limit, want := range map[int]error{0: client.ErrMessageTooLong, -1: nil} {
		bubble(t, client.StreamOptions{MaxLineBytes: limit}, func(t *testing.T, s *lineServer) {
			a := s.start(t.Context(), request(1, "a", ""), &inFlight{})
			s.send(`{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", 16<<20) + `"}}`)
			if err := a.end(); !errors.Is(err, want) || (a.resp == nil) != (want != nil) {
				t.Errorf("got %+v, %v, want %v", a.resp, err, want)
			}
			if want != nil {
				s.expectCancelled("1")
			}
		})
	}
}

func TestEndOfStream(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name string
		end  func(s *lineServer)
		want []error
	}{
		{"server closes its end", func(s *lineServer) { s.out.Close() },
			[]error{client.ErrStreamEnded}},
		{"in the middle of a line", func(s *lineServer) {
			io.WriteString(s.out, result("1")[:20])
			s.out.Close()
		}, []error{client.ErrStreamEnded}},
		{"read fails", func(s *lineServer) { s.out.CloseWithError(broken) },
			[]error{client.ErrStreamEnded, broken}},
		{"closed", func(s *lineServer) { s.Close() }, []error{client.ErrClosed}},
	}
	for _, test := range tests {
		runBubble(t, test.name, func(t *testing.T, s *lineServer) {
			a := s.start(t.Context(), request(1, "a", ""), &inFlight{})
			b := s.start(t.Context(), request(2, "b", ""), &inFlight{})
			wantEqual(t, "Err while the stream runs", s.Err(), nil)
			test.end(s)
			<-s.Done()
			for _, want := range test.want {
				a.wantError(want)
				b.wantError(want)
				wantIs(t, "Err is", s.Err(), want)
				if _, err := s.Handle(t.Context(), request(3, "c", ""), nil); !errors.Is(err,
					want) {
					t.Errorf("later request: got %v, want %v", err, want)
				}
				if err := s.Stream.Notify(t.Context(),
					&protocol.Notification{Method: "n"}); !errors.Is(err, want) {
					t.Errorf("later notification: got %v, want %v", err, want)
				}
			}
			if err := s.Close(); err != nil || s.Close() != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// The stream ends when the server's input is closed.
func TestWriteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outR, outW := io.Pipe()
		inR, inW := io.Pipe()
		inR.Close()
		s := client.NewStream(outR, inW, nil)
		_, err := s.Handle(t.Context(), request(1, "a", ""), nil)
		if !errors.Is(err, client.ErrStreamEnded) || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v, want %v for %v", err, client.ErrStreamEnded, io.ErrClosedPipe)
		}
		s.Close()
		outW.Close()
	})
}

func TestServerEndsSubscription(t *testing.T) {
	cancel := func(id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"bye"}}`
	}
	runBubble(t, "with a result", func(t *testing.T, s *lineServer) {
		sub := s.start(t.Context(), request(1, protocol.MethodListen, ""), &inFlight{})
		s.send(cancel("1"), cancel("1"), result("1"))
		sub.wantResult()
	})
	runBubble(t, "without", func(t *testing.T, s *lineServer) {
		sub := s.start(t.Context(), request(1, protocol.MethodListen, ""), &inFlight{})
		s.send(cancel("1"))
		time.Sleep(time.Second)
		sub.wantError(client.ErrSubscriptionEnded)
		s.start(t.Context(), request(2, "b", ""), &inFlight{}) // not cancelled twice
	})
}

func TestOverrun(t *testing.T) {
	runBubble(t, "call", func(t *testing.T, s *lineServer) {
		a := s.start(t.Context(), request(1, "a", `"progressToken":1`),
			&inFlight{hold: make(chan struct{})})
		for range 2000 {
			s.send(progress("1"))
		}
		if got := s.violations(); len(got) == 0 {
			t.Error("nothing was reported")
		}
		s.send(result("1"))
		close(a.hold)
		a.wantResult()
		if got := len(a.told()); got < 1000 || got > 1100 {
			t.Errorf("got %d notifications, want about 1024", got)
		}
	})
	runBubble(t, "subscription", func(t *testing.T, s *lineServer) {
		sub := s.start(t.Context(), request(1, protocol.MethodListen, ""),
			&inFlight{hold: make(chan struct{})})
		for range 2000 {
			s.send(changed("1"))
		}
		s.expectCancelled("1")
		close(sub.hold)
		sub.wantError(client.ErrOverrun)
	})
	t.Run("bytes", func(t *testing.T) {
		bubble(t, client.StreamOptions{MaxLineBytes: 1000}, func(t *testing.T, s *lineServer) {
			sub := s.start(t.Context(), request(1, protocol.MethodListen, ""),
				&inFlight{hold: make(chan struct{})})
			for range 10 {
				s.send(strings.Replace(changed("1"), `"_meta"`,
					`"x":"`+strings.Repeat("x", 400)+`","_meta"`, 1))
			}
			s.expectCancelled("1")
			close(sub.hold)
			sub.wantError(client.ErrOverrun)
		})
	})
}

func TestStreamRefusesToSend(t *testing.T) {
	bubble(t, client.StreamOptions{}, func(t *testing.T, s *lineServer) {
		for name, req := range map[string]*protocol.Request{
			"nil":   nil,
			"no id": {Method: "a"},
			"newline": {
				ID: protocol.IntID(1), Method: "a", Params: json.RawMessage("{\"a\":\"\n\"}"),
			},
			"two messages": {ID: protocol.IntID(1), Method: "a", Params: json.RawMessage("{}}\n{")},
			"array":        {ID: protocol.IntID(1), Method: "a", Params: json.RawMessage(`[]`)},
			"duplicate keys": {ID: protocol.IntID(1), Method: "a",
				Params: json.RawMessage(`{"a":1,"a":2}`)},
		} {
			if resp, err := s.Handle(t.Context(), req, nil); err == nil {
				t.Errorf("%s: got %+v, want an error", name, resp)
			}
		}
		if err := s.Stream.Notify(t.Context(), nil); err == nil {
			t.Error("nil notification was sent")
		}
		a := s.start(t.Context(), request(1, "a", ""), &inFlight{})
		if _, err := s.Handle(t.Context(), request(1, "b", ""), nil); err == nil {
			t.Error("an id was used twice")
		}
		s.send(result("1"))
		a.wantResult()
	})
}

func TestNotificationsOfAStreamWithoutListeners(t *testing.T) {
	in := strings.Join([]string{logLine("error"), progress("1"), "garbage", changed("1")}, "\n")
	s := client.NewStream(strings.NewReader(in), io.Discard, nil)
	<-s.Done()
	wantIs(t, "error", s.Err(), client.ErrStreamEnded)
	s.Close()
}

func streamTo(t testing.TB, srv *server.Server, opts *client.Options) *client.Client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- srv.ServeStream(context.Background(), inR, outW, nil)
		outW.Close()
	}()
	c, err := client.New(client.NewStream(outR, inW, nil), opts)
	noError(t, err)
	t.Cleanup(func() {
		noError(t, c.Close())
		<-ended
	})
	return c
}

func newEcho(t testing.TB) *server.Server {
	t.Helper()
	srv, err := server.New(nil)
	noError(t, err)
	t.Cleanup(func() { srv.Close() })
	server.AddTool(srv, server.Tool{
		Name: "echo",
	}, func(ctx context.Context, call *server.ToolCall, in struct {
		Text string `json:"text"`
	}) (protocol.CallToolOutcome, error) {
		if err := call.Progress(ctx, 1, 1, in.Text); err != nil {
			return nil, err
		}
		return server.Text(in.Text), nil
	})
	return srv
}

func TestStreamMultiplexes(t *testing.T) {
	var mu sync.Mutex
	heard := map[string]int{}
	c := streamTo(t, newEcho(t), nil)
	ctx := client.WithProgress(t.Context(), func(_ context.Context, p *protocol.Progress) {
		mu.Lock()
		defer mu.Unlock()
		heard[p.Message]++
	})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			text := fmt.Sprintf("call %d", i)
			r, err := c.CallTool(ctx, "echo", map[string]any{"text": text})
			if err != nil {
				t.Error(err)
			} else if got := r.Content[0].(*protocol.TextContent).Text; got != text {
				t.Errorf("got %q, want %q", got, text)
			}
			mu.Lock()
			defer mu.Unlock()
			wantEqual(t, fmt.Sprintf("%s: heard of progress: times", text), heard[text], 1)
		})
	}
	all.Wait()
}

func BenchmarkStream(b *testing.B) {
	c := streamTo(b, newEcho(b), nil)
	args := json.RawMessage(`{"text":"x"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.CallTool(b.Context(), "echo", args); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzStream reads arbitrary bytes while requests of every kind run.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		result("1") + "\n" + result("2") + "\n" + result("3"),
		progress("1") + "\n" + logLine("info"), changed("3"),
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`, "garbage\n[]\n\n", strings.Repeat("x", 3000),
	} {
		if seed == "" {
			f.Fatal("empty seed")
		}
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		release := make(chan struct{})
		r := io.MultiReader(readFunc(func([]byte) (int, error) { <-release; return 0, io.EOF }),
			iotest.HalfReader(bytes.NewReader(in)))
		s := client.NewStream(r, io.Discard, &client.StreamOptions{
			MaxLineBytes: 2000, Violation: func(error) {},
		})
		var all sync.WaitGroup
		for id, method := range map[int64]string{1: protocol.MethodCallTool,
			2: protocol.MethodListTools, 3: protocol.MethodListen} {
			all.Go(func() {
				back := backFunc(func(_ context.Context, n *protocol.Notification) error {
					if n == nil {
						t.Error("nil notification")
					}
					return nil
				})
				resp, err := s.Handle(t.Context(), request(id, method,
					`"progressToken":1,"`+protocol.MetaLogLevel+`":"debug"`), back)
				if (resp == nil) == (err == nil) {
					t.Errorf("got %+v, %v", resp, err)
				}
			})
		}
		close(release)
		all.Wait()
		s.Close()
	})
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }
