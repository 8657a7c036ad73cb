package server_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// A _meta over 16 KiB loses foreign keys, in both eras.
func TestLongMetaIsDropped(t *testing.T) {
	var got protocol.Meta
	h := newHarness(t, nil)
	h.tool("x", func(_ context.Context, call *server.ToolCall) (toolOutcome, error) {
		got = call.Meta.Extra
		return server.Text("x"), nil
	})
	const token = `"progressToken":7,"traceparent":"00-1-1-01"`
	long := `,"x":"` + strings.Repeat("x", 16<<10) + `"`
	wantDropped := func(t *testing.T) {
		t.Helper()
		_, kept := got.Get("x")
		token, _ := got.Get("progressToken")
		trace, _ := got.Get("traceparent")
		if kept || string(token) != "7" || string(trace) != `"00-1-1-01"` || len(got) > 1<<10 {
			t.Errorf("the handler got %d bytes, progressToken %s, traceparent %s", len(got), token,
				trace)
		}
		wantEqual(t, "observed drops", quotaEvents(h.events, "meta"), 1)
	}
	h.callWith(token + long)
	wantDropped(t)
	c := h.enter(protocol.V20251125, `{}`)
	c.request(protocol.MethodCallTool, `{"name":"x","_meta":{`+token+long+`}}`)
	wantDropped(t)
	c.request(protocol.MethodCallTool, `{"name":"x","_meta":{`+token+`,"x":1}}`)
	if _, kept := got.Get("x"); !kept || quotaEvents(h.events, "meta") > 0 {
		t.Errorf("a short one is cut: %s", got)
	}
}

func TestCallsThatWaitKeepNoLongMeta(t *testing.T) {
	const calls, size = 20, 3 << 20
	h := newHarness(t, &server.Options{})
	addAsk(h.Server, false)
	c := newTypist(t, t.Context(), h.Server, nil)
	before := heapInUse()
	for i := range calls {
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"call %d","method":"tools/call","params":`+
			`{"name":"ask","_meta":{"x":%q}}}`, i, strings.Repeat("x", size)))
		c.expect("elicitation/create")
	}
	if grown := heapInUse() - before; grown > calls*size/4 {
		t.Errorf("%d calls that wait keep %d KiB", calls, grown>>10)
	} else {
		t.Logf("%d calls with %d MiB of _meta each keep %d KiB", calls, size>>20, grown>>10)
	}
}

// quotaEvents counts and removes the events about a resource.
func quotaEvents(e *events, resource string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, happened := range e.list {
		if q, ok := happened.(event.QuotaExceeded); ok && q.Resource == resource {
			n++
		}
	}
	e.list = nil
	return n
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
