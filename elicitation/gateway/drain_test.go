package gateway_test

import (
	"context"
	"errors"
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

// statusOf returns the status of a request to begin a call, or a session, and when to come back.
func statusOf(t *testing.T, url string, era protocol.Era) (status int, after string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":` +
		`"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	if era == protocol.Modern {
		body = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`
	}
	req, _ := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if era == protocol.Modern {
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/list")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

// While the gateway drains, a balancer can offer what begins something to another replica; calls
// in open sessions and flows that resume are served.
func TestWhatBeginsWhileDrainingIsRefusedWith503(t *testing.T) {
	t.Parallel()
	for _, upstreamEra := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		t.Run(upstreamEra.String(), func(t *testing.T) {
			u := startUpstream(t)
			g, url := serveGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
				{Name: "ops", Connect: gateway.HTTP(u.url, nil), Era: upstreamEra},
			}}, nil)
			c := byHand(t, url)
			awaitTool(t, c, "ops_deploy")
			pending := begin(t, c)
			running, release := make(chan struct{}), make(chan struct{})
			session := connectWith(t, url, client.Options{Era: protocol.Legacy, ElicitForm: func(
				_ context.Context, q *client.FormQuestion,
			) (*protocol.ElicitResult, error) {
				if strings.Contains(q.Message, "where") {
					close(running)
					<-release
				}
				return client.Decline(), nil
			}})
			awaitTool(t, session, "ops_deploy")
			ended := make(chan error, 1)
			go func() {
				_, err := session.CallTool(t.Context(), "ops_deploy", nil)
				ended <- err
			}()
			<-running
			down := make(chan error, 1)
			go func() { down <- g.Shutdown(context.Background()) }()
			for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
				status, after := 0, ""
				for range 500 { // until nothing begins
					if status, after = statusOf(t, url, era); status == 503 {
						break
					}
				}
				if status != 503 || after == "" {
					t.Errorf("%v: got %d, Retry-After %q", era, status, after)
				}
			}
			if _, err := session.CallTool(t.Context(), "ops_link", nil); err != nil {
				t.Errorf("in an open session: %v", err)
			}
			_, next, err := c.Resume(t.Context(), answered(t, pending, target{"production"}))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = c.Resume(t.Context(), answered(t, next, confirmation{true}))
			if err != nil {
				t.Error(err)
			}
			close(release)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := <-down; err != nil {
				t.Error(err)
			}
		})
	}
}

// ignoredDeclines are the refusals that nobody looked at.
type ignoredDeclines chan event.DeclineIgnored

func (c ignoredDeclines) Observe(_ context.Context, e event.Event) {
	if e, ok := e.(event.DeclineIgnored); ok {
		c <- e
	}
}

// A refusal that is passed on is one that was looked at.
func TestADeclineIsNoFalseAlarm(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		srv := newServer(t, nil)
		server.AddTool(srv, server.Tool{Name: "x"}, func(
			ctx context.Context, _ *server.ToolCall, _ struct{},
		) (outcome, error) {
			_, err := roundtrip.Ask[target](ctx, "where", "Where?")
			if errors.Is(err, roundtrip.ErrPending) {
				return nil, err
			}
			return server.Text("left as it is"), nil
		})
		ignored := make(ignoredDeclines, 10)
		url := startGateway(t, &gateway.Options{Server: server.Options{Observer: ignored},
			Upstreams: []gateway.Upstream{
				{Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil), Era: upstreamEra}}})
		c := connect(t, url, clientEra, &person{answer: func(string) *protocol.ElicitResult {
			return client.Decline()
		}})
		awaitTool(t, c, "ops_x")
		result, err := c.CallTool(t.Context(), "ops_x", nil)
		if err != nil || textOf(result) != "left as it is" {
			t.Fatalf("got %q, %v", textOf(result), err)
		}
		select {
		case e := <-ignored:
			t.Errorf("got %+v", e)
		default:
		}
	})
}

// A session that makes one call after the other is not cut off between two.
func TestADrainWaitsForTheNextCallOfASession(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g, url := serveGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(u.url, nil)},
	}}, nil)
	session := connect(t, url, protocol.Legacy, &person{})
	awaitTool(t, session, "ops_deploy")
	down := make(chan error, 1)
	for i := range 4 {
		if _, err := session.CallTool(t.Context(), "ops_deploy", nil); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		if i == 0 {
			go func() { down <- g.Shutdown(context.Background()) }()
		}
		time.Sleep(300 * time.Millisecond)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}
