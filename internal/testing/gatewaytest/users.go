package gatewaytest

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// AcceptImpatience holds that a user who cancels every call harms no other on the connections
// that they share: the other's questions come at once, and still do so a minute later, and an hour.
func AcceptImpatience(t *testing.T, build Build) {
	for name, lines := range map[string]bool{"over HTTP": false, "over lines": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { acceptImpatience(t, build, lines) })
		})
	}
}

func acceptImpatience(t *testing.T, build Build, lines bool) {
	router, up := newRouter(t, nil), newPipeUpstream(t)
	gateway, _ := build(t, router, &Backend{Upstream: up, Lines: lines})
	served := pipehttp.Serve(t, gateway)
	open := func() *Client {
		return connect(t, &Client{url: pipehttp.URL, reply: `"result":` + because,
			http: served.Client()}, forms)
	}
	alice, bob := open(), open()
	ask := func(when string, c *Client) {
		began := time.Now()
		if got := c.Call(t, ToolAsk, plain); got != because {
			t.Errorf("%s: the upstream reads %s, want %s", when, got, because)
		}
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("%s: it took %v", when, waited)
		}
	}
	for range 60 {
		stream := alice.StartCall(t, ToolAsk, plain)
		stream.WaitForQuestion(t)
		alice.cancel(t, stream.id)
		stream.Close()
		ask("at once", bob)
		time.Sleep(time.Second)
	}
	time.Sleep(time.Minute)
	ask("a minute later", bob)
	time.Sleep(time.Hour)
	ask("an hour later", bob)
	ask("alice herself", alice)
	expectPending(t, router, 0)
}

// pendingCalls is how many calls wait for a person at once.
func pendingCalls() int {
	if testkit.Slow {
		return 2000
	}
	return 100
}

const (
	// maxLeft is how much memory all calls may leave behind, in bytes, and maxLeftEach is what
	// each may add to that: pools keep what was used.
	maxLeft     = 1 << 20
	maxLeftEach = 512
	// maxGoroutinesLeft is how many goroutines all calls may leave.
	maxGoroutinesLeft = 20
)

// usage is what a process uses.
type usage struct {
	goroutines int
	bytes      int64 // of objects and stacks
}

func measure() usage {
	runtime.GC()
	runtime.GC() // what has been in a pool
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse)}
}

// AcceptPending holds that calls of two users which wait for a person at once, all on one
// connection over HTTP to the upstream, get the answers to their own questions, and that nothing is
// left of them.
func AcceptPending(t *testing.T, build Build) {
	router, up := newRouter(t, &elicitation.Options{Limits: unlimited}), NewUpstream(t)
	url := serve(t, build, router, &Backend{Upstream: up})
	users := make([]*Client, 2)
	for i, name := range []string{"alice", "bob"} {
		users[i] = connect(t, &Client{url: url, http: newHTTPClient(t),
			reply: `"result":` + AcceptReason(name+" answers MESSAGE")}, forms)
	}
	idle := func() usage {
		for _, c := range users {
			c.http.CloseIdleConnections()
		}
		up.HTTPClient.CloseIdleConnections()
		return measure()
	}
	answerTogether(t, router, users) // which fills pools and makes maps large
	before := idle()
	answerTogether(t, router, users)
	after, limit := idle(), time.Now().Add(10*time.Second)
	for after.goroutines > before.goroutines+maxGoroutinesLeft && time.Now().Before(limit) {
		time.Sleep(10 * time.Millisecond)
		after = idle()
	}
	if after.goroutines > before.goroutines+maxGoroutinesLeft {
		t.Errorf("there are %d goroutines, %d before", after.goroutines, before.goroutines)
	}
	left, most := after.bytes-before.bytes, int64(maxLeft+pendingCalls()*maxLeftEach)
	if left > most && !testkit.Race {
		t.Errorf("%d calls have left %d bytes, want %d at most", pendingCalls(), left, most)
	}
}

// AcceptLimit holds that all questions which ELICITATION_MAX_CONCURRENT allows may be pending on
// one connection to an upstream.
func AcceptLimit(t *testing.T, build Build) {
	opts, err := elicitation.OptionsFromEnv(func(key string) (string, bool) {
		return "60", key == "ELICITATION_MAX_CONCURRENT"
	})
	if err != nil {
		t.Fatal(err)
	}
	router := newRouter(t, &opts)
	url := serve(t, build, router, &Backend{Upstream: NewUpstream(t)})
	for range 4 {
		c := Connect(t, url, forms, "", nil)
		for n := range 15 {
			c.StartCall(t, ToolAsk, askFor(fmt.Sprint(n))).WaitForQuestion(t)
		}
	}
	expectPending(t, router, 60)
}

// answerTogether makes calls whose questions are all pending before the first is answered.
func answerTogether(t *testing.T, router *elicitation.Router, users []*Client) {
	t.Helper()
	streams := make([]*Stream, pendingCalls())
	questions := make([]Envelope, len(streams))
	for i := range streams {
		streams[i] = users[i%2].StartCall(t, ToolAsk, askFor(fmt.Sprint(i)))
		questions[i] = streams[i].WaitForQuestion(t)
	}
	expectPending(t, router, len(streams))
	for i, s := range streams {
		users[i%2].Send(t, questions[i])
		want := AcceptReason(fmt.Sprint([]string{"alice", "bob"}[i%2], " answers ", i))
		if got := s.Result(t); got != want {
			t.Fatalf("call %d: the upstream reads %s, want %s", i, got, want)
		}
		s.Close()
	}
}
