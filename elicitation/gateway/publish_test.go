package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
)

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	up := gateway.HTTP("http://localhost", nil)
	one := []gateway.Upstream{{Name: "a", Connect: up}}
	restarting := before(one...) // a restarted call would run twice upstream
	restarting.Server.Roundtrip.RestartExpired = true
	for name, test := range map[string]struct {
		opts *gateway.Options
		want string
	}{
		"no upstream":     {before(), ""},
		"no name":         {before(gateway.Upstream{Connect: up}), ""},
		"an underscore":   {before(gateway.Upstream{Name: "a_b", Connect: up}), ""},
		"a plus":          {before(gateway.Upstream{Name: "a+b", Connect: up}), ""},
		"one name twice":  {before(one[0], one[0]), ""},
		"nothing to call": {before(gateway.Upstream{Name: "a"}), ""},
		"one claim twice": {before(gateway.Upstream{Name: "a", Connect: up, Unprefixed: []string{"x"}},
			gateway.Upstream{Name: "b", Connect: up, Unprefixed: []string{"x"}}), ""},
		"claim of a prefix": {before(one[0],
			gateway.Upstream{Name: "b", Connect: up, Unprefixed: []string{"a_x"}}), ""},
		"no connections": {&gateway.Options{MaxConnections: -1, Upstreams: one}, "must not be negative"},
		"no kind": {before(gateway.Upstream{Name: "a", Connect: up,
			Refuse: []protocol.InputKind{"url"}}), `"url" is no kind of question`},
		"calls that start over": {restarting, "RestartExpired"},
	} {
		_, err := gateway.New(test.opts)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func TestAGatewayThatFailsLeavesNoMetricsBehind(t *testing.T) {
	registry := prometheus.NewRegistry()
	taken := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "elicitation_resumes_total",
		Help: "Requests that resumed such a call with answers, by outcome.",
	}, []string{"outcome"})
	registry.MustRegister(taken)
	opts := before(gateway.Upstream{Name: "a", Connect: gateway.HTTP("http://localhost", nil)})
	opts.Metrics = prom.New(registry)
	if _, err := gateway.New(opts); err == nil {
		t.Fatal("no error")
	}
	registry.Unregister(taken)
	opts.Server.Roundtrip.Observer = event.Observers() // New refuses it
	if _, err := gateway.New(opts); err == nil {
		t.Fatal("no error")
	}
	opts.Server.Roundtrip.Observer = nil
	g, err := gateway.New(opts)
	noError(t, err)
	_ = g.Close()
}

// A watchedPeer is a server in this process that reports its closing.
type watchedPeer struct {
	*server.Server
	closed *atomic.Int64
}

func (p watchedPeer) Close() error {
	p.closed.Add(1)
	return nil
}

// Idle connections are closed without another call.
func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, nil)
		addTool(srv, "x", done)
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
		noError(t, err)
		synctest.Wait()
		c, err := client.New(g.Server(), nil)
		noError(t, err)
		if _, err := c.CallTool(t.Context(), "ops_x", nil); err != nil {
			t.Fatal(err)
		}
		if opened.Load() != 3 || closed.Load() != 0 {
			t.Fatalf("%d opened, %d closed", opened.Load(), closed.Load())
		}
		time.Sleep(6*time.Minute + time.Second)
		wantEqual(t, "closed after 6 minutes", closed.Load(), int64(2)) // the gateway's own stays
		if err := g.Close(); err != nil || closed.Load() != 3 {
			t.Errorf("%d are closed at the end: %v", closed.Load(), err)
		}
	})
}

func TestAnUpstreamThatIsDownAtStartIsPublishedLater(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	late := beforeConnect(ops(startUpstream(t).url, 0), func(gateway.Credential) error {
		if !up.Load() {
			return errors.New("connection refused")
		}
		return nil
	})
	c := connect(t, front(t, late), 0, &person{})
	wantEqual(t, "listed", toolNames(t, c), "")
	up.Store(true)
	awaitTool(t, c, "ops_deploy")
}

