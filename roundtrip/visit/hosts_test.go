package visit_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A host is a client that shows no form. form and link are its answers, as JSON: a result, an error
// ("-32601"), or none ("").
type host struct {
	name, caps string
	form, link string
	leaves     bool // disconnects when asked
}

const (
	bothCaps = `{"elicitation":{"form":{},"url":{}}}`
	formCaps = `{"elicitation":{"form":{}}}`
)

var hosts = []host{
	{name: "declines in 0 ms", caps: formCaps, form: `{"action":"decline"}`},
	{name: "cancels in 0 ms", caps: formCaps, form: `{"action":"cancel"}`},
	{name: "accepts without content", caps: formCaps, form: `{"action":"accept","content":{}}`},
	{name: "no answer", caps: formCaps},
	{name: "-32601", caps: formCaps, form: "-32601"},
	{name: "-32603", caps: formCaps, form: "-32603"},
	{name: "declared but disconnects", caps: formCaps, leaves: true},
	{name: "declines forms and links in 0 ms", caps: bothCaps, form: `{"action":"decline"}`,
		link: `{"action":"decline"}`},
	{name: "no capability", caps: `{}`},
	{name: "URL only", caps: `{"elicitation":{"url":{}}}`, link: `{"action":"accept"}`},
	{name: "form only", caps: formCaps, form: `{"action":"accept","content":{"target":"prod"}}`},
}

type choice struct {
	Target string `json:"target" minLength:"1"`
}

var target = roundtrip.MustQuestion[choice]("target")

var handlers = map[string]handler{
	"flow": func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
		got, err := target.Ask(ctx, "Deploy where?")
		return server.Text("deployed to " + got.Target), err
	},
	"guard": func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
		reply := target.Answer(ctx)
		switch reply.Outcome {
		case roundtrip.Missing, roundtrip.Invalid:
			return roundtrip.InputRequired(target.Elicit("Deploy where?")), nil
		case roundtrip.Accepted:
			return server.Text("deployed to " + reply.Content.Target), nil
		}
		return nil, fmt.Errorf("not deployed: %v", reply.Outcome)
	},
}

// A hall is a server with a page, over one transport, and its tool's effects.
type hall struct {
	server  *server.Server
	address string // of the page
	connect func(t *testing.T) protocol.LegacyPeer
	browser func() *browser
	header  http.Header // the clients'
	done    atomic.Int64
	calls   sync.WaitGroup // that the server has not ended
	mu      sync.Mutex
	ways    map[string]int
}

func (h *hall) Observe(_ context.Context, e event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e := e.(type) {
	case event.Answered:
		if e.Decision == event.Accepted {
			h.ways[string(e.Way)]++
		}
	case event.CapabilityRefused:
		if e.AnonymousPage {
			h.ways["anonymous"]++
		}
	}
}

func (h *hall) countCalls(next server.Handler) server.Handler {
	return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
		if request.Message.Method == protocol.MethodCallTool {
			h.calls.Add(1)
			defer h.calls.Done()
		}
		return next(ctx, request)
	}
}

type handler func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error)

func openHall(t *testing.T, transport string, handle handler, change func(*visit.QuestionOptions),
	tune ...func(*roundtrip.Options)) *hall {
	return openReplica(t, transport, handle, change, "", tune...)
}

