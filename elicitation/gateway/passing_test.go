package gateway_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func newServer(t *testing.T, opts *server.Options) *server.Server {
	t.Helper()
	srv, err := server.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

type outcome = protocol.CallToolOutcome

// A completion that is cancelled must not end another call on a shared connection.
func TestACancelledCompletionEndsNoOtherCall(t *testing.T) {
	t.Parallel()
	srv := newServer(t, nil)
	begun, release := make(chan struct{}), make(chan struct{})
	completing := make(chan struct{}, 1)
	server.AddTool(srv, server.Tool{Name: "slow"}, func(
		ctx context.Context, _ *server.ToolCall, _ struct{},
	) (outcome, error) {
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
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil), Era: protocol.Modern},
	}})
	c := connect(t, url, protocol.Modern, &person{})
	awaitTool(t, c, "ops_slow")
	time.Sleep(300 * time.Millisecond)
	got := make(chan string, 1)
	go func() {
		r, err := c.CallTool(t.Context(), "ops_slow", nil)
		got <- fmt.Sprint(textOf(r), err)
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-completing; cancel() }()
	_, err := c.Complete(ctx, &protocol.CompleteParams{Ref: protocol.CompletionRef{Prompt: "ops_p"},
		Argument: protocol.CompletionArgument{Name: "a", Value: "x"}})
	t.Log(err)
	time.Sleep(300 * time.Millisecond)
	close(release)
	if g := <-got; !strings.HasPrefix(g, "done") {
		t.Errorf("got %q", g)
	}
}

// Many first calls of a modern upstream share one connection.
func TestFirstCallsShareAConnection(t *testing.T) {
	t.Parallel()
	srv := newServer(t, nil)
	server.AddTool(srv, server.Tool{Name: "x"}, func(
		ctx context.Context, _ *server.ToolCall, _ struct{},
	) (outcome, error) {
		return server.Text("done"), nil
	})
	var connects atomic.Int64
	inner := gateway.HTTP(serveHTTP(t, srv), nil)
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: func(
			ctx context.Context, c gateway.Credential,
		) (protocol.Peer, error) {
			connects.Add(1)
			time.Sleep(100 * time.Millisecond)
			return inner(ctx, c)
		}, Era: protocol.Modern},
	}})
	c := connect(t, url, protocol.Modern, &person{})
	awaitTool(t, c, "ops_x")
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 100 {
		wg.Go(func() {
			if r, err := c.CallTool(t.Context(), "ops_x", nil); err != nil || textOf(r) != "done" {
				if failed.Add(1) == 1 {
					t.Log(textOf(r), err)
				}
			}
		})
	}
	wg.Wait()
	if failed.Load() > 0 || connects.Load() > 3 {
		t.Errorf("%d failed, %d connections", failed.Load(), connects.Load())
	}
}

// A listening stream that broke is opened again.
func TestAStreamOfChangesThatBreaksIsOpenedAgain(t *testing.T) {
	t.Parallel()
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			srv := newServer(t, &server.Options{Capabilities: protocol.ServerCapabilities{
				Resources: &protocol.ResourcesCapability{Subscribe: true, ListChanged: true}}})
			server.AddTool(srv, server.Tool{Name: "x"}, func(
				ctx context.Context, _ *server.ToolCall, _ struct{},
			) (outcome, error) {
				return server.Text("done"), nil
			})
			server.AddResource(srv, server.Resource{URI: "file:///a", Name: "a"},
				func(
					context.Context, *server.ResourceCall,
				) (protocol.ReadResourceOutcome, error) {
					return nil, nil
				})
			handler, err := serverhttp.New(srv, nil)
			if err != nil {
				t.Fatal(err)
			}
			l := httptest.NewServer(handler)
			t.Cleanup(func() { l.CloseClientConnections(); l.Close() })
			url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
				{Name: "ops", Connect: gateway.HTTP(l.URL, nil), Era: era}}})
			c := connect(t, url, protocol.Modern, &person{})
			awaitTool(t, c, "ops_x")
			updates := make(chan string, 1000)
			go func() {
				_ = c.Listen(t.Context(), protocol.SubscriptionFilter{
					ResourceSubscriptions: []string{"ops+file:///a"}},
					func(_ context.Context, e client.ListenEvent) {
						if u, ok := e.(client.ResourceUpdated); ok {
							updates <- u.URI
						}
					})
			}()
			await := func(what string, limit time.Duration) {
				for end := time.Now().Add(limit); time.Now().Before(end); {
					srv.ResourceUpdated("file:///a")
					select {
					case <-updates:
						return
					case <-time.After(50 * time.Millisecond):
					}
				}
				t.Errorf("%s: no update", what)
			}
			await("before", 5*time.Second)
			l.CloseClientConnections()
			time.Sleep(500 * time.Millisecond)
			for len(updates) > 0 {
				<-updates
			}
			await("after", 10*time.Second)
		})
	}
}

