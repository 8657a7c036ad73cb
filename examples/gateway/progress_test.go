package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// through returns a client of alice's, of a gateway before the upstream.
func through(t *testing.T, upstream http.Handler, opts client.Options) *client.Client {
	t.Helper()
	up := httptest.NewServer(upstream)
	t.Cleanup(up.Close)
	routing := elicitation.Options{Heartbeat: 5 * time.Millisecond}
	g, err := newGateway(t.Context(),
		config{routing, map[string]string{"up": up.URL}, alice}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.shutdown)
	return connectAs(t, g, "alice", opts)
}

// connectAs returns a client of the gateway that has a token.
func connectAs(t *testing.T, g *gateway, token string, opts client.Options) *client.Client {
	t.Helper()
	down := httptest.NewServer(g.handler())
	t.Cleanup(down.Close)
	transport, err := clienthttp.New(down.URL+"/mcp",
		&clienthttp.Options{Header: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		t.Fatal(err)
	}
	opts.Era = protocol.Legacy
	c, err := client.New(transport, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// hideFromMute is the middleware of an upstream that lists no tools to clients
// that it cannot ask.
func hideFromMute(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		session, ok := req.GetSession().(*mcp.ServerSession)
		if method == "tools/list" && ok &&
			session.InitializeParams().Capabilities.Elicitation == nil {
			return &mcp.ListToolsResult{Tools: []*mcp.Tool{}}, nil
		}
		return next(ctx, method, req)
	}
}

// Tools that an upstream shows only to clients that can be asked are published.
func TestToolsThatAskArePublished(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "shy", Version: "1"}, nil)
	srv.AddReceivingMiddleware(hideFromMute)
	srv.AddTool(&mcp.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Sure?",
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{
				Content: []mcp.Content{&mcp.TextContent{Text: answer.Action}}}, nil
		})
	upstream := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil)
	c := through(t, upstream, client.Options{
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(nil)
		},
	})
	list, err := c.ListTools(t.Context(), "")
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "up_ask" {
		t.Fatalf("got %+v, %v, want up_ask", list, err)
	}
	result, err := c.CallTool(t.Context(), "up_ask", nil)
	if err != nil || result.Content[0].(*protocol.TextContent).Text != "accept" {
		t.Errorf("got %+v, %v", result, err)
	}
}

// What an upstream reports about a call reaches the client that made the call,
// all of it and in order; one that did not ask for progress gets the result.
func TestProgressIsPassedOn(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
	heard := make(chan string, 9) // by the client
	srv.AddTool(&mcp.Tool{Name: "work", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			token, said := req.Params.GetProgressToken(), "reported:"
			for i := 1; token != nil && i <= 3; i++ {
				for _, other := range []any{token, "somebody else's"} {
					if err := req.Session.NotifyProgress(ctx,
						&mcp.ProgressNotificationParams{ProgressToken: other, Progress: float64(i),
							Total: 3, Message: fmt.Sprint("step ", i)}); err != nil {
						return nil, err
					}
				}
				if i == 3 { // the SDK may hand a result over before reports that came first
					for range 3 {
						said += <-heard
					}
				}
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, nil
		})
	upstream := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil)
	for _, wanted := range []bool{true, false} {
		t.Run(fmt.Sprint("wanted ", wanted), func(t *testing.T) {
			want, opts := "reported:", client.Options{}
			if wanted {
				want = "reported: 1 of 3: step 1, 2 of 3: step 2, 3 of 3: step 3,"
				opts.Progress = func(_ context.Context, p *protocol.Progress) {
					heard <- fmt.Sprintf(" %v of %v: %s,", p.Progress, *p.Total, p.Message)
				}
			}
			result, err := through(t, upstream, opts).CallTool(t.Context(), "up_work", nil)
			if err != nil || result.Content[0].(*protocol.TextContent).Text != want {
				t.Errorf("got %+v, %v, want %q", result, err, want)
			}
		})
	}
}

// While a person thinks, the client hears that its call is alive; what the upstream
// reports afterwards is more than that, and nothing follows the result.
func TestCallsThatWaitShowIt(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "asks", Version: "1"}, nil)
	heard := make(chan *protocol.Progress, 1000)
	srv.AddTool(&mcp.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			report := func(progress float64) error {
				return req.Session.NotifyProgress(ctx,
					&mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(),
						Progress: progress})
			}
			if err := report(1); err != nil {
				return nil, err
			}
			answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Sure?",
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
			if err != nil {
				return nil, err
			}
			if err := report(2); err != nil {
				return nil, err
			}
			for last := 0.0; last < 2; {
				// the SDK may hand a result over before reports that came first
				p := <-heard
				if p.Progress <= last {
					t.Errorf("%v follows %v", p.Progress, last)
				}
				last = p.Progress
			}
			return &mcp.CallToolResult{
				Content: []mcp.Content{&mcp.TextContent{Text: answer.Action}}}, nil
		})
	beats := make(chan struct{}, 1000)
	upstream := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil)
	c := through(t, upstream, client.Options{
		Progress: func(_ context.Context, p *protocol.Progress) {
			heard <- p
			if p.Message == "waiting for an answer" {
				beats <- struct{}{}
			}
		},
		ElicitForm: func(ctx context.Context,
			_ *client.FormQuestion) (*protocol.ElicitResult, error) {
			for range 3 {
				select {
				case <-beats:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return client.Accept(nil)
		},
	})
	result, err := c.CallTool(t.Context(), "up_ask", nil)
	if err != nil || result.Content[0].(*protocol.TextContent).Text != "accept" {
		t.Errorf("got %+v, %v", result, err)
	}
	if n := len(heard); n > 0 {
		t.Errorf("%d reports after the last of the upstream, the first is %+v", n, <-heard)
	}
}
