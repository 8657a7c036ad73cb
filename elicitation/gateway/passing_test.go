package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// A cancelled completion must not end another call on a shared connection.
func TestACancelledCompletionEndsNoOtherCall(t *testing.T) {
	t.Parallel()
	srv := newServer(t, nil)
	begun, release := make(chan struct{}), make(chan struct{})
	completing := make(chan struct{}, 1)
	addTool(srv, "slow", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
		close(begun)
		select {
		case <-release:
			return server.Text("done"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	server.AddPrompt(srv, server.Prompt{Name: "p",
		Arguments: []protocol.PromptArgument{{Name: "a"}},
		Complete: func(ctx context.Context, call *server.CompleteCall) ([]string, error) {
			completing <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}}, func(
		context.Context, *server.PromptCall,
	) (protocol.GetPromptOutcome, error) {
		return nil, nil
	})
	c := connect(t, front(t, ops(serveHTTP(t, srv), protocol.Modern)), protocol.Modern, &person{},
		"ops_slow")
	time.Sleep(300 * time.Millisecond)
	got := make(chan string, 1)
	go func() { got <- callText(t, c, "ops_slow") }()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-completing; cancel() }()
	_, _ = c.Complete(ctx, &protocol.CompleteParams{Prompt: "ops_p",
		Argument: "a", Value: "x"})
	time.Sleep(300 * time.Millisecond)
	close(release)
	wantEqual(t, "the result", <-got, "done")
}

// Concurrent first calls to a modern upstream share one connection.
func TestFirstCallsShareAConnection(t *testing.T) {
	t.Parallel()
	var connects atomic.Int64
	u := beforeConnect(ops(serveTool(t, "x", done), protocol.Modern), func(gateway.Credential) error {
		connects.Add(1)
		time.Sleep(100 * time.Millisecond)
		return nil
	})
	c := connect(t, front(t, u), protocol.Modern, &person{}, "ops_x")
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { wantText(t, c, "ops_x", "done") })
	}
	wg.Wait()
	if n := connects.Load(); n > 3 {
		t.Errorf("%d connections", n)
	}
}

func startChanging(t *testing.T) (*server.Server, *httptest.Server) {
	t.Helper()
	srv := newServer(t, &server.Options{Capabilities: protocol.ServerCapabilities{
		Resources: &protocol.ResourcesCapability{Subscribe: true, ListChanged: true}}})
	addTool(srv, "x", done)
	addResource(srv, "file:///a")
	addResource(srv, "file:///another")
	return srv, serve(t, servertest.NewHandler(t, srv, nil))
}

func drain(updates <-chan string) {
	time.Sleep(500 * time.Millisecond)
	for len(updates) > 0 {
		<-updates
	}
}

// Clients get changes only of their subscribed resources, even after a stream broke.
func TestChangesOfAResourceReachWhoSubscribed(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		srv, l := startChanging(t)
		c := connect(t, front(t, ops(l.URL, upstreamEra)), clientEra, &person{}, "ops_x")
		_, updates := listen(t, c, false, "ops+file:///a")
		wantUpdate(t, srv, "file:///a", updates)
		l.CloseClientConnections()
		drain(updates)
		wantUpdate(t, srv, "file:///a", updates)
	})
}

// A session's unsubscribe does not affect other subscribers.
func TestOneSessionUnsubscribesForItselfAlone(t *testing.T) {
	t.Parallel()
	srv, l := startChanging(t)
	url := front(t, ops(l.URL, protocol.Modern))
	_, updates := listen(t, connect(t, url, protocol.Legacy, &person{}, "ops_x"), false,
		"ops+file:///a")
	wantUpdate(t, srv, "file:///a", updates)
	// Another session unsubscribes without having subscribed.
	rawLegacy(t, url, `{"jsonrpc":"2.0","id":7,"method":"resources/unsubscribe",`+
		`"params":{"uri":"ops+file:///a"}}`)
	drain(updates)
	wantUpdate(t, srv, "file:///a", updates)
}

