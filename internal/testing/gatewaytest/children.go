package gatewaytest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// AcceptChildren holds that child processes, of which there is a bounded number and each serves one
// call at a time, serve many users, and that one that dies takes its call with it alone.
func AcceptChildren(t *testing.T, build Build) {
	up := &Backend{Upstream: newUpstream(), Child: true, MaxConnections: 4, IdleTimeout: time.Hour}
	url := serve(t, build, newRouter(t, &elicitation.Options{Limits: unlimited}), up)
	each := 50
	if testkit.Slow {
		each = 500
	}
	var calls sync.WaitGroup
	for _, name := range []string{"alice", "bob"} {
		c := connect(t, &Client{url: url, header: As(name), http: newHTTPClient(t),
			reply: `"result":` + AcceptReason(name+" answers MESSAGE")}, forms)
		for n := range each {
			calls.Go(func() {
				want := AcceptReason(fmt.Sprint(name, " answers ", n))
				if got := c.Call(t, ToolAsk, askFor(fmt.Sprint(n))); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
	calls.Wait()
	if n := up.connections.Load(); n > 5 { // the first was made to see of what type it is
		t.Errorf("%d processes were started, want 4 at most", n-1)
	}
	c := Connect(t, url, forms, `"result":`+because, As("carol"))
	for range 3 {
		if got := c.Call(t, ToolFault, plain); !strings.Contains(got, "cannot be reached") {
			t.Errorf("a call of a child that dies: got %s", got)
		}
		if got := c.Call(t, ToolAsk, plain); got != because {
			t.Errorf("after a child died: got %s", got)
		}
	}
}

// AcceptTurns holds that a user who makes more calls than may wait for a connection over lines has
// some refused and another has none, and that connections without calls are closed.
func AcceptTurns(t *testing.T, build Build) {
	up := &Backend{Upstream: NewUpstream(t), Lines: true, MaxConnections: 2, MaxWaiting: 10,
		IdleTimeout: time.Millisecond}
	url := serve(t, build, newRouter(t, &elicitation.Options{Limits: unlimited}), up)
	alice := Connect(t, url, forms, `"result":`+because, As("alice"))
	bob := Connect(t, url, forms, `"result":`+because, As("bob"))
	stream := alice.StartCall(t, ToolAsk, plain)
	defer stream.Close()
	question := stream.WaitForQuestion(t)
	results := make(chan string, 64)
	const made, waiting = 40, 5
	for range made {
		go func() { results <- alice.Call(t, ToolAsk, plain) }()
	}
	for range made - waiting {
		if got := <-results; !strings.Contains(got, "Too many calls wait for the upstream") ||
			!strings.Contains(got, "retryAfterMs") {
			t.Errorf("alice: got %s", got)
		}
	}
	for range 4 {
		if got := bob.Call(t, ToolAsk, plain); got != because {
			t.Errorf("bob: got %s", got)
		}
	}
	alice.Send(t, question)
	for range waiting {
		if got := <-results; got != because {
			t.Errorf("alice: got %s", got)
		}
	}
	before := up.connections.Load()
	for limit := time.Now().Add(10 * time.Second); up.connections.Load() < before+2; {
		if time.Now().After(limit) {
			t.Fatal("the idle connection is still used")
		}
		time.Sleep(2 * time.Millisecond) // idle
		bob.Call(t, ToolPlain, plain)
	}
}
