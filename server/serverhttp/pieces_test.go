package serverhttp_test

import (
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// letters returns n letters that depend on seed.
func letters(seed uint64, n int) string {
	source := rand.New(rand.NewPCG(seed, 0))
	text := make([]byte, n)
	for i := range text {
		text[i] = 'a' + byte(source.IntN(26))
	}
	return string(text)
}

// TestPieces has bodies of one piece and of many arrive at the same time, and
// holds that each is put together from its own.
func TestPieces(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	frame := len(body("tools/call", `"name":"echo","arguments":{"message":""}`))
	var running sync.WaitGroup
	for i, size := range []int{1000, 64<<10 - 1, 64 << 10, 64<<10 + 1, 128<<10 - 1, 128 << 10, 128<<10 + 1, 1 << 20} {
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
						t.Errorf("%d bytes, chunked %v: got status %d and another message back", size, chunked, got.status)
					}
				}
			})
		}
	}
	running.Wait()
}

// A meter is a body that never comes, and knows how much of it was asked for.
type meter struct{ most int }

func (m *meter) Read(p []byte) (int, error) {
	m.most = max(m.most, len(p))
	return 0, io.ErrUnexpectedEOF
}

// TestAnnouncedIsNotSetAside holds that the length of a body that does not come
// costs no memory.
func TestAnnouncedIsNotSetAside(t *testing.T) {
	h := serverhttp.New(newServer(t, nil), nil)
	for _, length := range []int64{-1, 64 << 10, 64<<10 + 1, serverhttp.DefaultMaxBodyBytes} {
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

// BenchmarkBody is a call with an argument of that size.
func BenchmarkBody(b *testing.B) {
	for name, size := range map[string]int{"1KiB": 1 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			h := serverhttp.New(benchServer(b), nil)
			b.SetBytes(int64(size))
			newDriver(h, "echo").loop(b, benchCall(`"name":"echo","arguments":{"message":"`+strings.Repeat("x", size)+`"}`), "xxx")
		})
	}
}
