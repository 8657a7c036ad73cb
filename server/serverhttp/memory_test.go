package serverhttp_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

var (
	// With the tag soak, manyStreams is near the server's default limit. Each stream takes two file
	// descriptors: ulimit -n must then allow 20,000.
	manyStreams = 1000
	// the default limit with the tag soak
	manySessions        = 500
	manySessionsTimeout = 2 * time.Second
)

func init() {
	if testkit.Soak {
		manyStreams, manySessions = 9000, 10_000
		manySessionsTimeout = time.Minute
	}
}

// maxStreamMemory is the limit of a quiet subscription, including the client: four times the memory
// of net/http.
const maxStreamMemory = 64 << 10

// A crowd is many clients with a stream each. They share a buffer and need no goroutines.
type crowd struct {
	conns []net.Conn
	buf   [8 << 10]byte
}

// read reads until suffix.
func (c *crowd) read(t *testing.T, conn net.Conn, suffix string) string {
	t.Helper()
	var text strings.Builder
	for !strings.HasSuffix(text.String(), suffix) {
		n, err := conn.Read(c.buf[:])
		if text.Write(c.buf[:n]); err != nil {
			t.Fatalf("after %q: %v", text.String(), err)
		}
	}
	return text.String()
}

// The method each reads for every client until suffix, which must contain part.
func (c *crowd) each(t *testing.T, suffix, part string) {
	t.Helper()
	for i, conn := range c.conns {
		if got := c.read(t, conn, suffix); !strings.Contains(got, part) {
			t.Fatalf("client %d was sent %q, want %s", i, got, part)
		}
	}
}

// inUse returns the memory of objects and stacks in use.
func inUse() uint64 {
	objects, stacks := memoryInUse()
	return objects + stacks
}

func memoryInUse() (objects, stacks uint64) {
	runtime.GC()
	runtime.GC() // twice, for pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.StackInuse
}

// TestManyStreams opens many subscriptions, notifies all of one change, and shuts down under load.
func TestManyStreams(t *testing.T) {
	testkit.CheckLeaks(t)
	srv := newServer(t, nil)
	ts, h := serve(t, srv, nil)
	before, c := inUse(), &crowd{}
	for range manyStreams {
		conn := dial(t, ts)
		write(t, conn, listenRequest(toTools))
		c.conns = append(c.conns, conn)
	}
	const endOfEvent, endOfStream = "\n\n\r\n", "\r\n0\r\n\r\n"
	c.each(t, endOfEvent, "acknowledged")
	memory := (int64(inUse()) - int64(before)) / int64(manyStreams)
	t.Logf("%d streams, %d bytes each", manyStreams, memory)
	if memory > maxStreamMemory {
		t.Errorf("a stream takes %d bytes, want at most %d", memory, maxStreamMemory)
	}

	began := time.Now()
	addTool(srv, "new", says("x"))
	c.each(t, endOfEvent, "list_changed")
	t.Logf("a change reached all of them after %s", time.Since(began))

	stop := load(t, ts.URL, func(i int) {
		name := fmt.Sprint("t", i)
		addTool(srv, name, says("x"))
		srv.RemoveTool(name)
	})
	began = time.Now()
	noError(t, h.Shutdown(t.Context()))
	t.Logf("shut down after %s", time.Since(began))
	c.each(t, endOfStream, `"id":7,"result":{"resultType":"complete"`)
	stop()
}

// A small subscription in a large message must not hold its memory.
func TestListenKeepsNoBody(t *testing.T) {
	const streams, padding = 50, 1 << 20
	ts, _ := serve(t, newServer(t, nil), nil)
	before, c := inUse(), &crowd{}
	padded := rawRequest(body(protocol.MethodListen, toTools)+strings.Repeat(" ", padding),
		"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: "+protocol.MethodListen)
	for range streams {
		conn := dial(t, ts)
		write(t, conn, padded)
		c.conns = append(c.conns, conn)
	}
	c.each(t, "\n\n\r\n", "acknowledged")
	memory := (int64(inUse()) - int64(before) - int64(len(padded))) / streams
	if memory > maxStreamMemory {
		t.Errorf("a stream takes %d bytes, want at most %d", memory, maxStreamMemory)
	}
}