// openReplica opens a hall whose browsers come to that with the page at address, if there is one.
func openReplica(t *testing.T, transport string, handle handler,
	change func(*visit.QuestionOptions), address string, tune ...func(*roundtrip.Options)) *hall {
	url, mux := listen(t)
	h := &hall{ways: map[string]int{}, address: cmp.Or(address, url+"/page")}
	visitor := cookieLogin
	if transport != "HTTP" {
		visitor = visit.LocalVisitor
	}
	opts := &visit.QuestionOptions{Options: visit.Options{Visitor: visitor}}
	if change != nil {
		change(opts)
	}
	page, err := visit.NewQuestions(h.address, opts)
	noError(t, err)
	mux.Handle("/page", page)
	round := roundtrip.Options{Page: page, HumanTimeout: 300 * time.Millisecond,
		Sealer: servertest.NewKeyring("k"), MinHumanTime: 400 * time.Millisecond}
	for _, change := range tune {
		change(&round)
	}
	srv, err := server.New(&server.Options{Info: servertest.Info(), Observer: h, Roundtrip: round,
		Middleware: []server.Middleware{h.countCalls}})
	noError(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	h.server = srv
	server.AddTool(srv, server.Tool{Name: "deploy", Task: server.TaskCan}, func(ctx context.Context,
		call *server.ToolCall, _ struct {
			Of string `json:"of,omitempty"`
		}) (protocol.CallToolOutcome, error) {
		outcome, err := handle(ctx, call)
		if r, ok := outcome.(*protocol.CallToolResult); ok && err == nil && !r.IsError {
			h.done.Add(1)
		}
		return outcome, err
	})
	if transport == "stdio" {
		h.connect = func(t *testing.T) protocol.LegacyPeer {
			r, w := servertest.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
				_ = srv.ServeStream(ctx, in.(io.ReadCloser), out.(io.WriteCloser), nil)
			})
			return client.NewStream(r, w, nil)
		}
	}
	if transport == "in process" {
		h.connect = func(*testing.T) protocol.LegacyPeer { return inProcess{Server: srv} }
	}
	if transport != "HTTP" {
		h.browser = func() *browser { return newBrowser(t, "", "") }
		return h
	}
	mux.Handle("/mcp", servertest.NewHandler(t, srv, &serverhttp.Options{
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			if who := r.Header.Get("Authorization"); who != "nobody" {
				return principal(cmp.Or(who, "ann")), nil
			}
			return protocol.Principal{}, nil
		}}))
	h.connect = func(t *testing.T) protocol.LegacyPeer {
		peer, err := clienthttp.New(url+"/mcp", &clienthttp.Options{Header: h.header})
		noError(t, err)
		return peer
	}
	h.browser = func() *browser { return newBrowser(t, url, "ann") }
	return h
}

// inProcess is a server as the peer of a client without sessions.
type inProcess struct {
	*server.Server
	noSessions
}

type noSessions struct{ protocol.LegacyPeer }

// enter answers the question behind a link, or declines it if target is empty.
func (b *browser) enter(link, target string) {
	b.t.Helper()
	action := "accept"
	if target == "" {
		action = "decline"
	}
	b.answer(link, action, target)
}

type guest struct {
	host
	t     *testing.T
	id    atomic.Int64
	leave context.CancelFunc
	visit func(link string)
	of    string          // the argument of the tool
	later atomic.Value    // replaces form once it is set
	ctx   context.Context // of the calls; nil: the test's
}

func (g *guest) Notify(context.Context, *protocol.Notification) error { return nil }

