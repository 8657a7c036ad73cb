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

// reportingUpstream asks in the middle of a call, and reports before and after where the
// call has a progress token; of the modern revision it asks in its first answer, and
// reports after. A call that has a token ends when finish says so, since the SDK may hand
// a result over before reports that came first.
func reportingUpstream(t *testing.T, revision string, finish <-chan struct{}) string {
	t.Helper()
	question := &mcp.ElicitParams{
		Message: "Sure?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
	}
	up := mcp.NewServer(impl, nil)
	up.AddTool(tool("form"), func(
		ctx context.Context, req *mcp.CallToolRequest,
	) (answered *mcp.CallToolResult, err error) {
		report := func(progress float64, message string) {
			if token := req.Params.GetProgressToken(); token != nil {
				_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
					ProgressToken: token, Progress: progress, Total: 9, Message: message,
				})
			}
		}
		if revision >= modern {
			answer, ok := req.Params.InputResponses["q"].(*mcp.ElicitResult)
			if !ok {
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": question}}, nil
			}
			answered = tell(answer, nil)
		} else {
			report(1, "one")
			answered = tell(req.Session.Elicit(ctx, question))
		}
		report(1.00001, "raised")
		report(2, "two")
		if req.Params.GetProgressToken() != nil {
			select {
			case <-finish:
			case <-ctx.Done():
			}
		}
		return answered, nil
	})
	return overHTTPAt(t, up, &mcp.StreamableHTTPOptions{Stateless: revision >= modern})
}

// overHTTPAt serves s until the test ends.
func overHTTPAt(t *testing.T, s *mcp.Server, opts *mcp.StreamableHTTPOptions) (url string) {
	t.Helper()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, opts)
	served := httptest.NewServer(handler)
	t.Cleanup(served.Close)
	return served.URL
}

// relayingGateway passes calls on to the upstream at url, and progress back: a report
// that comes late, too.
func relayingGateway(t *testing.T, revision, url string) *mcp.Server {
	t.Helper()
	router, err := elicitation.New(&elicitation.Options{Heartbeat: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	pass := func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key := elicitation.UpstreamKey(fmt.Sprintf("%p", req))
		call, err := clients.Begin(ctx, req, key)
		if err != nil {
			return nil, err
		}
		defer call.End()
		wanted := !call.Origin().ProgressToken.IsZero()
		relay := func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			err := gosdk.RelayProgress(context.Background(), call, req.Params)
			if wanted != (err == nil) {
				t.Errorf("progress is wanted: %v, but the error is %v", wanted, err)
			}
		}
		base := &mcp.ClientOptions{ProgressNotificationHandler: relay}
		client := gosdk.NewClient(router, call, key, impl, base)
		session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url},
			&mcp.ClientSessionOptions{ProtocolVersion: revision})
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
		relay(ctx, &mcp.ProgressNotificationClientRequest{
			Params: &mcp.ProgressNotificationParams{Progress: 3, Message: "late"},
		})
		return result, err
	}
	server.AddTool(tool("form"), pass)
	return server
}

// While a person thinks, the client of a gateway hears on the token of its call that
// the call is alive; what the upstream reports keeps rising, and nothing follows the
// result. A call without a token gets nothing, and those at the same time go on.
func TestHeartbeatsOverWires(t *testing.T) {
	for over, open := range map[string]func(*testing.T, *mcp.Server) mcp.Transport{
		"http": func(t *testing.T, server *mcp.Server) mcp.Transport {
			return &mcp.StreamableClientTransport{
				// so on the call's stream
				Endpoint: overHTTPAt(t, server, nil), DisableStandaloneSSE: true,
			}
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
		for _, upstream := range []string{legacy, modern} {
			for _, revision := range []string{"2025-06-18", legacy} {
				for _, token := range []any{"p", 7} {
					name := fmt.Sprintf("%s/upstream %s/%s/%T", over, upstream, revision, token)
					t.Run(name, func(t *testing.T) {
						finish := make(chan struct{})
						server := relayingGateway(t, upstream,
							reportingUpstream(t, upstream, finish))
						seen := callWithHeartbeats(t, open(t, server), revision, token, finish)
						checkHeartbeats(t, seen, upstream, token)
					})
				}
			}
		}
	}
}

// callWithHeartbeats makes two calls at a time, one with token, to which a person says
// yes after four heartbeats. It returns the progress that the client has heard of.
func callWithHeartbeats(
	t *testing.T, over mcp.Transport, revision string, token any, finish chan<- struct{},
) (seen []*mcp.ProgressNotificationParams) {
	t.Helper()
	beaten, progress := make(chan struct{}), make(chan *mcp.ProgressNotificationParams, 1000)
	session, err := mcp.NewClient(impl, &mcp.ClientOptions{
		ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult,
			error) {
			select {
			case <-beaten:
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		ProgressNotificationHandler: func(_ context.Context,
			req *mcp.ProgressNotificationClientRequest) {
			progress <- req.Params
		},
	}).Connect(t.Context(), over, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	ended := make(chan string, 2)
	for _, token := range []any{nil, token} {
		go func() {
			params := &mcp.CallToolParams{Name: "form"}
			if token != nil {
				params.SetProgressToken(token)
			}
			result, err := session.CallTool(ctx, params)
			if err != nil {
				ended <- err.Error()
				return
			}
			ended <- result.Content[0].(*mcp.TextContent).Text
		}()
	}
	for last, beats := "", 0; last != "two"; {
		select {
		case p := <-progress:
			seen, last = append(seen, p), p.Message
		case <-ctx.Done():
			t.Fatalf("heard %d reports", len(seen))
		}
		if last == beat {
			if beats++; beats == 4 {
				close(beaten)
			}
		}
	}
	close(finish)
	for range 2 {
		if got := <-ended; !strings.HasPrefix(got, "accept ") {
			t.Errorf("got %s", got)
		}
	}
	if err := session.Ping(ctx, nil); err != nil { // what was sent before has come
		t.Error(err)
	}
	for len(progress) > 0 {
		t.Errorf("%+v after the last report", <-progress)
	}
	return seen
}

func checkHeartbeats(
	t *testing.T, seen []*mcp.ProgressNotificationParams, upstream string, token any,
) {
	t.Helper()
	var texts []string
	total, want := 9.0, []string{"one", beat, "raised", "two"}
	if upstream == modern {
		total, want = 0, want[1:] // nothing is known before the first report
	}
	last := 0.0
	for _, p := range seen {
		if got, want := mustJSON(t, p.ProgressToken), mustJSON(t, token); got != want {
			t.Errorf("token %s, want %s", got, want)
		}
		if p.Message == "raised" {
			total = 9
		}
		if p.Progress <= last || p.Total != total {
			t.Errorf("%v of %v follows %v", p.Progress, p.Total, last)
		}
		last, texts = p.Progress, append(texts, p.Message)
	}
	if texts = slices.Compact(texts); !slices.Equal(texts, want) || last != 2 {
		t.Errorf("the client heard %q up to %v, want %q up to 2", texts, last, want)
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
