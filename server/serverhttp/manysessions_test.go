package serverhttp_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// maxSessionMemory is what a session may take of which nobody is connected.
const maxSessionMemory = 4 << 10

// TestManyIdleSessions opens sessions, uses them, and drops them without
// DELETE, over few connections, as clients behind a proxy do. Idle ones are
// small and have no goroutine; when they have expired nothing is left.
func TestManyIdleSessions(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	const timeout = manySessionsTimeout
	ts, h := serve(t, srv, &serverhttp.Options{SessionTimeout: timeout, MaxSessions: 2 * manySessions})
	openSession(t, ts, "2025-11-25").call(1, "echo") // the connection and what is made once
	before, goroutines := inUse(), runtime.NumGoroutine()
	began := time.Now()
	for i := range manySessions {
		c := openSession(t, ts, legacyVersions[i%len(legacyVersions)])
		if got := c.call(1, "echo"); got.Error != nil {
			t.Fatal(got.body)
		}
	}
	opened := time.Since(began)
	// Those that have nothing but themselves to keep.
	memory := (int64(inUse()) - int64(before)) / manySessions
	running := runtime.NumGoroutine() - goroutines
	t.Logf("%d sessions opened and used in %s: %d bytes each, %d goroutines more", manySessions, opened, memory, running)
	if memory > maxSessionMemory {
		t.Errorf("an idle session takes %d bytes, want at most %d", memory, maxSessionMemory)
	}
	if running > 10 {
		t.Errorf("%d goroutines for idle sessions, want none", running)
	}
	if opened < timeout && serverhttp.Sessions(h) < manySessions {
		t.Errorf("%d sessions are open, want %d", serverhttp.Sessions(h), manySessions)
	}

	// Some more, which leave events behind and broken streams.
	for range manySessions / 10 {
		c := openSession(t, ts, "2025-11-25")
		c.call(1, "notify")
		c.do(t.Context(), "GET", "", "Accept", "text/event-stream").Body.Close()
	}
	t.Logf("%d bytes of events are kept for %d sessions with streams", serverhttp.EventBytes(h), manySessions/10)
	for deadline := time.Now().Add(3 * timeout); serverhttp.Sessions(h) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions are left", serverhttp.Sessions(h))
		}
		<-time.After(timeout / 20)
	}
	if n := serverhttp.EventBytes(h); n != 0 {
		t.Errorf("%d bytes of events are kept for no session", n)
	}
	ts.Client().CloseIdleConnections()
	left := int64(inUse()) - int64(before)
	t.Logf("after they have expired: %d bytes, %d goroutines more", left, runtime.NumGoroutine()-goroutines)
	// Tables stay as large as they have been.
	if limit := int64(512<<10 + 100*manySessions); left > limit {
		t.Errorf("expired sessions leave %d bytes behind, want at most %d", left, limit)
	}
}
