//go:build node && proxy

package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Sessions of 2025-11-25 on three replicas behind plain round robin work as on one server, for
// clients of all makes, even when replicas die; see testdata/replicas.md.
func TestSessionsBehindProxies(t *testing.T) {
	program := buildEverything(t)
	installedProxies(t)
	t.Run("session", func(t *testing.T) {
		t.Run("one server", func(t *testing.T) {
			t.Parallel()
			r := &replica{program: program, address: freeAddress(t)}
			r.start(t)
			walkAll(t, r.address, []string{r.address}, false)
		})
		for _, p := range proxies() {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				f := startFleet(t, program)
				walkAll(t, p.serve(t, f.addresses()), f.addresses(), true)
			})
		}
	})
	t.Run("draining", func(t *testing.T) {
		for _, p := range proxies() {
			t.Run(p.name, func(t *testing.T) {
				openWhileDraining(t, p, startFleet(t, program))
			})
		}
	})
	t.Run("outcomes", func(t *testing.T) { compareOutcomes(t, program) })
	t.Run("conformance", func(t *testing.T) {
		for _, p := range proxies() {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				f := startFleet(t, program)
				runIn(t, "../..", "internal/conformance/run.sh",
					"-s", "http://"+p.serve(t, f.addresses())+"/mcp", "server-2025-11-25")
			})
		}
	})
}

// walkAll takes clients through a session, one by one, because they change the servers' lists.
func walkAll(t *testing.T, address string, servers []string, named bool) {
	for _, c := range sessionClients() {
		t.Run(c.name, func(t *testing.T) {
			who := newPerson(t, answers{
				"Step 1: What is your name?":                `{"name":"Ada"}`,
				"Step 2: What is your favorite color, Ada?": `{"color":"blue"}`,
				"What is the capital of France?":            "Paris",
			})
			f := newFront(t, address)
			s, err := c.open(t, f.url, who)
			noError(t, err)
			w := &walk{t: t, c: c, ctx: within(t, 20*time.Second), f: f, s: s, who: who}
			w.askAndNotify()
			if named {
				w.stayWithOwner()
			}
			w.resume()
			w.cancel()
			w.end(servers)
		})
	}
}

// A walk is one client's way through a session.
type walk struct {
	t   *testing.T
	c   sessionClient
	ctx context.Context
	f   *front
	s   session
	who *person
}

func (w *walk) call(name string) string {
	w.t.Helper()
	got, err := w.s.do(w.ctx, tool(name, nil))
	if err != nil {
		w.t.Errorf("%s: %v", name, err)
	}
	return got
}

func (w *walk) wantCall(name, want string) {
	w.t.Helper()
	if got := w.call(name); got != want {
		w.t.Errorf("%s: got %q, want %q", name, got, want)
	}
}

func (w *walk) receive(from <-chan struct{}, n int, what string) {
	w.t.Helper()
	for range n {
		select {
		case <-from:
		case <-w.ctx.Done():
			w.t.Fatalf("%s: nothing came", what)
		}
	}
}

// askAndNotify covers dependent questions, sampling, progress, and messages on the GET stream.
func (w *walk) askAndNotify() {
	w.t.Helper()
	w.wantCall("test_input_required_result_multi_round", "Ada likes blue")
	w.wantCall("test_input_required_result_sampling", "Paris")
	w.who.wantAsked(1)
	got, err := w.s.do(w.ctx, request{Method: "tools/call", Target: "test_tool_with_progress",
		Progress: true})
	if want := "Tool execution completed with progress."; err != nil || got != want {
		w.t.Errorf("got %q, %v, want %q", got, err, want)
	}
	w.receive(w.who.progress, 2, "progress") // the result may overtake the third
	w.receive(w.f.listening, 1, "the GET stream")
	if got := w.call("test_trigger_tool_change"); !strings.HasSuffix(got, "test_occasional_tool") {
		w.t.Errorf("got %q", got)
	}
	for len(w.who.changed) == 0 && w.ctx.Err() == nil {
		w.call("test_simple_text") // some clients read only during a call
	}
	w.receive(w.who.changed, 1, "a change of the list of tools")
}