func TestAChangedDefinitionIsPublished(t *testing.T) {
	t.Parallel()
	srv := newServer(t, nil)
	define := func(description string) {
		server.AddTool(srv, server.Tool{Name: "x", Description: description},
			func(ctx context.Context, call *server.ToolCall, _ struct{}) (outcome, error) {
				return done(ctx, call)
			})
	}
	define("before")
	c := connect(t, front(t, ops(serveHTTP(t, srv), 0)), 0, &person{}, "ops_x")
	srv.RemoveTool("x")
	define("after")
	if !eventually(func() bool {
		for tool, err := range c.Tools(t.Context()) {
			if err == nil && tool.Name == "ops_x" && tool.Description == "after" {
				return true
			}
		}
		return false
	}) {
		t.Error("the description that the upstream has changed is not published")
	}
}

func TestOneUpstreamCannotTakeTheNameOfAnother(t *testing.T) {
	a, b := startUpstream(t), startUpstream(t)
	c := connect(t, front(t, gateway.Upstream{Name: "a", Connect: gateway.HTTP(a.url, nil),
		Unprefixed: []string{"deploy"}}, ops(b.url, 0)), 0, &person{}, "deploy", "ops_deploy")
	wantText(t, c, "deploy", deployed)
	if a.commits.Load() != 1 || b.commits.Load() != 0 {
		t.Errorf("%d and %d effects", a.commits.Load(), b.commits.Load())
	}
}

func TestConnectionsOfOlderUpstreamsServeOneCallerEach(t *testing.T) {
	var opened atomic.Int64
	url := frontByUser(t, counting(startUpstream(t).url, protocol.Legacy, &opened))
	for _, user := range []string{"ann", "ann", "bob", "ann", "bob"} {
		c := connectAs(t, url, 0, user, "ops_deploy")
		wantText(t, c, "ops_deploy", deployed)
		_ = c.Close()
	}
	wantEqual(t, "connections for the lists and each caller", opened.Load(), int64(3))
}

func TestCredentialsDecideWhatIsShared(t *testing.T) {
	u := startUpstream(t)
	var mu sync.Mutex
	opened := map[string]int{}
	upstream := beforeConnect(ops(u.url, protocol.Modern), func(c gateway.Credential) error {
		mu.Lock()
		defer mu.Unlock()
		opened[c.Key]++
		return nil
	})
	upstream.Credential = func(
		_ context.Context, caller protocol.Principal) (gateway.Credential, error) {
		if caller.Subject == "stranger" {
			return gateway.Credential{}, protocol.Errorf(
				protocol.CodeInvalidParams, "log in at https://login.example first")
		}
		return gateway.Credential{Key: "key of " + caller.Subject}, nil
	}
	url := frontByUser(t, upstream)
	callAs := func(subject string) error {
		c := connectAs(t, url, 0, subject, "ops_deploy")
		_, err := c.CallTool(t.Context(), "ops_deploy", nil)
		return errors.Join(err, c.Close())
	}
	for _, subject := range []string{"ann", "bob", "ann"} {
		if err := callAs(subject); err != nil {
			t.Error(err)
		}
	}
	// One connection is for the credential's lists, the other for calls.
	want := map[string]int{"key of ": 1, "key of ann": 2, "key of bob": 2}
	if !maps.Equal(opened, want) {
		t.Errorf("opened %v, want %v", opened, want)
	}
	calls := u.calls.Load()
	if err := callAs("stranger"); err == nil || !strings.Contains(err.Error(), "log in at") {
		t.Errorf("got %v", err)
	}
	wantEqual(t, "calls of the upstream", u.calls.Load(), calls)
}

func TestReadyWaitsForAllUpstreams(t *testing.T) {
	forEachEra(t, func(t *testing.T, upstreamEra protocol.Era) {
		opts := before(ops(startUpstream(t).url, upstreamEra))
		logs := logged(opts, zap.InfoLevel)
		g, _ := serveGateway(t, opts, nil)
		noError(t, g.Ready(t.Context()))
		entry := logs.FilterMessage("gateway.upstream_ready").All()
		if len(entry) != 1 || protocol.Version(fmt.Sprint(entry[0].ContextMap()["version"])).Era() !=
			upstreamEra {
			t.Errorf("logged %v", entry)
		}
		opts = before(opts.Upstreams[0], gateway.Upstream{Name: "down",
			Connect: gateway.HTTP("http://127.0.0.1:1", nil)})
		g, _ = serveGateway(t, opts, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "down") {
			t.Errorf("got %v", err)
		}
	})
}