// Another session's unsubscribing takes nothing from who has subscribed.
func TestOneSessionUnsubscribesForItselfAlone(t *testing.T) {
	t.Parallel()
	srv := newServer(t, &server.Options{Capabilities: protocol.ServerCapabilities{
		Resources: &protocol.ResourcesCapability{Subscribe: true, ListChanged: true}}})
	server.AddTool(srv, server.Tool{Name: "x"}, func(
		ctx context.Context, _ *server.ToolCall, _ struct{},
	) (outcome, error) {
		return server.Text("done"), nil
	})
	server.AddResource(srv, server.Resource{URI: "file:///a", Name: "a"},
		func(
			context.Context, *server.ResourceCall,
		) (protocol.ReadResourceOutcome, error) {
			return nil, nil
		})
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil), Era: protocol.Modern}}})
	a := connect(t, url, protocol.Legacy, &person{})
	awaitTool(t, a, "ops_x")
	updates := make(chan string, 1000)
	listen := func(ctx context.Context, c *client.Client) {
		_ = c.Listen(ctx, protocol.SubscriptionFilter{
			ResourceSubscriptions: []string{"ops+file:///a"}},
			func(_ context.Context, e client.ListenEvent) {
				if u, ok := e.(client.ResourceUpdated); ok && ctx == t.Context() {
					updates <- u.URI
				}
			})
	}
	go listen(t.Context(), a)
	await := func(what string) {
		for range 100 {
			srv.ResourceUpdated("file:///a")
			select {
			case <-updates:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
		t.Errorf("%s: no update", what)
	}
	await("before")
	// Another session sends resources/unsubscribe without having subscribed.
	rawLegacy(t, url, `{"jsonrpc":"2.0","id":7,"method":"resources/unsubscribe",`+
		`"params":{"uri":"ops+file:///a"}}`)
	time.Sleep(500 * time.Millisecond)
	for len(updates) > 0 {
		<-updates
	}
	await("after")
}

// Logs of a modern upstream reach the client that wants them.
func TestLogsReachTheClient(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		srv := newServer(t, &server.Options{
			Capabilities: protocol.ServerCapabilities{Logging: &struct{}{}}})
		server.AddTool(srv, server.Tool{Name: "x"}, func(
			ctx context.Context, call *server.ToolCall, _ struct{},
		) (outcome, error) {
			_ = call.Log(ctx, "warning", "l", "hello")
			return server.Text("done"), nil
		})
		url := startGateway(t, &gateway.Options{
			Server: server.Options{Capabilities: protocol.ServerCapabilities{Logging: &struct{}{}}},
			Upstreams: []gateway.Upstream{
				{Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil), Era: upstreamEra}}})
		transport, err := clienthttp.New(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		var logs atomic.Int64
		c, err := client.New(transport, &client.Options{Era: clientEra,
			Log: func(context.Context, *protocol.LogMessage) { logs.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		awaitTool(t, c, "ops_x")
		if _, err := c.CallToolParams(t.Context(), &protocol.CallToolParams{Name: "ops_x",
			RequestMeta: protocol.RequestMeta{LogLevel: "debug"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		if logs.Load() == 0 {
			t.Error("no log")
		}
	})
}

// A secret is asked for where the upstream may.
func TestSecretsAreAskedForWhereTheUpstreamMay(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		for _, admitted := range []bool{true, false} {
			srv := newServer(t, nil)
			server.AddTool(srv, server.Tool{Name: "x"}, func(
				ctx context.Context, call *server.ToolCall, _ struct{},
			) (outcome, error) {
				reply := roundtrip.RawAnswer(ctx, "k")
				if reply.Outcome == roundtrip.Accepted {
					return server.Text("done"), nil
				}
				return roundtrip.InputRequired(roundtrip.ElicitSchema("k", "Log in",
					json.RawMessage(
						`{"type":"object","properties":{"passwort":{"type":"string",`+
							`"title":"Kennwort"},"password":{"type":"string"}},`+
							`"required":["password"]}`), roundtrip.AllowSecrets())), nil
			})
			url := startGateway(t, &gateway.Options{
				Upstreams: []gateway.Upstream{
					{Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil), Era: upstreamEra,
						Secrets: admitted}}})
			p := &person{answer: func(string) *protocol.ElicitResult {
				r, _ := client.Accept(map[string]string{"password": "hunter2"})
				return r
			}}
			c := connect(t, url, clientEra, p)
			awaitTool(t, c, "ops_x")
			r, err := c.CallTool(t.Context(), "ops_x", nil)
			t.Logf("admitted %v: %q %v shown %q", admitted, textOf(r), err, p.shown)
			if admitted != (textOf(r) == "done") || !admitted && len(p.shown) > 0 {
				t.Errorf("admitted %v: %q %v", admitted, textOf(r), err)
			}
		}
	})
}

// rawLegacy sends requests by hand in a session of its own.
func rawLegacy(t *testing.T, url string, bodies ...string) (answers []string) {
	t.Helper()
	send := openRawSession(t, url, "")
	for _, b := range bodies {
		a := send(b)
		t.Log(a)
		answers = append(answers, a)
	}
	return answers
}

// openRawSession returns a function that sends a message of a user in a session.
func openRawSession(t *testing.T, url, user string) (send func(body string) string) {
	t.Helper()
	session := ""
	send = func(body string) string {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Authorization", user)
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
			req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if s := resp.Header.Get("Mcp-Session-Id"); s != "" {
			session = s
		}
		data, _ := io.ReadAll(resp.Body)
		return string(data)
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize",` +
		`"params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"x","version":"1"}}}`)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return send
}

// A rawUpstream is a legacy server made by hand: call writes events of the stream of tools/call.
type rawUpstream struct {
	call    func(id json.RawMessage, event func(string), answers <-chan string)
	answers chan string
	calls   atomic.Int64

	tool        string      // "": x
	keepAnswers bool        // call takes them by itself
	pushed      chan string // events of the streams of sessions, each of one; nil: no streams
}

func (u *rawUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == "GET" && u.pushed != nil {
		u.push(w, r)
		return
	}
	if r.Method == "GET" {
		w.WriteHeader(405)
		return
	}
	if r.Method == "DELETE" {
		return
	}
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.Unmarshal(body, &m)
	reply := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	switch {
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", rand.Text())
		reply(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},` +
			`"serverInfo":{"name":"raw","version":"1"}}`)
	case m.Method == "tools/list":
		reply(fmt.Sprintf(`{"tools":[{"name":%q,"inputSchema":{"type":"object"}}]}`,
			cmp.Or(u.tool, "x")))
	case m.Method == "tools/call":
		u.calls.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		u.call(m.ID, func(data string) {
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", data)
			w.(http.Flusher).Flush()
		}, u.awaitAnswers(r))
	case m.Method == "":
		u.answers <- string(body)
		w.WriteHeader(202)
	case m.ID == nil:
		w.WriteHeader(202)
	default:
		w.WriteHeader(200)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
	}
}

// push serves the stream of a session.
func (u *rawUpstream) push(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.(http.Flusher).Flush()
	for {
		select {
		case data := <-u.pushed:
			fmt.Fprintf(w, "data: %s\n\n", data)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func startRaw(
	t *testing.T, call func(id json.RawMessage, event func(string), answers <-chan string),
) (*rawUpstream, string) {
	t.Helper()
	u := &rawUpstream{call: call, answers: make(chan string, 1000)}
	l := httptest.NewServer(u)
	t.Cleanup(func() { l.CloseClientConnections(); l.Close() })
	return u, l.URL
}

func (u *rawUpstream) awaitAnswers(r *http.Request) <-chan string {
	c := make(chan string, 1)
	if u.keepAnswers {
		return c
	}
	go func() {
		select {
		case a := <-u.answers:
			c <- a
		case <-r.Context().Done():
			close(c)
		}
	}()
	return c
}

const rawDone = `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`

// Forms that a client takes pass a gateway.
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
			_, upstream := startRaw(t, func(
				id json.RawMessage, event func(string), answers <-chan string,
			) {
				event(`{"jsonrpc":"2.0","id":99,"method":"elicitation/create",` +
					`"params":{"message":"Q","requestedSchema":` + schema + `}}`)
				a := <-answers
				event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text",`+
					`"text":%q}]}}`, id, a))
			})
			results := map[string]string{}
			p := &person{answer: func(string) *protocol.ElicitResult {
				r, _ := client.Accept(map[string]string{"n": "abc"})
				return r
			}}
			c := connect(t, upstream, protocol.Legacy, p)
			r, err := c.CallTool(t.Context(), "x", nil)
			results["direct"] = fmt.Sprint(textOf(r), err)
			url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
				{Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: protocol.Legacy}}})
			for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
				c := connect(t, url, era, p)
				awaitTool(t, c, "ops_x")
				r, err := c.CallTool(t.Context(), "ops_x", nil)
				results[era.String()] = fmt.Sprint(textOf(r), err)
			}
			direct := strings.ReplaceAll(results["direct"], "invalid params:",
				"Invalid elicitation request:") // in the words of the router
			for _, era := range []string{"modern", "legacy"} {
				if results[era] != direct {
					t.Errorf("%s: %q, direct %q", era, results[era], direct)
				}
			}
		})
	}
}

