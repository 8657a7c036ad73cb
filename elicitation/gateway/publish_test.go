package gateway_test

import (
	"context"
	"errors"
	"maps"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
)

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	up := gateway.HTTP("http://localhost", nil)
	for name, upstreams := range map[string][]gateway.Upstream{
		"no upstream":     nil,
		"no name":         {{Connect: up}},
		"an underscore":   {{Name: "a_b", Connect: up}},
		"a plus":          {{Name: "a+b", Connect: up}},
		"one name twice":  {{Name: "a", Connect: up}, {Name: "a", Connect: up}},
		"nothing to call": {{Name: "a"}},
		"one claim twice": {
			{Name: "a", Connect: up, Unprefixed: []string{"x"}},
			{Name: "b", Connect: up, Unprefixed: []string{"x"}},
		},
		"claim of a prefix": {
			{Name: "a", Connect: up}, {Name: "b", Connect: up, Unprefixed: []string{"a_x"}},
		},
	} {
		if _, err := gateway.New(&gateway.Options{Upstreams: upstreams}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestLimitsThatCannotWorkAreRefused(t *testing.T) {
	for want, opts := range map[string]gateway.Options{
		"must be positive": {MaxConnections: -1, Upstreams: []gateway.Upstream{
			{Name: "a", Connect: gateway.HTTP("http://localhost", nil)}}},
		`"url" is no kind of question`: {Upstreams: []gateway.Upstream{{Name: "a",
			Connect: gateway.HTTP("http://localhost", nil), Refuse: []protocol.InputKind{"url"}}}},
	} {
		if _, err := gateway.New(&opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A call that starts over would run twice upstream.
func TestFlowsThatStartOverAreRefused(t *testing.T) {
	opts := &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "a", Connect: gateway.HTTP("http://localhost", nil)},
	}}
	opts.Server.Roundtrip.RestartExpired = true
	if _, err := gateway.New(opts); err == nil || !strings.Contains(err.Error(), "RestartExpired") {
		t.Errorf("got %v", err)
	}
}

func TestAGatewayThatFailsLeavesNoMetricsBehind(t *testing.T) {
	registry := prometheus.NewRegistry()
	taken := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "elicitation_resumes_total",
		Help: "Requests that came back to such a call with answers, by how they ended.",
	}, []string{"outcome"})
	registry.MustRegister(taken)
	opts := &gateway.Options{Metrics: prom.New(registry), Upstreams: []gateway.Upstream{
		{Name: "a", Connect: gateway.HTTP("http://localhost", nil)},
	}}
	if _, err := gateway.New(opts); err == nil {
		t.Fatal("no error")
	}
	registry.Unregister(taken)
	opts.Server.Roundtrip.Observer = event.Observers() // is refused
	if _, err := gateway.New(opts); err == nil {
		t.Fatal("no error")
	}
	opts.Server.Roundtrip.Observer = nil
	g, err := gateway.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	_ = g.Close()
}

// A watchedPeer is a server in this process that says when it is closed.
type watchedPeer struct {
	*server.Server
	closed *atomic.Int64
}

func (p watchedPeer) Close() error {
	p.closed.Add(1)
	return nil
}