// A modern upstream's logs reach a client that wants them.
func TestLogsReachTheClient(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		logging := server.Options{
			Capabilities: protocol.ServerCapabilities{Logging: &struct{}{}}}
		srv := newServer(t, &logging)
		addTool(srv, "x", func(ctx context.Context, call *server.ToolCall) (outcome, error) {
			_ = call.Log(ctx, "warning", "l", "hello")
			return server.Text("done"), nil
		})
		url := startGateway(t, &gateway.Options{Server: logging,
			Upstreams: []gateway.Upstream{ops(serveHTTP(t, srv), upstreamEra)}})
		var logs atomic.Int64
		c := connectWith(t, url, client.Options{Era: clientEra,
			Log: func(context.Context, *protocol.LogMessage) { logs.Add(1) }}, "ops_x")
		if _, err := c.CallToolParams(t.Context(), &protocol.CallToolParams{Name: "ops_x",
			RequestMeta: protocol.RequestMeta{LogLevel: "debug"}}); err != nil {
			t.Fatal(err)
		}
		if !eventually(func() bool { return logs.Load() > 0 }) {
			t.Error("no log")
		}
	})
}

func TestSecretsAreAskedForWhereTheUpstreamMay(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		upstream := ops(serveTool(t, "x", func(
			ctx context.Context, _ *server.ToolCall) (outcome, error) {
			if roundtrip.RawAnswer(ctx, "k").Outcome == roundtrip.Accepted {
				return server.Text("done"), nil
			}
			return roundtrip.InputRequired(roundtrip.ElicitSchema("k", "Log in", json.RawMessage(
				`{"type":"object","properties":{"passwort":{"type":"string",`+
					`"title":"Kennwort"},"password":{"type":"string"}},`+
					`"required":["password"]}`), roundtrip.AllowSecrets())), nil
		}), upstreamEra)
		for _, admitted := range []bool{true, false} {
			upstream.Secrets = admitted
			p := accepting(map[string]string{"password": "hunter2"})
			c := connect(t, front(t, upstream), clientEra, p, "ops_x")
			if got := callText(t, c, "ops_x"); admitted != (got == "done") ||
				!admitted && len(p.shown) > 0 {
				t.Errorf("admitted %v: %q, shown %q", admitted, got, p.shown)
			}
		}
	})
}

