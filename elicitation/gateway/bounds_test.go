package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

func twoQuestions(id json.RawMessage, event func(string), answers <-chan string) {
	for i := range 12 {
		event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create",`+
			`"params":{"message":"Q%02d","requestedSchema":{"type":"object",`+
			`"properties":{"n":{"type":"string"}}}}}`, 100+i, i))
	}
	var got []string
	for range 12 {
		select {
		case a := <-answers:
			got = append(got, a)
		case <-time.After(100 * time.Millisecond):
		}
	}
	event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text",`+
		`"text":"%d answers"}]}}`, id, len(got)))
}

func TestQuestionsLeftOutAreAskedAgainInOrder(t *testing.T) {
	t.Parallel()
	u, upstream := startRaw(t, nil)
	u.call = func(id json.RawMessage, event func(string), _ <-chan string) {
		twoQuestions(id, event, u.answers)
	}
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: protocol.Legacy}}})
	c := byHand(t, url)
	awaitTool(t, c, "ops_x")
	_, p, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "ops_x"})
	if err != nil {
		t.Fatal(err)
	}
	order := func(p *client.Pending) (s string) {
		for _, q := range p.Questions() {
			s += q.Request.(*protocol.ElicitForm).Message + " "
		}
		return s
	}
	first := order(p)
	raw := modernRaw(t, url, "ops_x", "", "")
	var r struct {
		Result struct {
			InputRequests json.RawMessage `json:"inputRequests"`
			RequestState  string          `json:"requestState"`
		} `json:"result"`
	}
	_ = json.Unmarshal([]byte(raw), &r)
	again := modernRaw(t, url, "ops_x", r.Result.RequestState,
		`{"question-3":{"action":"accept","content":{"n":"a"}}}`)
	want := ""
	for i := range 12 {
		if i != 2 {
			want += fmt.Sprintf("question-%d ", i+1)
		}
	}
	got := ""
	for _, part := range strings.Split(again, `"question-`)[1:] {
		got += "question-" + part[:strings.Index(part, `"`)] + " "
	}
	if got != want {
		t.Errorf("first %q, again %q", first, got)
	}
}

func modernRaw(t *testing.T, url, tool, state, responses string) string {
	t.Helper()
	return modernRawAs(t, url, "", tool, state, responses)
}

// modernRawAs sends one leg of a user, by hand.
func modernRawAs(t *testing.T, url, user, tool, state, responses string) string {
	t.Helper()
	params := `"name":"` + tool + `","arguments":{},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`
	if state != "" {
		params += `,"requestState":"` + state + `","inputResponses":` + responses
	}
	req, _ := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}}`))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "tools/call")
	req.Header.Set("Mcp-Name", tool)
	req.Header.Set("Authorization", user)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	buf := make([]byte, 1<<16)
	for {
		n, err := resp.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	return b.String()
}

func TestKeptResultsAreBounded(t *testing.T) {
	if testkit.Race {
		t.Skip("takes a minute with the race detector, where memory is not what it is without")
	}
	big := strings.Repeat("x", 1<<20)
	u, upstream := startRaw(t, nil)
	u.call = func(id json.RawMessage, event func(string), answers <-chan string) {
		event(`{"jsonrpc":"2.0","id":99,"method":"elicitation/create",` +
			`"params":{"message":"Q","requestedSchema":{"type":"object",` +
			`"properties":{"n":{"type":"string"}}}}}`)
		<-answers
		event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text",`+
			`"text":%q}]}}`, id, big))
	}
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: protocol.Legacy}}})
	c := connect(t, url, protocol.Modern, &person{answer: func(string) *protocol.ElicitResult {
		r, _ := client.Accept(map[string]string{"n": "abc"})
		return r
	}})
	awaitTool(t, c, "ops_x")
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc >> 20
	}
	before := heap()
	for range 100 {
		r, err := c.CallTool(t.Context(), "ops_x", nil)
		if err != nil || len(textOf(r)) != 1<<20 {
			t.Fatal(textOf(r), err)
		}
	}
	after := heap()
	if after > before+150 { // 64 are kept, each with the JSON that it came as
		t.Errorf("%d MiB, before %d", after, before)
	}
}

func TestAPanicOfAnAuthorizerEndsItsCall(t *testing.T) {
	u := startUpstream(t)
	var armed atomic.Bool
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(u.url, nil), Era: protocol.Legacy,
			Credential: func(context.Context, protocol.Principal) (gateway.Credential, error) {
				return gateway.Credential{
					Authorizer: panicking{&armed, protocol.MethodCallTool},
				}, nil
			}}}})
	c := connect(t, url, 0, &person{})
	awaitTool(t, c, "ops_deploy")
	if _, err := c.CallTool(t.Context(), "ops_link", nil); err != nil { // opens the connection
		t.Fatal(err)
	}
	armed.Store(true)
	r, err := c.CallTool(t.Context(), "ops_deploy", nil)
	if err != nil || !r.IsError {
		t.Errorf("got %q, %v", textOf(r), err)
	}
	armed.Store(false)
	if r, err = c.CallTool(t.Context(), "ops_link", nil); err != nil || r.IsError {
		t.Errorf("afterwards: %q, %v", textOf(r), err)
	}
}

func TestAPanicInACompletionGivesItsConnectionBack(t *testing.T) {
	var armed atomic.Bool
	armed.Store(true)
	srv := newServer(t, nil)
	addEmptyTool(srv, "x")
	server.AddPrompt(srv, server.Prompt{Name: "greet",
		Arguments: []protocol.PromptArgument{{Name: "who"}},
		Complete: func(context.Context, *server.CompleteCall) ([]string, error) {
			return []string{"you"}, nil
		}},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return &protocol.GetPromptResult{}, nil
		})
	url := startGateway(t, &gateway.Options{MaxConnections: 1,
		Upstreams: []gateway.Upstream{{Name: "ops", Era: protocol.Legacy,
			Connect: gateway.HTTP(serveHTTP(t, srv), nil),
			Credential: func(context.Context, protocol.Principal) (gateway.Credential, error) {
				return gateway.Credential{
					Authorizer: panicking{&armed, protocol.MethodComplete},
				}, nil
			}}}})
	c := connect(t, url, 0, &person{})
	awaitTool(t, c, "ops_x")
	_, err := c.Complete(t.Context(), &protocol.CompleteParams{
		Ref:      protocol.CompletionRef{Prompt: "ops_greet"},
		Argument: protocol.CompletionArgument{Name: "who", Value: "y"}})
	if err == nil {
		t.Fatal("the authorizer did not panic")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if r, err := c.CallTool(ctx, "ops_x", nil); err != nil || r.IsError {
		t.Errorf("afterwards: %q, %v", textOf(r), err)
	}
}

type panicking struct {
	armed  *atomic.Bool
	method string // of the messages that it panics for
}

func (p panicking) Credentials(_ context.Context, r clienthttp.Outgoing) (http.Header, error) {
	if p.armed.Load() && r.RPC == p.method {
		panic("authorizer")
	}
	return nil, nil
}

func (panicking) Refused(context.Context, clienthttp.Refusal) (bool, error) { return false, nil }