// load calls the function change, and a tool over HTTP, on several goroutines until stop is called.
func load(t *testing.T, url string, change func(i int)) (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	for worker := range 2 {
		repeat := func(f func(i int)) {
			for i := worker; ; i += 2 {
				select {
				case <-done:
					return
				default:
					f(i)
				}
			}
		}
		running.Go(func() { repeat(change) })
		running.Go(func() {
			repeat(func(int) {
				r, err := http.NewRequest("POST", url, strings.NewReader(body(protocol.MethodCallTool, `"name":"echo","arguments":{"message":"x"}`)))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header = headers(protocol.MethodCallTool, "echo")
				response, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, response.Body); err != nil ||
					response.StatusCode != 200 && response.StatusCode != 503 {
					t.Errorf("a call is answered %d, %v", response.StatusCode, err)
				}
				response.Body.Close()
			})
		})
	}
	return func() {
		close(done)
		running.Wait()
		transport.CloseIdleConnections()
	}
}

// maxSessionMemory limits a session without a connection.
const maxSessionMemory = 4 << 10

// Idle sessions, dropped without DELETE, as clients behind a proxy do, are small, have no
// goroutine, and leave nothing when expired.
func TestManyIdleSessions(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	timeout := manySessionsTimeout
	ts, h := serve(t, srv, &serverhttp.Options{SessionTimeout: timeout,
		Limits: serverhttp.Limits{Sessions: 2 * manySessions}})
	openSession(t, ts, "2025-11-25").call(1, "echo") // the connection and lazy state
	before, goroutines := inUse(), runtime.NumGoroutine()
	began := time.Now()
	for i := range manySessions {
		c := openSession(t, ts, legacyVersions[i%len(legacyVersions)])
		if got := c.call(1, "echo"); got.Error != nil {
			t.Fatal(got.body)
		}
	}
	opened := time.Since(began)
	// Sessions without events.
	memory := (int64(inUse()) - int64(before)) / int64(manySessions)
	running := runtime.NumGoroutine() - goroutines
	t.Logf("%d sessions opened and used in %s: %d bytes each, %d goroutines more", manySessions,
		opened, memory, running)
	if memory > maxSessionMemory {
		t.Errorf("an idle session takes %d bytes, want at most %d", memory, maxSessionMemory)
	}
	if running > 10 {
		t.Errorf("%d goroutines for idle sessions, want none", running)
	}
	if opened < timeout && serverhttp.Sessions(h) < manySessions {
		t.Errorf("%d sessions are open, want %d", serverhttp.Sessions(h), manySessions)
	}

	// Sessions with events and broken streams.
	for range manySessions / 10 {
		c := openSession(t, ts, "2025-11-25")
		c.call(1, "notify")
		c.do(t.Context(), "GET", "", "Accept", "text/event-stream").Body.Close()
	}
	t.Logf("%d bytes of events are kept for %d sessions with streams", serverhttp.EventBytes(h),
		manySessions/10)
	for deadline := time.Now().Add(3 * timeout); serverhttp.Sessions(h) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions are left", serverhttp.Sessions(h))
		}
		<-time.After(timeout / 20)
	}
	wantEqual(t, "bytes of events are kept for no session", serverhttp.EventBytes(h), int64(0))
	ts.Client().CloseIdleConnections()
	left := int64(inUse()) - int64(before)
	t.Logf("after they have expired: %d bytes, %d goroutines more", left,
		runtime.NumGoroutine()-goroutines)
	// Tables do not shrink.
	if limit := int64(512<<10 + 100*manySessions); left > limit {
		t.Errorf("expired sessions leave %d bytes behind, want at most %d", left, limit)
	}
}
