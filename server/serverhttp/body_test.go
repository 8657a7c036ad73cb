package serverhttp_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func padded(n int) string {
	message := body("server/discover", "")
	return message + strings.Repeat(" ", n-len(message))
}

func TestBodySize(t *testing.T) {
	const limit = 10_000
	ts, _ := serve(t, newServer(t, nil),
		&serverhttp.Options{Limits: serverhttp.Limits{BodyBytes: limit}})
	for _, tt := range []struct {
		size   int
		status int
	}{{500, 200}, {limit - 1, 200}, {limit, 200}, {limit + 1, 413}, {10 * limit, 413}} {
		t.Run(strconv.Itoa(tt.size), func(t *testing.T) {
			for _, chunked := range []bool{false, true} {
				r := newRequest(t, ts, "POST", headers("server/discover", ""), padded(tt.size))
				if chunked {
					r.ContentLength = -1
				}
				got := send(t, ts, r)
				wantStatus(t, fmt.Sprintf("%d bytes, chunked %v", tt.size, chunked), got, tt.status)
				if tt.status == 413 && (got.code() != -32600 ||
					!strings.Contains(got.Error.Message, strconv.Itoa(limit))) {
					t.Errorf("got %s, want code -32600 and the limit", got.body)
				}
			}
		})
	}
}

// A wrapping handler, such as decompression, may change the body but not its length.
func TestWrongLength(t *testing.T) {
	h := servertest.NewHandler(t, newServer(t, nil), nil)
	for _, length := range []int64{0, 1, 100, 65_535, 65_536, 65_537, 300_000, 4 << 20} {
		ts := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.ContentLength = length
			h.ServeHTTP(w, r)
		}))
		for _, size := range []int{500, 70_000, 300_000} {
			wantStatus(t, fmt.Sprintf("%d bytes announced as %d", size, length),
				do(t, ts, "POST", headers("server/discover", ""), padded(size)), 200)
		}
	}
}

// The client writes its whole request before it reads.
func TestRefusedBodyIsRead(t *testing.T) {
	authenticate := func(r *http.Request) (p protocol.Principal, err error) {
		if r.Header.Get("Authorization") == "" {
			err = errors.New("no token")
		}
		return p, err
	}
	ts, _ := serve(t, newServer(t, nil), &serverhttp.Options{Authenticate: authenticate,
		Limits: serverhttp.Limits{BodyBytes: 1000}})
	long := strings.Repeat(" ", 30<<20)
	for _, test := range []struct {
		header string
		status int
	}{{"Authorization: Bearer ann", 413}, {"Authorization: Bearer ann\r\nAccept: text/html", 406},
		{"X-None: 1", 401}} {
		for _, chunked := range []bool{false, true} {
			request := rawRequest(long, test.header)
			if chunked {
				request = strings.Replace(request, "Content-Length: 31457280\r\n\r\n",
					"Transfer-Encoding: chunked\r\n\r\n1e00000\r\n", 1) + "\r\n0\r\n\r\n"
			}
			conn := dial(t, ts)
			in := bufio.NewReader(conn)
			for range 2 { // the connection is reused
				wantStatus(t, fmt.Sprint(test.header, ", chunked ", chunked),
					exchange(t, conn, in, request), test.status)
			}
		}
	}
}

// The wrapping handler has its own limit.
func TestWrappedBodyLimit(t *testing.T) {
	ts := serveHandler(t,
		http.MaxBytesHandler(servertest.NewHandler(t, newServer(t, nil), nil), 1000))
	wantStatus(t, "the answer",
		do(t, ts, "POST", headers("server/discover", ""), padded(2000)), 413)
}

// The connection ends within the body, with the other direction open.
func TestCutBody(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	conn := dial(t, ts)
	request := rawRequest(body("server/discover", ""))
	write(t, conn, request[:len(request)-1])
	noError(t, conn.CloseWrite())
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	noError(t, err)
	wantRefusal(t, "the answer", read(t, response), 400, -32700)
}