func TestFormsThatClientsTakePass(t *testing.T) {
	for name, schema := range map[string]string{
		"plain": `{"type":"object","properties":{"n":{"type":"string"}}}`,
		"$schema": `{"$schema":"https://json-schema.org/draft/2020-12/schema",` +
			`"type":"object","title":"T","additionalProperties":false,` +
			`"properties":{"n":{"type":"string","title":"N"}},"required":["n"]}`,
		"pydantic": `{"type":"object","title":"T","properties":{"n":{"type":"string",` +
			`"title":"N","examples":["a"]},"m":{"anyOf":[{"type":"integer"},` +
			`{"type":"null"}],"default":null,"title":"M"}},"required":["n"]}`,
		"pattern": `{"type":"object","properties":{"n":{"type":"string","pattern":"^a(?=b)"}}}`,
		"nodesc": `{"type":"object","properties":{"n":{"type":"string","x-foo":1,` +
			`"format":"phone"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			upstream := startRaw(t, func(c *rawCall) {
				c.event(`{"jsonrpc":"2.0","id":99,"method":"elicitation/create",` +
					`"params":{"message":"Q","requestedSchema":` + schema + `}}`)
				c.text(c.takeAnswer())
			})
			p := accepting(map[string]string{"n": "abc"})
			direct := strings.ReplaceAll(
				callText(t, connect(t, upstream, protocol.Legacy, p), "x"),
				"invalid params:", "Invalid elicitation request:") // in the router's words
			url := front(t, ops(upstream, protocol.Legacy))
			for _, era := range bothEras {
				wantText(t, connect(t, url, era, p, "ops_x"), "ops_x", direct)
			}
		})
	}
}

// An upstream that asks without waiting leaves nothing for the next call.
func TestQuestionsLeftOpenLeaveNothingBehind(t *testing.T) {
	upstream := startRaw(t, func(c *rawCall) {
		i := c.calls.Load()
		c.ask(1000+i, fmt.Sprint("Q", i))
		time.Sleep(2 * time.Millisecond)
	})
	c := byHand(t, front(t, ops(upstream, protocol.Legacy)), "ops_x")
	call := func() {
		for range 50 {
			// On a slow machine the question may be shown, but its call is over.
			_, _, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "ops_x"})
			noError(t, err)
		}
		time.Sleep(300 * time.Millisecond)
	}
	call()
	before := runtime.NumGoroutine()
	call()
	call()
	if after := runtime.NumGoroutine(); after > before+20 {
		t.Errorf("%d goroutines, before %d", after, before)
	}
}

// URLs in an upstream's error are subject to the same rules as those in questions.
func TestURLsInErrorsOfUpstreamsAreNotPassedOn(t *testing.T) {
	for _, refused := range []bool{false, true} {
		upstream := ops(startRaw(t, func(c *rawCall) {
			c.end(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"visit",` +
				`"data":{"elicitations":[{"mode":"url","elicitationId":"e1",` +
				`"url":"http://evil.example/x","message":"visit"}]}}}`)
		}), protocol.Legacy)
		upstream.Refuse = refuseIf(refused, protocol.KindElicitURL)
		url := front(t, upstream)
		for _, era := range bothEras {
			_, err := connect(t, url, era, &person{}, "ops_x").CallTool(t.Context(), "ops_x", nil)
			said, ok := protocol.AsError(err)
			if ok && strings.Contains(string(said.Data), "evil") {
				t.Errorf("%v: the client is sent to %s", era, said.Data)
			}
		}
	}
}

func TestTheLogHasNoAnswers(t *testing.T) {
	for name, end := range map[string]string{
		"an error":        `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":%q}}`,
		"a broken result": `{"jsonrpc":"2.0","id":%s,"result":{"content":[],%[2]q:1,%[2]q:2}}`,
	} {
		t.Run(name, func(t *testing.T) {
			upstream := startRaw(t, func(c *rawCall) {
				c.ask(99, "Q")
				wantPart(t, "the upstream got", c.takeAnswer(), "hunter2")
				c.end(end, "hunter2")
			})
			down := ops("http://127.0.0.1:1/?key=hunter3", protocol.Legacy)
			down.Name = "down"
			opts := before(ops(upstream+"/?key=hunter3", protocol.Legacy), down)
			logs := logged(opts, zap.DebugLevel)
			c := connect(t, startGateway(t, opts), 0, accepting(target{"hunter2"}), "ops_x")
			_, _ = c.CallTool(t.Context(), "ops_x", nil)
			failed := logs.FilterMessage("gateway.call_failed").Len()
			if failed != 1 || logs.FilterMessage("gateway.upstream_down").Len() == 0 {
				t.Errorf("%d failures are logged", failed)
			}
			for _, e := range logs.All() {
				if text := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(text, "hunter") {
					t.Errorf("logged %s", text)
				}
			}
		})
	}
}

// Long answers are passed on, and take no room in the next question's state.
func TestLongAnswersLeaveRoomForTheNext(t *testing.T) {
	upstream := startRaw(t, func(c *rawCall) {
		for i := range 4 {
			c.ask(100+i, "one more")
			c.takeAnswer()
		}
	})
	wantText(t, connect(t, front(t, ops(upstream, protocol.Legacy)), protocol.Modern,
		accepting(target{strings.Repeat("x", 10<<10)}), "ops_x"), "ops_x", "done")
}
