package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

func TestQuestionsLeftOutAreAskedAgainInOrder(t *testing.T) {
	t.Parallel()
	upstream := startRaw(t, func(c *rawCall) {
		for i := range 12 {
			c.ask(100+i, fmt.Sprint("Q", i))
		}
		<-t.Context().Done()
	})
	url := front(t, ops(upstream, protocol.Legacy))
	byHand(t, url, "ops_x")
	var r struct{ Result struct{ RequestState string } }
	_ = json.Unmarshal([]byte(modernRaw(t, url, "", "ops_x", "", "")), &r)
	again := modernRaw(t, url, "", "ops_x", r.Result.RequestState,
		`{"question-3":{"action":"accept","content":{"name":"a"}}}`)
	got, want := "", ""
	for i := range 12 {
		if i != 2 {
			want += fmt.Sprintf("question-%d ", i+1)
		}
	}
	for _, part := range strings.Split(again, `"question-`)[1:] {
		got += "question-" + part[:strings.Index(part, `"`)] + " "
	}
	wantEqual(t, "again", got, want)
}

func TestKeptResultsAreBounded(t *testing.T) {
	if testkit.Race {
		t.Skip("takes a minute with the race detector, where memory is not what it is without")
	}
	big := strings.Repeat("x", 1<<20)
	upstream := startRaw(t, func(c *rawCall) {
		c.ask(99, "Q")
		c.takeAnswer()
		c.text(big)
	})
	c := connect(t, front(t, ops(upstream, protocol.Legacy)), protocol.Modern,
		accepting(target{"abc"}), "ops_x")
	before := testkit.HeapInUse() >> 20
	for range 100 {
		if got := callText(t, c, "ops_x"); got != big {
			t.Fatalf("got %.200q", got)
		}
	}
	if after := testkit.HeapInUse() >> 20; after > before+150 { // 64 are kept, each with its JSON
		t.Errorf("%d MiB, before %d", after, before)
	}
}

// A panicking authorizer ends its call, but not the connection.
func TestPanicsOfAnAuthorizer(t *testing.T) {
	srv := newServer(t, nil)
	addTool(srv, "x", done)
	addTool(srv, "y", done)
	server.AddPrompt(srv, server.Prompt{Name: "greet",
		Arguments: []protocol.PromptArgument{{Name: "who"}},
		Complete: func(context.Context, *server.CompleteCall) ([]string, error) {
			return []string{"you"}, nil
		}},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return &protocol.GetPromptResult{}, nil
		})
	for _, method := range []string{protocol.MethodCallTool, protocol.MethodComplete} {
		var armed atomic.Bool
		upstream := ops(serveHTTP(t, srv), protocol.Legacy)
		upstream.Credential = func(context.Context, protocol.Principal) (
			gateway.Credential, error) {
			return gateway.Credential{Authorizer: authorizer(func(o clienthttp.Outgoing) (
				http.Header, error) {
				if armed.Load() && o.RPC == method {
					panic("authorizer")
				}
				return nil, nil
			})}, nil
		}
		c := connect(t, startGateway(t, &gateway.Options{MaxConnections: 1,
			Upstreams: []gateway.Upstream{upstream}}), 0, &person{}, "ops_x")
		wantText(t, c, "ops_x", "done") // opens the connection
		armed.Store(true)
		if method == protocol.MethodCallTool {
			if got := callText(t, c, "ops_y"); !strings.HasPrefix(got, "failed: ") {
				t.Errorf("got %q", got)
			}
			armed.Store(false)
		} else if _, err := c.Complete(t.Context(), &protocol.CompleteParams{
			Prompt: "ops_greet", Argument: "who", Value: "y"}); err == nil {
			t.Error("the authorizer did not panic")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if r, err := c.CallTool(ctx, "ops_x", nil); err != nil || r.IsError {
			t.Errorf("%s, afterwards: %q, %v", method, textOf(r), err)
		}
	}
}