// An upstream that asks and does not wait leaves nothing behind, and nothing for the next call.
func TestQuestionsLeftOpenLeaveNothingBehind(t *testing.T) {
	var n atomic.Int64
	_, upstream := startRaw(t, func(id json.RawMessage, event func(string), answers <-chan string) {
		i := n.Add(1)
		event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create",`+
			`"params":{"message":"Q%d","requestedSchema":{"type":"object",`+
			`"properties":{}}}}`, 1000+i, i))
		time.Sleep(2 * time.Millisecond)
		event(fmt.Sprintf(rawDone, id))
	})
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: protocol.Legacy}}})
	c := byHand(t, url)
	awaitTool(t, c, "ops_x")
	call := func() {
		for range 50 {
			// A machine that is slow has the question be shown: its call is over all the same.
			_, _, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "ops_x"})
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(300 * time.Millisecond)
	}
	call()
	before := runtime.NumGoroutine()
	call()
	call()
	if after := runtime.NumGoroutine(); after > before+20 {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines, before %d", after, before)
		s := string(buf[:runtime.Stack(buf, true)])
		if i := strings.Index(s, "relay.(*Parked).Ask"); i > 0 {
			t.Log(s[max(0, i-200):min(len(s), i+1800)])
		}
	}
}

// URLs that an upstream asks for in an error are subject to the same rules.
func TestURLsInErrorsOfUpstreamsAreNotPassedOn(t *testing.T) {
	for _, refused := range []bool{false, true} {
		u, upstream := startRaw(t, func(
			id json.RawMessage, event func(string), answers <-chan string,
		) {
			event(fmt.Sprintf(
				`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"visit",`+
					`"data":{"elicitations":[{"mode":"url","elicitationId":"e1",`+
					`"url":"http://evil.example/x","message":"visit"}]}}}`, id))
		})
		url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
			{Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: protocol.Legacy,
				Refuse: refuseIf(refused, protocol.KindElicitURL)}}})
		for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
			c := connect(t, url, era, &person{}) // forms only
			awaitTool(t, c, "ops_x")
			r, err := c.CallTool(t.Context(), "ops_x", nil)
			t.Logf("refused %v, %v: %v %v, %d calls", refused, era, textOf(r), err, u.calls.Load())
			said, ok := protocol.AsError(err)
			if ok && strings.Contains(string(said.Data), "evil") {
				t.Errorf("%v: the client is sent to %s", era, said.Data)
			}
		}
	}
}

