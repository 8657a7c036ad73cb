package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// While draining, only new work gets 503, for a balancer to retry elsewhere.
func TestWhatBeginsWhileDrainingIsRefusedWith503(t *testing.T) {
	forEachEra(t, func(t *testing.T, upstreamEra protocol.Era) {
		g, url := serveGateway(t, before(ops(startUpstream(t).url, upstreamEra)), nil)
		c := byHand(t, url, "ops_deploy")
		pending := begin(t, c)
		running, release := make(chan struct{}), make(chan struct{})
		session := connect(t, url, protocol.Legacy, &person{answer: func(
			_ context.Context, message string) *protocol.ElicitResult {
			if strings.Contains(message, "where") {
				close(running)
				<-release
			}
			return client.Decline()
		}}, "ops_deploy")
		ended := make(chan error, 1)
		go func() {
			_, err := session.CallTool(t.Context(), "ops_deploy", nil)
			ended <- err
		}()
		<-running
		down := make(chan error, 1)
		go func() { down <- g.Shutdown(context.Background()) }()
		for what, send := range map[string]func() (*http.Response, string){
			"a session": func() (*http.Response, string) {
				return post(t, url, rawInitialize, nil)
			},
			"a request": func() (*http.Response, string) {
				return postModern(t, url, "", protocol.MethodListTools, "", "")
			},
		} {
			var resp *http.Response
			var said string
			if !eventually(func() bool {
				resp, said = send()
				return resp.StatusCode == 503
			}) || resp.Header.Get("Retry-After") == "" ||
				!strings.Contains(said, fmt.Sprint(protocol.CodeBusy)) {
				t.Errorf("%s: got %v, %s", what, resp, said)
			}
		}
		if _, err := session.CallTool(t.Context(), "ops_link", nil); err != nil {
			t.Errorf("in an open session: %v", err)
		}
		next, _ := resume(t, c, pending, target{"production"})
		_, got := resume(t, c, next, confirmation{true})
		wantEqual(t, "the result", got, deployed)
		close(release)
		if err := errors.Join(<-ended, <-down); err != nil {
			t.Error(err)
		}
	})
}

type ignoredDeclines chan event.DeclineIgnored

func (c ignoredDeclines) Observe(_ context.Context, e event.Event) {
	if e, ok := e.(event.DeclineIgnored); ok {
		c <- e
	}
}

// A decline that the gateway passes on is not reported as ignored.
func TestADeclineIsNoFalseAlarm(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		upstream := serveTool(t, "x", func(
			ctx context.Context, _ *server.ToolCall) (outcome, error) {
			_, err := roundtrip.Ask[target](ctx, "where", "Where?")
			if errors.Is(err, roundtrip.ErrPending) {
				return nil, err
			}
			return server.Text("left as it is"), nil
		})
		ignored := make(ignoredDeclines, 10)
		url := startGateway(t, &gateway.Options{Server: server.Options{Observer: ignored},
			Upstreams: []gateway.Upstream{ops(upstream, upstreamEra)}})
		c := connect(t, url, clientEra, &person{answer: func(
			context.Context, string) *protocol.ElicitResult {
			return client.Decline()
		}}, "ops_x")
		wantText(t, c, "ops_x", "left as it is")
		select {
		case e := <-ignored:
			t.Errorf("got %+v", e)
		default:
		}
	})
}

// A drain does not cut a session off between successive calls.
func TestADrainWaitsForTheNextCallOfASession(t *testing.T) {
	t.Parallel()
	g, url := serveGateway(t, before(ops(startUpstream(t).url, 0)), nil)
	session := connect(t, url, protocol.Legacy, &person{}, "ops_deploy")
	down := make(chan error, 1)
	for i := range 4 {
		wantText(t, session, "ops_deploy", deployed)
		if i == 0 {
			go func() { down <- g.Shutdown(context.Background()) }()
		}
		time.Sleep(300 * time.Millisecond)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}