// stayWithOwner checks that one replica runs all calls, whichever one the proxy picks.
func (w *walk) stayWithOwner() {
	w.t.Helper()
	owner := w.call("test_replica")
	for range 5 {
		w.wantCall("test_replica", owner)
	}
}

// resume checks that the client gets the result after the server closes the call's stream, and
// after the connection breaks.
func (w *walk) resume() {
	w.t.Helper()
	w.wantCall("test_reconnection", "Reconnection test completed successfully")
	if w.f.count(isResumption) == 0 {
		w.t.Error("the client has not resumed the stream")
	}
}

// cancel checks that the call ends where it runs. Its stream, reopened, ends without a result.
func (w *walk) cancel() {
	w.t.Helper()
	const slow = "test_slow_tool"
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for w.f.lastEventID(slow) == "" { // progress may be an earlier call's
			select {
			case <-w.who.progress:
			case <-w.ctx.Done():
				return
			}
		}
	}()
	r := request{Method: "tools/call", Target: slow, Progress: true}
	got, err := w.s.doUntil(w.ctx, r, stop)
	if err == nil {
		w.t.Errorf("the cancelled call returned %q", got)
	}
	id := w.f.lastEventID(slow)
	if id == "" {
		w.t.Fatal("the call sent no event")
	}
	status, rest := send(w.t, http.MethodGet, w.f.url, w.f.session(), id, "")
	goesOn := strings.Contains(rest, "Took")
	if status != http.StatusOK || goesOn != w.c.neverCancels {
		w.t.Errorf("the call goes on: %t, want %t; the rest of its stream is %d %q", goesOn,
			w.c.neverCancels, status, rest)
	}
}

// end checks that the session is gone on every replica.
func (w *walk) end(servers []string) {
	w.t.Helper()
	if err := w.s.end(); err != nil {
		w.t.Error(err)
	}
	const ping = `{"jsonrpc":"2.0","id":99,"method":"ping"}`
	for _, address := range servers {
		url := "http://" + address + "/mcp"
		status, text := send(w.t, http.MethodPost, url, w.f.session(), "", ping)
		if status != http.StatusNotFound {
			w.t.Errorf("%s after the end of the session: %d %s, want 404", address, status, text)
		}
	}
}

// openWhileDraining checks that a draining replica opens no session. New clients do not notice.
func openWhileDraining(t *testing.T, p proxy, f *fleet) {
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` +
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}`
	address := p.serve(t, f.addresses())
	draining := f.replicas[0]
	own := "http://" + draining.address + "/mcp"
	if status, text := send(t, http.MethodPost, own, "", "", initialize); status != http.StatusOK {
		t.Fatalf("initialize: %d %s", status, text) // an open session keeps the replica from ending
	}
	draining.drain(t)
	for status := 0; status != http.StatusServiceUnavailable; {
		status, _ = send(t, http.MethodPost, own, "", "", initialize)
	}
	for range 2 * len(f.replicas) {
		status, text := send(t, http.MethodPost, "http://"+address+"/mcp", "", "", initialize)
		if status != http.StatusOK {
			t.Errorf("initialize: %d %s", status, text)
		}
	}
	for i := range 20 * len(f.replicas) {
		if status := sendInTwo(t, address, initialize); status != http.StatusOK {
			t.Errorf("initialize %d, in two writes: %d", i, status)
		}
	}
	if refused := countRefused(t, address, initialize, 400, 16); refused > 0 {
		t.Errorf("%d of 400 requests, 16 at once, were refused", refused)
	}
	for _, r := range f.replicas {
		r.kill(t) // kills it, instead of waiting until the sessions have ended
	}
}

// sendInTwo sends a POST whose head and body are separate, as some clients do.
func sendInTwo(t *testing.T, address, body string) (status int) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n", address,
		len(body))
	time.Sleep(10 * time.Millisecond) // otherwise the kernel may send both together
	_, _ = io.WriteString(conn, body)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// countRefused sends requests, some of them at once. It returns how many did not get 200.
func countRefused(t *testing.T, address, body string, requests, atOnce int) int {
	var next, refused atomic.Int32
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for next.Add(1) <= int32(requests) {
				status, _ := send(t, http.MethodPost, "http://"+address+"/mcp", "", "", body)
				if status != http.StatusOK {
					refused.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(refused.Load())
}
