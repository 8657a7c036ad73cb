package mcpgo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/protocol"
)

const beat = "waiting for an answer"

// progressKey is where the context of a person's call has its progress token.
type progressKey struct{}

// callWithProgress passes a call on, and progress back to its client: a report that
// comes late, too.
func callWithProgress(
	ctx context.Context, upstream *client.Client, call *elicitation.Call, on mcp.CallToolRequest,
) (*mcp.CallToolResult, error) {
	on.Params.Meta = &mcp.Meta{ProgressToken: "upstream's"}
	relay := func(n mcp.JSONRPCNotification) {
		_ = mcpgo.RelayProgress(context.Background(), call, n)
	}
	upstream.OnNotification(relay)
	result, err := upstream.CallTool(mcpgo.WithCall(ctx, call), on)
	call.End()
	relay(progressOf("upstream's", 3, "late"))
	return result, err
}

func progressOf(token any, progress float64, message string) mcp.JSONRPCNotification {
	fields := map[string]any{
		"progressToken": token, "progress": progress, "total": 9, "message": message,
	}
	return mcp.JSONRPCNotification{JSONRPC: "2.0", Notification: mcp.Notification{
		Method: protocol.NotifyProgress, Params: mcp.NotificationParams{AdditionalFields: fields},
	}}
}

// newReporter is an upstream that asks in the middle of a call, and reports before and
// after where the call has a progress token; of the modern revision it asks in its first
// answer, and reports after. A call that has a token asks when the first report was heard,
// since a question may overtake reports in mcp-go. It ends with finish, since mcp-go may lose
// what is sent just before a response.
func newReporter(heard, finish <-chan struct{}) *server.MCPServer {
	s := server.NewMCPServer("upstream", "1", server.WithElicitation())
	question := mcp.ElicitationParams{
		Mode: "form", Message: "Sure?", RequestedSchema: json.RawMessage(schema),
	}
	s.AddTool(mcp.NewTool("form"), func(
		ctx context.Context, r mcp.CallToolRequest,
	) (answered *mcp.CallToolResult, err error) {
		wanted := r.Params.Meta != nil && r.Params.Meta.ProgressToken != nil
		report := func(progress float64, message string) {
			if wanted {
				n := progressOf(r.Params.Meta.ProgressToken, progress, message)
				_ = s.SendNotificationToClient(ctx, n.Method, n.Params.AdditionalFields)
			}
		}
		await := func(event <-chan struct{}) {
			if wanted {
				select {
				case <-event:
				case <-ctx.Done():
				}
			}
		}
		if server.IsModernRequest(ctx) {
			answer := server.ElicitationResponse(r.Params.InputResponses, "q")
			if answer == nil {
				return server.NewInputRequestBuilder("").Elicit("q", question).ToolResult(), nil
			}
			answered = tell(answer, nil)
		} else {
			report(1, "one")
			await(heard)
			answered = tell(s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: question}))
		}
		report(1.00001, "raised")
		report(2, "two")
		await(finish)
		return answered, nil
	})
	return s
}

// While a person thinks, the client of a gateway hears on the token of its call that
// the call is alive; what the upstream reports keeps rising, and nothing follows the
// result. A call without a token gets nothing, and those at the same time go on.
func TestHeartbeatsOverWires(t *testing.T) {
	for _, upstream := range []string{legacy, modern} {
		for _, revision := range []string{"2025-06-18", legacy} {
			for _, token := range []any{"p", float64(7)} {
				for _, lines := range []bool{false, true} {
					name := fmt.Sprintf("upstream %s/%s/%T/lines=%v", upstream, revision, token,
						lines)
					t.Run(name, func(t *testing.T) {
						heard, finish := make(chan struct{}), make(chan struct{})
						g := newGateway(t, setting{
							revision: upstream, serve: newReporter(heard, finish),
							downLines: lines, heartbeat: 5 * time.Millisecond,
						})
						seen := callWithHeartbeats(t, g, revision, token, heard, finish)
						checkHeartbeats(t, seen, upstream, token)
					})
				}
			}
		}
	}
}