// Call answers questions of a server of an older revision.
func (g *guest) Call(ctx context.Context, req *protocol.Request) (*protocol.Response, error) {
	if g.leaves {
		g.leave()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	answer := g.answer(req.Params)
	if answer == "" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if strings.HasPrefix(answer, "-") {
		var code int64
		_, _ = fmt.Sscan(answer, &code)
		return &protocol.Response{ID: req.ID, Error: protocol.Errorf(code, "no")}, nil
	}
	return &protocol.Response{ID: req.ID, Result: json.RawMessage(answer)}, nil
}

func (g *guest) answer(params json.RawMessage) string {
	var q struct{ Mode, URL string }
	_ = json.Unmarshal(params, &q)
	if q.Mode != "url" {
		if later, ok := g.later.Load().(string); ok {
			return later
		}
		return g.form
	}
	if strings.Contains(g.link, "accept") {
		g.visit(q.URL)
	}
	return g.link
}

// call calls the tool and returns its text; "" if the host disconnected.
func (g *guest) call(peer protocol.LegacyPeer, era protocol.Era) string {
	ctx, leave := context.WithCancel(cmp.Or(g.ctx, g.t.Context()))
	defer leave()
	g.leave = leave
	request := func(method, params string) *protocol.Request {
		return &protocol.Request{ID: protocol.IntID(g.id.Add(1)), Method: method,
			Params: json.RawMessage(params)}
	}
	if era == protocol.Legacy {
		session, resp, err := peer.OpenSession(ctx, request(protocol.MethodInitialize,
			`{"protocolVersion":"2025-11-25","capabilities":`+g.caps+
				`,"clientInfo":{"name":"host","version":"1"}}`), g)
		if err != nil || resp.Error != nil {
			g.t.Fatal(resp, err)
		}
		defer func() { _ = session.Close() }()
		_ = session.Notify(ctx, &protocol.Notification{Method: protocol.NotifyInitialized})
		resp, err = session.Handle(ctx, request(protocol.MethodCallTool,
			`{"name":"deploy","arguments":{"of":"`+g.of+`"}}`), g)
		if err != nil {
			return ""
		}
		return textOf(g.t, resp)
	}
	for retry := ""; ; {
		resp := g.send(peer, protocol.MethodCallTool, "deploy",
			`"name":"deploy","arguments":{"of":"`+g.of+`"}`+retry)
		var asks struct {
			InputRequests map[string]struct{ Params json.RawMessage }
			RequestState  string
		}
		_ = json.Unmarshal(resp.Result, &asks)
		if len(asks.InputRequests) == 0 {
			return textOf(g.t, resp)
		}
		if g.leaves {
			return ""
		}
		answers := map[string]json.RawMessage{}
		for key, q := range asks.InputRequests {
			if answer := g.answer(q.Params); answer != "" && answer[0] == '{' {
				answers[key] = json.RawMessage(answer)
			}
		}
		state, _ := json.Marshal(asks.RequestState)
		responses, _ := json.Marshal(answers)
		retry = `,"requestState":` + string(state) + `,"inputResponses":` + string(responses)
	}
}

func textOf(t *testing.T, resp *protocol.Response) string {
	t.Helper()
	if resp.Error != nil {
		return resp.Error.Message
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(resp.Result, &result); err != nil || len(result.Content) == 0 {
		t.Fatalf("%s: %v", resp.Result, err)
	}
	return result.Content[0].Text
}

var linkIn = regexp.MustCompile(`http://\S+`)

// TestThePersonIsReachedInEveryHost, and nothing is done without their answer.
func TestThePersonIsReachedInEveryHost(t *testing.T) {
	var mu sync.Mutex
	table := map[string][]string{}
	t.Cleanup(func() {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			slices.Sort(table[name])
			t.Logf("%-34s %s", name, strings.Join(table[name], ", "))
		}
	})
	for _, host := range hosts {
		for _, transport := range []string{"HTTP", "stdio", "in process"} {
			for style := range handlers {
				for name, era := range eras {
					if transport == "in process" && era == protocol.Legacy {
						continue
					}
					t.Run(host.name+"/"+transport+"/"+style+"/"+name, func(t *testing.T) {
						t.Parallel()
						h := openHall(t, transport, handlers[style], nil)
						calls, reached := 0, ""
						for calls < 5 && !strings.HasPrefix(reached, "deployed") {
							calls++
							g := &guest{host: host, t: t, visit: func(link string) {
								h.browser().enter(link, "prod")
							}}
							reached = g.call(h.connect(t), era)
							link := linkIn.FindString(reached)
							if link != "" {
								if h.done.Load() != 0 {
									t.Error("something was done without the person")
								}
								h.browser().enter(link, "prod")
							}
						}
						if reached != "deployed to prod" || h.done.Load() != 1 {
							t.Errorf("after %d calls: %q, done %d times", calls, reached, h.done.Load())
						}
						mu.Lock()
						defer mu.Unlock()
						table[host.name] = append(table[host.name], fmt.Sprintf("%s %s %s: %d calls %v",
							transport, style, name, calls, h.ways))
					})
				}
			}
		}
	}
}