// Connections that nobody uses end without another call.
func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, nil)
		addEmptyTool(srv, "x")
		var opened, closed atomic.Int64
		g, err := gateway.New(&gateway.Options{Upstreams: []gateway.Upstream{{
			Name: "ops", Connect: func(
				context.Context, gateway.Credential,
			) (protocol.Peer, error) {
				opened.Add(1)
				return watchedPeer{srv, &closed}, nil
			},
			Credential: func(
				_ context.Context, p protocol.Principal,
			) (gateway.Credential, error) {
				return gateway.Credential{Key: p.String()}, nil
			},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c, err := client.New(g.Server(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(t.Context(), "ops_x", nil); err != nil {
			t.Fatal(err)
		}
		if opened.Load() != 3 || closed.Load() != 0 {
			t.Fatalf("%d opened, %d closed", opened.Load(), closed.Load())
		}
		time.Sleep(6*time.Minute + time.Second)
		if n := closed.Load(); n != 2 { // the gateway's own stays
			t.Errorf("%d are closed after 6 minutes", n)
		}
		if err := g.Close(); err != nil || closed.Load() != 3 {
			t.Errorf("%d are closed at the end: %v", closed.Load(), err)
		}
	})
}

func TestAnUpstreamThatIsDownAtStartIsPublishedLater(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	var up atomic.Bool
	dial := gateway.HTTP(u.url, nil)
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "late", Connect: func(
			ctx context.Context, c gateway.Credential,
		) (protocol.Peer, error) {
			if !up.Load() {
				return nil, errors.New("connection refused")
			}
			return dial(ctx, c)
		}},
	}})
	c := connect(t, url, 0, &person{})
	for tool := range c.Tools(t.Context()) {
		t.Errorf("%s is listed", tool.Name)
	}
	up.Store(true)
	awaitTool(t, c, "late_deploy")
}

func TestOneUpstreamCannotTakeTheNameOfAnother(t *testing.T) {
	a, b := startUpstream(t), startUpstream(t)
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "a", Connect: gateway.HTTP(a.url, nil), Unprefixed: []string{"deploy"}},
		{Name: "b", Connect: gateway.HTTP(b.url, nil)},
	}})
	c := connect(t, url, 0, &person{})
	awaitTool(t, c, "deploy")
	awaitTool(t, c, "b_deploy")
	if _, err := c.CallTool(t.Context(), "deploy", nil); err != nil {
		t.Fatal(err)
	}
	if a.commits.Load() != 1 || b.commits.Load() != 0 {
		t.Errorf("%d and %d effects", a.commits.Load(), b.commits.Load())
	}
}

func TestConnectionsOfOlderUpstreamsServeOneCallerEach(t *testing.T) {
	u := startUpstream(t)
	var opened atomic.Int64
	dial := gateway.HTTP(u.url, nil)
	_, url := serveGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{{
		Name: "ops", Era: protocol.Legacy,
		Connect: func(ctx context.Context, c gateway.Credential) (protocol.Peer, error) {
			opened.Add(1)
			return dial(ctx, c)
		},
	}}}, byUser)
	for _, user := range []string{"ann", "ann", "bob", "ann", "bob"} {
		c := connectAs(t, url, 0, user)
		awaitTool(t, c, "ops_deploy")
		if _, err := c.CallTool(t.Context(), "ops_deploy", nil); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	if n := opened.Load(); n != 3 {
		t.Errorf("%d connections are opened, want one for the lists and one for each caller", n)
	}
}

func TestCredentialsDecideWhatIsShared(t *testing.T) {
	u := startUpstream(t)
	var mu sync.Mutex
	opened := map[string]int{}
	dial := gateway.HTTP(u.url, nil)
	_, url := serveGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{{
		Name: "ops",
		Connect: func(ctx context.Context, c gateway.Credential) (protocol.Peer, error) {
			mu.Lock()
			opened[c.Key]++
			mu.Unlock()
			return dial(ctx, c)
		},
		Credential: func(
			_ context.Context, caller protocol.Principal,
		) (gateway.Credential, error) {
			if caller.Subject == "stranger" {
				return gateway.Credential{}, protocol.Errorf(
					protocol.CodeInvalidParams, "log in at https://login.example first",
				)
			}
			return gateway.Credential{Key: "key of " + caller.Subject}, nil
		},
		Era: protocol.Modern,
	}}}, byUser)
	callAs := func(subject string) error {
		c := connectAs(t, url, 0, subject)
		awaitTool(t, c, "ops_deploy")
		_, err := c.CallTool(t.Context(), "ops_deploy", nil)
		return errors.Join(err, c.Close())
	}
	for _, subject := range []string{"ann", "bob", "ann"} {
		if err := callAs(subject); err != nil {
			t.Error(err)
		}
	}
	// One for the lists that the credential shows, and one for calls.
	want := map[string]int{"key of ": 1, "key of ann": 2, "key of bob": 2}
	if !maps.Equal(opened, want) {
		t.Errorf("opened %v, want %v", opened, want)
	}
	calls := u.calls.Load()
	if err := callAs("stranger"); err == nil || !strings.Contains(err.Error(), "log in at") {
		t.Errorf("got %v", err)
	}
	if u.calls.Load() != calls {
		t.Error("the upstream was called for somebody without credentials")
	}
}

