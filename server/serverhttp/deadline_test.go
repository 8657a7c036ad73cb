package serverhttp_test

import (
	"bufio"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A slowBody is a response, and a request body that arrives before or after the read deadline.
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

// Bodies are given up soon after the timeout, not before, and independently of each other.
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

// A stalled or slow second body makes the server close the connection.
func TestSlowSecondBody(t *testing.T) {
	for name, trickle := range map[string]bool{"stops": false, "trickles": true} {
		bubble(t, name, func(t *testing.T) {
			h := servertest.NewHandler(t, newServer(t, nil), nil)
			conn := servertest.ServePipe(t, h).Dial()
			in := bufio.NewReader(conn)
			request := rawRequest(padded(10_000), "MCP-Protocol-Version: 2026-07-28",
				"Mcp-Method: server/discover")
			wantStatus(t, "the answer", exchange(t, conn, in, request), 200)
			whole := len(request) - 9_000
			began := time.Now()
			var trickling sync.WaitGroup
			defer trickling.Wait()
			trickling.Go(func() {
				for i := whole; trickle && i < len(request)-1; i++ {
					time.Sleep(time.Second)
					if _, err := io.WriteString(conn, request[i:i+1]); err != nil {
						return
					}
				}
			})
			wantStatus(t, "the answer", exchange(t, conn, in, request[:whole]), 408)
			wantEqual(t, "answered after", time.Since(began), (30 * time.Second))
			hangsUp(t, in)
		})
	}
}

// Requests are refused without waiting for their bodies.
func TestRefusedSlowBody(t *testing.T) {
	for _, tt := range []struct {
		name, head string
		status     int
	}{
		{"media type", "Content-Type: text/plain\r\nContent-Length: 100", 415},
		{"origin", "Content-Type: application/json\r\nOrigin: http://other.example\r\n" +
			"Content-Length: 100", 403},
		{"length", "Content-Type: application/json\r\nContent-Length: 1001", 413},
		{"huge length", "Content-Type: application/json\r\nContent-Length: 999999999999", 413},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			conn := servertest.ServePipe(t, servertest.NewHandler(t, newServer(t, nil),
				&serverhttp.Options{ReadTimeout: time.Second,
					Limits: serverhttp.Limits{BodyBytes: 1000}})).Dial()
			in := bufio.NewReader(conn)
			request := "POST / HTTP/1.1\r\nHost: localhost\r\n" + tt.head + "\r\n\r\n{"
			wantStatus(t, "the answer", exchange(t, conn, in, request), tt.status)
			hangsUp(t, in)
		})
	}
}

// The client never reads the small responses, which net/http writes after the handler.
func TestUnreadResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := servertest.NewHandler(t, newServer(t, nil), nil)
		conn := servertest.ServePipe(t, h).Dial()
		request := rawRequest(body("server/discover", ""), "MCP-Protocol-Version: 2026-07-28",
			"Mcp-Method: server/discover")
		began := time.Now()
		for {
			if _, err := io.WriteString(conn, request); err != nil {
				break
			}
		}
		wantEqual(t, "the server waits for a client that does not read",
			time.Since(began), (30 * time.Second))
	})
}

func hangsUp(t *testing.T, in io.Reader) {
	t.Helper()
	began := time.Now()
	_, _ = io.Copy(io.Discard, in)
	if took := time.Since(began); took > (30 * time.Second) {
		t.Errorf("the connection stays open for %v", took)
	}
}
