package serverhttp_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/servertest"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A slowBody is a response, and a request body that comes after a while unless
// the deadline of the connection is earlier.
type slowBody struct {
	*httptest.ResponseRecorder
	io.Reader
	takes time.Duration
	late  chan struct{}

	mu    sync.Mutex
	reads []time.Time // deadlines that were set
}

func (s *slowBody) Read(p []byte) (int, error) {
	if s.takes > 0 {
		select {
		case <-time.After(s.takes):
			s.takes = 0
		case <-s.late:
			return 0, os.ErrDeadlineExceeded
		}
	}
	return s.Reader.Read(p)
}

func (s *slowBody) SetWriteDeadline(time.Time) error { return nil }

func (s *slowBody) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, t)
	if !t.IsZero() && !t.After(time.Now()) {
		close(s.late)
	}
	return nil
}

// TestReadTimeout holds when bodies are given up: not before their time, soon
// after it, whatever else arrives, and those that come in time never.
func TestReadTimeout(t *testing.T) {
	const limit = 8 * time.Second
	synctest.Test(t, func(t *testing.T) {
		h := servertest.NewHandler(t, newServer(t, nil), &serverhttp.Options{ReadTimeout: limit})
		message := body("server/discover", "")
		var running sync.WaitGroup
		for i := range 40 {
			begin := time.Duration(i) * 300 * time.Millisecond
			for _, takes := range []time.Duration{0, time.Second, limit - time.Millisecond,
				10 * limit} {
				running.Go(func() {
					time.Sleep(begin)
					s := &slowBody{ResponseRecorder: httptest.NewRecorder(),
						Reader: strings.NewReader(message), takes: takes, late: make(chan struct{})}
					r := httptest.NewRequest("POST", "/", s)
					r.Header, r.Host, r.ContentLength = headers("server/discover", ""), "localhost",
						int64(len(message))
					began := time.Now()
					h.ServeHTTP(s, r)
					took := time.Since(began)
					switch {
					case takes < limit:
						if s.Code != 200 || took != takes || len(s.reads) != 0 {
							t.Errorf("a body that takes %s: got status %d after %s and %d "+
								"deadlines, want 200 and none", takes, s.Code, took, len(s.reads))
						}
					case s.Code != 408 || took < limit || took > limit+limit/8 || len(s.reads) != 1:
						t.Errorf("a body that takes %s: got status %d after %s and %d deadlines, "+
							"want 408 after %s", takes, s.Code, took, len(s.reads), limit)
					}
				})
			}
		}
		running.Wait()
	})
}

// TestSlowSecondBody has bodies that stop on a connection that has served a
// request before, or come too slowly. The server then closes the connection by
// itself.
func TestSlowSecondBody(t *testing.T) {
	for _, trickle := range []bool{false, true} {
		ts, _ := serve(t, newServer(t, nil),
			&serverhttp.Options{ReadTimeout: 20 * time.Millisecond})
		conn := dial(t, ts)
		in := bufio.NewReader(conn)
		request := rawRequest(padded(10_000), "MCP-Protocol-Version: 2026-07-28",
			"Mcp-Method: server/discover")
		if got := responseWriter(t, conn, in, request); got.status != 200 {
			t.Fatalf("got status %d, want 200", got.status)
		}
		whole := len(request) - 9_000
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			ticks := time.NewTicker(time.Millisecond)
			defer ticks.Stop()
			for i := whole; trickle && i < len(request)-1; i++ {
				select {
				case <-ticks.C:
				case <-ctx.Done():
					return
				}
				if _, err := io.WriteString(conn, request[i:i+1]); err != nil {
					return
				}
			}
		}()
		if got := responseWriter(t, conn, in, request[:whole]); got.status != 408 {
			t.Errorf("trickling %v: got status %d, want 408", trickle, got.status)
		}
		cancel()
		hangsUp(t, in)
	}
}

// TestRefusedSlowBody refuses requests whose bodies do not come.
func TestRefusedSlowBody(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil),
		&serverhttp.Options{ReadTimeout: 20 * time.Millisecond, MaxBodyBytes: 1000})
	for _, tt := range []struct {
		name, head string
		status     int
	}{
		{"media type", "Content-Type: text/plain\r\nContent-Length: 100", 415},
		{"origin", "Content-Type: application/json\r\nOrigin: http://other.example\r\nContent-Length: 100",
			403},
		{"length", "Content-Type: application/json\r\nContent-Length: 1001", 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := dial(t, ts)
			in := bufio.NewReader(conn)
			if got := responseWriter(t, conn, in, "POST / HTTP/1.1\r\nHost: localhost\r\n"+tt.head+
				"\r\n\r\n{"); got.status != tt.status {
				t.Errorf("%s: got status %d, want %d", tt.head, got.status, tt.status)
			}
			hangsUp(t, in)
		})
	}
}

// TestUnreadResponses has a client that sends requests and reads no response.
// Each is small, and written by net/http when its handler has returned.
func TestUnreadResponses(t *testing.T) {
	ts := httptest.NewUnstartedServer(servertest.NewHandler(t, newServer(t, nil),
		&serverhttp.Options{WriteTimeout: 50 * time.Millisecond}))
	closed := make(chan struct{})
	ts.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if err := conn.(*net.TCPConn).SetWriteBuffer(4 << 10); err != nil {
			t.Error(err)
		}
		return ctx
	}
	ts.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	ts.Start()
	t.Cleanup(ts.Close)
	conn := dial(t, ts)
	if err := errors.Join(conn.SetReadBuffer(4<<10),
		conn.SetWriteDeadline(time.Now().Add(20*time.Second))); err != nil {
		t.Fatal(err)
	}
	request := rawRequest(body("server/discover", ""), "MCP-Protocol-Version: 2026-07-28",
		"Mcp-Method: server/discover")
	for {
		_, err := io.WriteString(conn, request)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the server waits for a client that does not read")
		}
		if err != nil {
			break
		}
	}
	<-closed
}

// exchange writes a request as it stands and reads the response.
func responseWriter(t *testing.T, conn net.Conn, in *bufio.Reader, request string) *reply {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, response)
}

// hangsUp fails unless the server closes the connection.
func hangsUp(t *testing.T, in io.Reader) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, in)
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the connection stays open")
	}
}