// callWithHeartbeats makes two calls at a time, one with token, to which a person says
// yes after four heartbeats. It closes heard at the first report of the upstream, and finish
// at the last one. It returns the progress that the client has heard of.
func callWithHeartbeats(
	t *testing.T, g *gateway, revision string, token any, heard, finish chan<- struct{},
) (seen []map[string]any) {
	t.Helper()
	progress, beaten := make(chan map[string]any, 1000), make(chan struct{})
	join := func() person {
		answer := func(ctx context.Context, _ mcp.ElicitationRequest) (*mcp.ElicitationResult,
			error) {
			select {
			case <-beaten:
				return result("accept", map[string]any{"reason": "r"}), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return newClient(t, g.open(), revision, nil, answer, func(n mcp.JSONRPCNotification) {
			if n.Method == protocol.NotifyProgress {
				progress <- n.Params.AdditionalFields
			}
		})
	}
	loud := join()
	silent := loud
	if g.down != nil { // else what follows is written on any stream of the session
		silent = join()
	}
	ctx, ended := within(t), make(chan string, 2)
	ask := func(ctx context.Context, call person) {
		got, err := call(ctx, "form", "")
		ended <- fmt.Sprint(got, err)
	}
	go ask(ctx, silent)
	go ask(context.WithValue(ctx, progressKey{}, token), loud)
	for last, beats := any(""), 0; last != "two"; {
		p := receive(t, progress)
		if t.Failed() {
			t.FailNow()
		}
		seen, last = append(seen, p), p["message"]
		switch last {
		case "one":
			close(heard)
		case beat:
			if beats++; beats == 4 {
				close(beaten)
			}
		}
	}
	close(finish)
	for range 2 {
		if got := receive(t, ended); !strings.HasPrefix(got, "accept ") {
			t.Errorf("got %s", got)
		}
	}
	if _, err := loud(ctx, "form", ""); err != nil { // what was sent before has come
		t.Error(err)
	}
	for len(progress) > 0 {
		t.Errorf("%v after the last report", <-progress)
	}
	return seen
}

func checkHeartbeats(t *testing.T, seen []map[string]any, upstream string, token any) {
	t.Helper()
	var texts []string
	last, total, want := 0.0, any(9.0), []string{"one", beat, "raised", "two"}
	if upstream == modern {
		total, want = nil, want[1:] // nothing is known before the first report
	}
	for _, p := range seen {
		if p["message"] == "raised" {
			total = 9.0
		}
		progress, _ := p["progress"].(float64)
		if p["progressToken"] != token || p["total"] != total || progress <= last {
			t.Errorf("%v follows %v", p, last)
		}
		last, texts = progress, append(texts, fmt.Sprint(p["message"]))
	}
	if texts = slices.Compact(texts); !slices.Equal(texts, want) || last != 2 {
		t.Errorf("the client heard %q up to %v, want %q up to 2", texts, last, want)
	}
}

// In a process nothing is encoded on the way: the client gets plain values.
func TestHeartbeatsInAProcess(t *testing.T) {
	router, err := elicitation.New(&elicitation.Options{Heartbeat: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler := func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, err := clients.Begin(ctx, "")
		if err != nil {
			return nil, err
		}
		defer call.End()
		question := json.RawMessage(`{"message":"Sure?","requestedSchema":` + schema + `}`)
		answer, err := call.Elicit(ctx, question, nil)
		if err != nil {
			return nil, err
		}
		if err := mcpgo.RelayProgress(ctx, call, progressOf("upstream's", 2, "two")); err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(string(answer.Action)), nil
	}
	s.AddTool(mcp.NewTool("form"), handler)
	progress := make(chan map[string]any, 1000)
	c, err := client.NewInProcessClientWithOptions(s, client.WithElicitationHandler(answering(
		func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			if p := receive(t, progress); p["progressToken"] != "p" || p["message"] != beat {
				t.Errorf("heard %v", p)
			}
			return result("accept", map[string]any{"reason": "r"}), nil
		})))
	if err != nil {
		t.Fatal(err)
	}
	c.OnNotification(func(n mcp.JSONRPCNotification) { progress <- n.Params.AdditionalFields })
	if err := open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var r mcp.CallToolRequest
	r.Params.Name, r.Params.Meta = "form", &mcp.Meta{ProgressToken: "p"}
	if got, err := c.CallTool(within(t), r); err != nil || got.IsError {
		t.Fatalf("got %+v, %v", got, err)
	}
	for {
		p := receive(t, progress)
		if value, ok := p["progress"].(float64); !ok || p["progressToken"] != "p" {
			t.Fatalf("heard %v", p)
		} else if value == 2 {
			return
		}
	}
}

// A client that does not read holds up neither the upstream nor, later, the truth: what
// did not leave in time is not written when the client reads again.
func TestProgressToAClientThatDoesNotRead(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	stuck, read := make(chan struct{}), make(chan struct{})
	handler := func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, err := clients.Begin(ctx, "")
		if err != nil {
			return nil, err
		}
		defer call.End()
		relay := func(ctx context.Context, progress float64) error {
			return mcpgo.RelayProgress(ctx, call, progressOf("upstream's", progress, ""))
		}
		if err := relay(ctx, 1); err != nil { // is being written
			return nil, err
		}
		brief, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		for progress := 2.0; progress < 4; progress++ { // one has to wait, one need not even wait
			if relay(brief, progress) == nil {
				t.Errorf("%v was taken", progress)
			}
			brief = ctx
		}
		close(stuck)
		for relay(ctx, 4) != nil && ctx.Err() == nil { // until the client has read
			runtime.Gosched()
		}
		select {
		case <-read: // mcp-go may write an answer just before what it has encoded
		case <-ctx.Done():
		}
		return mcp.NewToolResultText("done"), nil
	}
	s.AddTool(mcp.NewTool("form"), handler)
	out, in := serveLines(t, s)
	lines := bufio.NewScanner(out)
	say := func(text string) {
		if _, err := io.WriteString(in, text+"\n"); err != nil {
			t.Error(err)
		}
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	lines.Scan()
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"form",` +
		`"_meta":{"progressToken":"p"}}}`)
	receive(t, stuck)
	var heard []float64
	for lines.Scan() {
		var m struct {
			ID     int
			Params protocol.Progress
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if m.ID == 2 {
			break
		}
		if heard = append(heard, m.Params.Progress); m.Params.Progress == 4 {
			close(read)
		}
	}
	if want := []float64{1, 4}; !slices.Equal(heard, want) {
		t.Errorf("the client heard %v, want %v", heard, want)
	}
}
