package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
)

const beat = "waiting for an answer"

// reportingUpstream asks in the middle of a call, and reports before and after
// where the call has a progress token. A call that has one ends when finish says so.
func reportingUpstream(t *testing.T, finish <-chan struct{}) string {
	t.Helper()
	up := mcp.NewServer(impl, nil)
	up.AddTool(tool("form"), func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		report := func(progress float64, message string) {
			if token := req.Params.GetProgressToken(); token != nil {
				_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
					ProgressToken: token, Progress: progress, Total: 9, Message: message,
				})
			}
		}
		report(1, "one")
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
			Message: "Sure?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
		})
		report(1.00001, "raised")
		report(2, "two")
		if req.Params.GetProgressToken() != nil {
			select {
			case <-finish: // the SDK may hand a result over before reports that came first
			case <-ctx.Done():
			}
		}
		return tell(answer, err), nil
	})
	upHTTP := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return up }, nil))
	t.Cleanup(upHTTP.Close)
	return upHTTP.URL
}

// relayingGateway passes calls on to the upstream at url, and progress back.
func relayingGateway(t *testing.T, url string) *mcp.Server {
	t.Helper()
	router, err := elicitation.New(&elicitation.Options{Heartbeat: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(impl, nil)
	clients := gosdk.NewDownstream(router, server, nil)
	server.AddTool(tool("form"), func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key := elicitation.UpstreamKey(fmt.Sprintf("%p", req))
		call, err := clients.Begin(ctx, req, key)
		if err != nil {
			return nil, err
		}
		defer call.End()
		wanted := !call.Origin().ProgressToken.IsZero()
		relay := func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			if err := gosdk.RelayProgress(context.Background(), call, req.Params); wanted != (err == nil) {
				t.Errorf("progress is wanted: %v, but the error is %v", wanted, err)
			}
		}
		opts := gosdk.ClientOptions(router, call, key, &mcp.ClientOptions{ProgressNotificationHandler: relay})
		session, err := mcp.NewClient(impl, opts).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
		if err != nil {
			return nil, err
		}
		defer session.Close()
		params := &mcp.CallToolParams{Name: "form"}
		if wanted {
			params.SetProgressToken("upstream's")
		}
		result, err := session.CallTool(ctx, params)
		call.End()
		relay(ctx, &mcp.ProgressNotificationClientRequest{Params: &mcp.ProgressNotificationParams{Progress: 3, Message: "late"}})
		return result, err
	})
	return server
}

// While a person thinks, the client of a gateway hears on the token of its call that
// the call is alive; what the upstream reports keeps rising, and nothing follows the
// result. A call without a token gets nothing, and those at the same time go on.
func TestHeartbeatsOverWires(t *testing.T) {
	for over, open := range map[string]func(*testing.T, *mcp.Server) mcp.Transport{
		"http": func(t *testing.T, server *mcp.Server) mcp.Transport {
			down := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
			t.Cleanup(down.Close)
			return &mcp.StreamableClientTransport{Endpoint: down.URL, DisableStandaloneSSE: true} // on the call's stream
		},
		"lines": func(t *testing.T, server *mcp.Server) mcp.Transport {
			r1, w1 := io.Pipe()
			r2, w2 := io.Pipe()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = server.Run(t.Context(), &mcp.IOTransport{Reader: r1, Writer: w2})
			}()
			t.Cleanup(func() { _ = w1.Close(); _ = w2.Close(); <-ended })
			return &mcp.IOTransport{Reader: r2, Writer: w1}
		},
	} {
		for _, revision := range []string{"2025-06-18", legacy} {
			for _, token := range []any{"p", 7} {
				t.Run(fmt.Sprintf("%s/%s/%T", over, revision, token), func(t *testing.T) { testHeartbeats(t, open, revision, token) })
			}
		}
	}
}

func testHeartbeats(t *testing.T, open func(*testing.T, *mcp.Server) mcp.Transport, revision string, token any) {
	finish, beaten := make(chan struct{}), make(chan struct{})
	var seen []*mcp.ProgressNotificationParams // by one goroutine, until done
	progress, done := make(chan *mcp.ProgressNotificationParams, 1000), make(chan struct{})
	c := mcp.NewClient(impl, &mcp.ClientOptions{
		ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			select {
			case <-beaten:
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) { progress <- req.Params },
	})
	session, err := c.Connect(t.Context(), open(t, relayingGateway(t, reportingUpstream(t, finish))), &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	go func() {
		defer close(done)
		for beats := 0; ; {
			select {
			case p := <-progress:
				seen = append(seen, p)
				if p.Message == beat {
					if beats++; beats == 4 {
						close(beaten)
					}
				}
				if p.Message == "two" {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	silent := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "form"})
		silent <- err
	}()
	go func() { <-done; close(finish) }()
	params := &mcp.CallToolParams{Name: "form"}
	params.SetProgressToken(token)
	if result, err := session.CallTool(ctx, params); err != nil || !strings.HasPrefix(result.Content[0].(*mcp.TextContent).Text, "accept ") {
		t.Errorf("got %+v, %v", result, err)
	}
	if err := <-silent; err != nil {
		t.Error(err)
	}
	if err := session.Ping(ctx, nil); err != nil { // what was sent before has come
		t.Error(err)
	}
	for len(progress) > 0 {
		t.Errorf("%+v after the last report", <-progress)
	}
	checkHeartbeats(t, seen, token)
}

func checkHeartbeats(t *testing.T, seen []*mcp.ProgressNotificationParams, token any) {
	t.Helper()
	var texts []string
	last := 0.0
	for _, p := range seen {
		if got, want := mustJSON(t, p.ProgressToken), mustJSON(t, token); got != want {
			t.Errorf("token %s, want %s", got, want)
		}
		if p.Progress <= last || p.Total != 9 {
			t.Errorf("%v of %v follows %v", p.Progress, p.Total, last)
		}
		last, texts = p.Progress, append(texts, p.Message)
	}
	if want := []string{"one", beat, "raised", "two"}; !slices.Equal(slices.Compact(texts), want) || last != 2 {
		t.Errorf("the client heard %q up to %v, want %q up to 2", slices.Compact(texts), last, want)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