// The body's timeout does not limit the request, even if another handler has read the body.
func TestReadTimeoutEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate()
		h := servertest.NewHandler(t, gate.server(t), nil)
		ts := servertest.StartPipe(t, http.HandlerFunc(func(
			w http.ResponseWriter, r *http.Request,
		) {
			data, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(strings.NewReader(string(data)))
			h.ServeHTTP(w, r)
		}))
		ctx, done := gate.call(t, ts)
		select {
		case <-ctx.Done():
			t.Error("the time for the body ended the request")
		case <-time.After(2 * (30 * time.Second)):
		}
		close(gate.open)
		wantStatus(t, "the answer", <-done, 200)
	})
}

// Any input gets one JSON object on one line.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		body("server/discover", ""), body("tools/call", `"name":"echo","arguments":{"message":"hi"}`),
		`{"jsonrpc":"2.0","id":"x","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `[]`, `{`, "\xff",
	} {
		f.Add([]byte(seed), "2026-07-28", "tools/call", "echo", "http://localhost",
			"application/json", "*/*")
	}
	h := servertest.NewHandler(f, newServer(f, nil), nil)
	f.Fuzz(func(t *testing.T, data []byte, version, method, name, origin, content, accept string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(string(data)))
		r.Host = "localhost"
		for key, value := range map[string]string{
			"Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name,
			"Origin": origin, "Content-Type": content, "Accept": accept,
		} {
			r.Header[key] = []string{value}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := read(t, w.Result())
		switch got.status {
		case 200, 202, 400, 403, 404, 406, 415:
		default:
			t.Errorf("got status %d", got.status)
		}
		if got.status == 200 && strings.Trim(version, " \t") != string(protocol.Latest) {
			t.Errorf("a request with the version header %q was served", version)
		}
	})
}

// letters returns n letters derived from seed.
func letters(seed uint64, n int) string {
	source := rand.New(rand.NewPCG(seed, 0))
	text := make([]byte, n)
	for i := range text {
		text[i] = 'a' + byte(source.IntN(26))
	}
	return string(text)
}

// Concurrent bodies of one and many pieces are not mixed up.
func TestPieces(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	frame := len(body("tools/call", `"name":"echo","arguments":{"message":""}`))
	var running sync.WaitGroup
	for i, size := range []int{1000, 64<<10 - 1, 64 << 10, 64<<10 + 1, 128<<10 - 1, 128 << 10,
		128<<10 + 1, 1 << 20} {
		for _, chunked := range []bool{false, true} {
			running.Go(func() {
				for round := range 4 {
					message := letters(uint64(round*100+i), size-frame)
					r := newRequest(t, ts, "POST", headers("tools/call", "echo"), body("tools/call", `"name":"echo","arguments":{"message":"`+message+`"}`))
					if chunked {
						r.ContentLength = -1
					}
					got := send(t, ts, r)
					if len(got.Result.Content) != 1 || got.Result.Content[0].Text != message {
						t.Errorf("%d bytes, chunked %v: got status %d and another message back",
							size, chunked, got.status)
					}
				}
			})
		}
	}
	running.Wait()
}

// A meter is a reader that blocks for ever and records the largest requested size.
type meter struct{ most int }

func (m *meter) Read(p []byte) (int, error) {
	m.most = max(m.most, len(p))
	return 0, io.ErrUnexpectedEOF
}

// The announced length of a missing body costs no memory.
func TestAnnouncedIsNotSetAside(t *testing.T) {
	h := servertest.NewHandler(t, newServer(t, nil), nil)
	for _, length := range []int64{-1, 64 << 10, 64<<10 + 1, (4 << 20)} {
		var m meter
		r := httptest.NewRequest("POST", "/", &m)
		r.Header, r.Host, r.ContentLength = headers("server/discover", ""), "localhost", length
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 400 || m.most == 0 || m.most > 64<<10+1 {
			t.Errorf("announced %d: got status %d and room for %d bytes, want 400 and at most 65537", length, w.Code, m.most)
		}
	}
}

// BenchmarkBody measures calls by argument size.
func BenchmarkBody(b *testing.B) {
	for name, size := range map[string]int{"1KiB": 1 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			h := servertest.NewHandler(b, benchServer(b), nil)
			b.SetBytes(int64(size))
			newDriver(h, "echo").loop(b, benchCall(`"name":"echo","arguments":{"message":"`+strings.Repeat("x", size)+`"}`), "xxx")
		})
	}
}
