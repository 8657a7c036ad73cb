package gateway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// byHandAs returns a client as [byHand] does, of a user; "" is nobody.
func byHandAs(
	t *testing.T, url, user string, capabilities protocol.ClientCapabilities,
) *client.Client {
	t.Helper()
	return connectUser(t, url, user, client.Options{Manual: &capabilities, NoBusyRetry: true,
		Era: protocol.Modern})
}

// asksForms are the capabilities of a client that can be asked.
var asksForms = protocol.ClientCapabilities{
	Elicitation: &protocol.ElicitationCapability{Form: true}}

// startAskingAndPlain serves an upstream with a tool that asks and one that does not.
func startAskingAndPlain(t *testing.T) string {
	t.Helper()
	u, srv := &upstreamServer{}, newServer(t, nil)
	server.AddTool(srv, server.Tool{Name: "deploy"}, u.deploy)
	addEcho(srv, "plain")
	return serveHTTP(t, srv)
}

// Whatever one principal does, or all anonymous callers together, another's plain call to the same
// upstream runs.
func TestNobodyLocksOthersOut(t *testing.T) {
	t.Parallel()
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
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
		Upstreams: []gateway.Upstream{{Name: "ops", Era: era,
			Connect: gateway.HTTP(startAskingAndPlain(t), nil)}},
	}, byUser)
	random := rand.New(rand.NewPCG(seed, 1))
	clients := []*client.Client{
		byHandAs(t, url, greedy, asksForms),
		byHandAs(t, url, greedy, protocol.ClientCapabilities{
			Elicitation: asksForms.Elicitation, Roots: &protocol.RootsCapability{}}),
		byHandAs(t, url, greedy, protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true, URL: true}}),
	}
	victim := byHandAs(t, url, "bob", protocol.ClientCapabilities{})
	awaitTool(t, victim, "ops_plain")
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
			_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "ops_deploy"})
			if err == nil && pending != nil {
				questions = append(questions, open{c, pending})
			}
		case n < 7: // leave before there is a question
			ctx, leave := context.WithCancel(t.Context())
			go leave()
			_, _, _ = c.Begin(ctx, &protocol.CallToolParams{Name: "ops_deploy"})
		case n < 8:
			_, _ = c.CallTool(t.Context(), "ops_plain", nil)
		case len(questions) > 0: // answer one, of two
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

// The error says whose limit it is.
func TestABusyUpstreamSaysWhoseLimitItIs(t *testing.T) {
	_, url := serveGateway(t, &gateway.Options{
		MaxConnections: 8,
		Upstreams: []gateway.Upstream{{Name: "ops", Era: protocol.Legacy,
			Connect: gateway.HTTP(startAskingAndPlain(t), nil)}},
	}, byUser)
	fill := func(user string) (limit string) {
		c := byHandAs(t, url, user, asksForms)
		awaitTool(t, c, "ops_deploy")
		for range 9 {
			_, _, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "ops_deploy"})
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

// listen subscribes to resources until the test ends. It returns what the client was acknowledged,
// or why it was not, and the resources that change.
func listen(t *testing.T, c *client.Client, uris ...string) (string, <-chan string) {
	t.Helper()
	acknowledged, updated := make(chan string, 10), make(chan string, 100)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := c.Listen(ctx, protocol.SubscriptionFilter{ResourceSubscriptions: uris},
			func(_ context.Context, e client.ListenEvent) {
				switch e := e.(type) {
				case client.Acknowledged:
					acknowledged <- strings.Join(e.Filter.ResourceSubscriptions, " ")
				case client.ResourceUpdated:
					select {
					case updated <- e.URI:
					default:
					}
				}
			})
		acknowledged <- fmt.Sprint(err)
	}()
	t.Cleanup(func() { stop(); <-ended })
	return <-acknowledged, updated
}

// Subscriptions that one principal makes up leave room for those of others.
func TestSubscriptionsHaveShares(t *testing.T) {
	t.Parallel()
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			srv := newServer(t, nil)
			addEcho(srv, "z")
			_, url := serveGateway(t, (&gateway.Options{Upstreams: []gateway.Upstream{
				{Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil)},
			}}).WithEntries(8), byUser)
			var all []string
			for i := range 5 {
				c := connectAs(t, url, era, "mallory")
				awaitTool(t, c, "ops_z")
				made := []string{fmt.Sprintf("ops+file:///%d", i),
					fmt.Sprintf("ops+file:///b%d", i)}
				said, _ := listen(t, c, made...)
				all = append(all, said)
			}
			got := strings.Join(all, "\n")
			if n := strings.Count(got, "ops+file"); n != 2 {
				t.Errorf("%d are acknowledged:\n%s", n, got)
			}
			said, updated := listen(t, connectAs(t, url, era, "ann"), "ops+file:///z")
			if said != "ops+file:///z" {
				t.Errorf("ann is told %q", said)
			}
			for deadline := time.After(10 * time.Second); ; {
				srv.ResourceUpdated("file:///z")
				select {
				case <-updated:
					return
				case <-deadline:
					t.Fatal("no change is announced")
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
}

// A subscription that ends leaves its room to others; one that several hold keeps it.
func TestSubscriptionsGiveTheirRoomBack(t *testing.T) {
	srv := newServer(t, nil)
	addEcho(srv, "z")
	_, url := serveGateway(t, (&gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil)}}}).WithEntries(4), byUser)
	awaitTool(t, connectAs(t, url, protocol.Modern, "eve"), "ops_z")
	ann, bob := openRawSession(t, url, "ann"), openRawSession(t, url, "bob")
	var got []string
	for _, step := range []struct {
		send        func(string) string
		method, uri string
	}{
		{ann, protocol.MethodSubscribe, "ops+file:///a"}, // ann's share is one
		{ann, protocol.MethodSubscribe, "ops+file:///a"},
		{bob, protocol.MethodSubscribe, "ops+file:///a"},
		{ann, protocol.MethodSubscribe, "ops+file:///b"},
		{bob, protocol.MethodSubscribe, "ops+file:///b"},
		{ann, protocol.MethodUnsubscribe, "ops+file:///a"}, // bob has two now
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
