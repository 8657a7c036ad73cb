package gateway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
)

// startAskingAndPlain serves an upstream with a tool that asks and one that does not.
func startAskingAndPlain(t *testing.T) string {
	t.Helper()
	srv := newServer(t, nil)
	addTool(srv, "deploy", (&upstreamServer{}).deploy)
	addEcho(srv, "plain")
	return serveHTTP(t, srv)
}

// Neither a principal nor all anonymous callers can block another's plain call.
func TestNobodyLocksOthersOut(t *testing.T) {
	t.Parallel()
	for _, era := range bothEras {
		for _, greedy := range []string{"mallory", ""} {
			for seed := range uint64(4) {
				t.Run(fmt.Sprintf("%v upstream, by %q, schedule %d", era, greedy, seed),
					func(t *testing.T) { testSchedule(t, era, greedy, seed) })
			}
		}
	}
}

func testSchedule(t *testing.T, era protocol.Era, greedy string, seed uint64) {
	_, url := serveGateway(t, &gateway.Options{
		MaxCalls: 16, MaxCallsPerPrincipal: 12, MaxConnections: 8,
		Upstreams: []gateway.Upstream{ops(startAskingAndPlain(t), era)}}, byUser)
	random := rand.New(rand.NewPCG(seed, 1))
	clients := []*client.Client{
		byHandAs(t, url, greedy, asksForms),
		byHandAs(t, url, greedy, protocol.ClientCapabilities{
			Elicitation: asksForms.Elicitation, Roots: &protocol.RootsCapability{}}),
		byHandAs(t, url, greedy, protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true, URL: true}}),
	}
	victim := byHandAs(t, url, "bob", protocol.ClientCapabilities{}, "ops_plain")
	plain := func() error {
		_, err := victim.CallTool(t.Context(), "ops_plain", nil)
		return err
	}
	if err := plain(); err != nil { // from now on it is known that callers authenticate
		t.Fatal(err)
	}
	type open struct {
		client  *client.Client
		pending *client.Pending
	}
	var questions []open
	for step := range 60 {
		c := clients[random.IntN(len(clients))]
		switch n := random.IntN(10); {
		case n < 6: // leave a question open
			_, pending, err := c.Begin(t.Context(), deployCall)
			if err == nil && pending != nil {
				questions = append(questions, open{c, pending})
			}
		case n < 7: // cancel before there is a question
			ctx, leave := context.WithCancel(t.Context())
			go leave()
			_, _, _ = c.Begin(ctx, deployCall)
		case n < 8:
			_, _ = c.CallTool(t.Context(), "ops_plain", nil)
		case len(questions) > 0: // answer one question, of two
			i := random.IntN(len(questions))
			q := questions[i]
			questions = slices.Delete(questions, i, i+1)
			_, _, _ = q.client.Resume(t.Context(), answered(t, q.pending, target{"a"}))
		}
		if err := plain(); err != nil {
			t.Fatalf("step %d, %d questions open: %v", step, len(questions), err)
		}
	}
}

func TestABusyUpstreamSaysWhoseLimitItIs(t *testing.T) {
	_, url := serveGateway(t, &gateway.Options{
		MaxConnections: 8,
		Upstreams:      []gateway.Upstream{ops(startAskingAndPlain(t), protocol.Legacy)}}, byUser)
	fill := func(user string) (limit string) {
		c := byHandAs(t, url, user, asksForms, "ops_deploy")
		for range 9 {
			_, _, err := c.Begin(t.Context(), deployCall)
			if said, ok := protocol.AsError(err); ok && said.Code == protocol.CodeBusy {
				return string(said.Data)
			}
		}
		return "none"
	}
	var got string
	for _, user := range []string{"ann", "bob", "cid", "dan", "eve"} {
		got += user + ": " + fill(user) + "\n"
	}
	want := `ann: {"retryAfterMs":1000,"limit":"principal"}
bob: {"retryAfterMs":1000,"limit":"principal"}
cid: {"retryAfterMs":1000,"limit":"principal"}
dan: {"retryAfterMs":1000,"limit":"principal"}
eve: {"retryAfterMs":1000,"limit":"upstream"}
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// One principal's subscriptions leave room for others.
func TestSubscriptionsHaveShares(t *testing.T) {
	forEachEra(t, func(t *testing.T, era protocol.Era) {
		srv := newServer(t, nil)
		addEcho(srv, "z")
		_, url := serveGateway(t, before(ops(serveHTTP(t, srv), 0)).WithEntries(8), byUser)
		var all []string
		for i := range 5 {
			c := connectAs(t, url, era, "mallory", "ops_z")
			said, _ := listen(t, c, false, fmt.Sprintf("ops+file:///%d", i),
				fmt.Sprintf("ops+file:///b%d", i))
			all = append(all, said)
		}
		got := strings.Join(all, "\n")
		if n := strings.Count(got, "ops+file"); n != 2 {
			t.Errorf("%d are acknowledged:\n%s", n, got)
		}
		said, updated := listen(t, connectAs(t, url, era, "ann"), false, "ops+file:///z")
		wantEqual(t, "ann is told", said, "ops+file:///z")
		wantUpdate(t, srv, "file:///z", updated)
	})
}

// An ended subscription frees its share; one held by several clients keeps it for the next holder.
func TestSubscriptionsGiveTheirRoomBack(t *testing.T) {
	srv := newServer(t, nil)
	addEcho(srv, "z")
	_, url := serveGateway(t, before(ops(serveHTTP(t, srv), 0)).WithEntries(4), byUser)
	connectAs(t, url, protocol.Modern, "eve", "ops_z")
	ann, bob := openRawSession(t, url, "ann"), openRawSession(t, url, "bob")
	var got []string
	for _, step := range []struct {
		send        func(string) string
		method, uri string
	}{
		{ann, protocol.MethodSubscribe, "ops+file:///a"}, // ann may hold one subscription
		{ann, protocol.MethodSubscribe, "ops+file:///a"},
		{bob, protocol.MethodSubscribe, "ops+file:///a"},
		{ann, protocol.MethodSubscribe, "ops+file:///b"},
		{bob, protocol.MethodSubscribe, "ops+file:///b"},
		{ann, protocol.MethodUnsubscribe, "ops+file:///a"}, // bob holds two now
		{ann, protocol.MethodSubscribe, "ops+file:///c"},
		{bob, protocol.MethodUnsubscribe, "ops+file:///b"},
		{bob, protocol.MethodSubscribe, "ops+file:///b"},
	} {
		said := "taken"
		if strings.Contains(step.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":%q,`+
			`"params":{"uri":%q}}`, step.method, step.uri)), "too many resources") {
			said = "refused"
		}
		got = append(got, said)
	}
	want := "taken taken taken refused taken taken taken taken refused"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}