// The log has no answers.
func TestTheLogHasNoAnswers(t *testing.T) {
	for name, end := range map[string]string{
		"an error":        `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":%q}}`,
		"a broken result": `{"jsonrpc":"2.0","id":%s,"result":{"content":[],%[2]q:1,%[2]q:2}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, upstream := startRaw(t, func(
				id json.RawMessage, event func(string), answers <-chan string,
			) {
				event(fmt.Sprintf(rawAsk, "99", "Q"))
				if a := <-answers; !strings.Contains(a, "hunter2") {
					t.Errorf("the upstream got %s", a)
				}
				event(fmt.Sprintf(end, id, "hunter2"))
			})
			core, logs := observer.New(zap.DebugLevel)
			url := startGateway(t, &gateway.Options{Log: zaplog.New(zap.New(core)),
				Upstreams: []gateway.Upstream{
					{Name: "ops", Connect: gateway.HTTP(upstream+"/?key=hunter3", nil),
						Era: protocol.Legacy},
					{Name: "down", Connect: gateway.HTTP("http://127.0.0.1:1/?key=hunter3", nil),
						Era: protocol.Legacy}}})
			c := connect(t, url, 0, &person{answer: func(string) *protocol.ElicitResult {
				r, _ := client.Accept(target{"hunter2"})
				return r
			}})
			awaitTool(t, c, "ops_x")
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

func TestKeysOfQuestionsAreNewInEachRound(t *testing.T) {
	u := startUpstream(t)
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(u.url, nil), Era: protocol.Modern}}})
	c := byHand(t, url)
	awaitTool(t, c, "ops_deploy")
	first := begin(t, c)
	_, second, err := c.Resume(t.Context(), answered(t, first, target{"production"}))
	if err != nil {
		t.Fatal(err)
	}
	a, b := first.Questions()[0].Key, second.Questions()[0].Key
	if a == b {
		t.Errorf("two questions have the key %q", a)
	}
}

// What was answered is passed on, and takes no room in the state of the next question.
func TestLongAnswersLeaveRoomForTheNext(t *testing.T) {
	u, upstream := startRaw(t, nil)
	u.keepAnswers = true
	u.call = func(id json.RawMessage, event func(string), _ <-chan string) {
		for i := range 4 {
			event(fmt.Sprintf(rawAsk, fmt.Sprint(100+i), "one more"))
			u.takeAnswer()
		}
		event(fmt.Sprintf(rawDone, id))
	}
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: protocol.Legacy}}})
	c := connect(t, url, protocol.Modern, &person{answer: func(string) *protocol.ElicitResult {
		r, _ := client.Accept(target{strings.Repeat("x", 10<<10)})
		return r
	}})
	awaitTool(t, c, "ops_x")
	result, err := c.CallTool(t.Context(), "ops_x", nil)
	if textOf(result) != "done" {
		t.Errorf("got %q, %v", textOf(result), err)
	}
}