func TestAFormThatAsksForASecretIsRefused(t *testing.T) {
	type login struct {
		Password string `json:"password"`
	}
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			srv, err := server.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			server.AddTool(srv, server.Tool{Name: "login"}, func(
				ctx context.Context, _ *server.ToolCall, _ struct{},
			) (protocol.CallToolOutcome, error) {
				q, err := roundtrip.NewQuestion[login]("login", roundtrip.AllowSecrets())
				if err != nil {
					return nil, err
				}
				if _, err := q.Ask(ctx, "Who are you?"); err != nil {
					return nil, err
				}
				return server.Text("in"), nil
			})
			url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
				{Name: "shady", Connect: gateway.HTTP(serveHTTP(t, srv), nil), Era: era},
			}})
			p := &person{}
			c := connect(t, url, 0, p)
			awaitTool(t, c, "shady_login")
			result, err := c.CallTool(t.Context(), "shady_login", nil)
			if len(p.shown) != 0 {
				t.Errorf("shown %q", p.shown)
			}
			if err == nil && !result.IsError {
				t.Errorf("got %q", textOf(result))
			}
		})
	}
}

func TestChangesOfAResourceReachWhoSubscribed(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		srv, err := server.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, uri := range []string{"file:///a", "file:///b"} {
			server.AddResource(srv, server.Resource{URI: uri, Name: uri}, func(
				context.Context, *server.ResourceCall,
			) (protocol.ReadResourceOutcome, error) {
				return &protocol.ReadResourceResult{}, nil
			})
		}
		server.AddTool(srv, server.Tool{Name: "ready"}, func(
			context.Context, *server.ToolCall, struct{},
		) (protocol.CallToolOutcome, error) {
			return server.Text(), nil
		})
		url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
			{Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil), Era: upstreamEra},
		}})
		c := connect(t, url, clientEra, &person{})
		awaitTool(t, c, "ops_ready")
		ctx, stop := context.WithCancel(t.Context())
		told := make(chan string, 100)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Listen(ctx, protocol.SubscriptionFilter{
				ResourceSubscriptions: []string{"ops+file:///a"},
			}, func(_ context.Context, event client.ListenEvent) {
				if updated, ok := event.(client.ResourceUpdated); ok {
					told <- updated.URI
				}
			})
		}()
		defer func() { stop(); <-ended }()
		for deadline := time.After(10 * time.Second); ; {
			srv.ResourceUpdated("file:///b")
			srv.ResourceUpdated("file:///a")
			select {
			case uri := <-told:
				if uri != "ops+file:///a" {
					t.Errorf("told of %s", uri)
				}
				return
			case <-deadline:
				t.Fatal("not told")
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

// A balancer sends requests to a gateway that has just started, also those that come back with
// answers.
func TestTheFirstRequestsWaitForTheLists(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g, err := gateway.New(&gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: func(
			ctx context.Context, credential gateway.Credential,
		) (protocol.Peer, error) {
			time.Sleep(300 * time.Millisecond)
			return gateway.HTTP(u.url, nil)(ctx, credential)
		}},
		{Name: "hangs", Connect: func(
			ctx context.Context, _ gateway.Credential,
		) (protocol.Peer, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := g.Handler(nil)
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(handler)
	t.Cleanup(func() { stopGateway(t, g, listener) })
	c := connect(t, listener.URL, protocol.Modern, &person{})
	began := time.Now()
	result, err := c.CallTool(t.Context(), "ops_deploy", nil)
	if err != nil || textOf(result) != "deployed to production: true" {
		t.Errorf("got %q, %v", textOf(result), err)
	}
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("waited %v for another upstream", took)
	}
}
