package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// TestNestedServerSeesNoOuterAnswers: a handler that asks another server in
// process, under its own context, does not lend it the answers it was given.
func TestNestedServerSeesNoOuterAnswers(t *testing.T) {
	inner := newHarness(t, nil)
	look := func(ctx context.Context) string {
		_, accepted := roundtrip.AcceptedContent[count](ctx, "n")
		_, state := roundtrip.State[int](ctx)
		return fmt.Sprintf("accepted %v, state %v, round %d", accepted, state, roundtrip.Number(ctx))
	}
	server.AddRawTool(inner.Server, server.Tool{Name: "look"}, func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
		return server.Text(look(ctx)), nil
	})
	server.AddPrompt(inner.Server, server.Prompt{
		Name: "look",
		Complete: func(ctx context.Context, _ *server.CompleteCall) ([]string, error) {
			return []string{look(ctx)}, nil
		},
	}, func(ctx context.Context, _ *server.PromptCall) (protocol.GetPromptOutcome, error) {
		return &protocol.GetPromptResult{Description: look(ctx)}, nil
	})
	meta := fmt.Sprintf(`"_meta":{"%s":"2026-07-28","%s":{}}`, protocol.MetaProtocolVersion, protocol.MetaClientCapabilities)

	outer := newHarness(t, nil)
	var tool, prompt, completion reply
	server.AddRawTool(outer.Server, server.Tool{Name: "ask"}, func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
		if _, ok := roundtrip.AcceptedContent[count](ctx, "n"); !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?"), roundtrip.WithState(7)), nil
		}
		tool = inner.raw(ctx, protocol.MethodCallTool, `{"name":"look",`+meta+`}`)
		prompt = inner.raw(ctx, protocol.MethodGetPrompt, `{"name":"look",`+meta+`}`)
		completion = inner.raw(ctx, protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"look"},"argument":{"name":"a","value":""},`+meta+`}`)
		return server.Text("done"), nil
	})
	first := outer.call("ask", "")
	outer.call("ask", "", first.state(), answers(`"n":{"action":"accept","content":{"n":1}}`)).text("done")

	tool.text("accepted false, state false, round 1")
	if got, want := at(prompt.result, "description"), any("accepted false, state false, round 1"); got != want {
		t.Errorf("prompt sees %v, want %v", got, want)
	}
	values, _ := json.Marshal(at(completion.result, "completion", "values"))
	if got, want := string(values), `["accepted false, state false, round 0"]`; got != want {
		t.Errorf("completer sees %s, want %s", got, want)
	}
}

// TestDiscoverIsPrivateWithVisible: what is shown differs between principals,
// so nothing that describes the server is shared between them.
func TestDiscoverIsPrivateWithVisible(t *testing.T) {
	h := newHarness(t, &server.Options{Visible: hideSecrets})
	if got := h.send(protocol.MethodDiscover, "").result["cacheScope"]; got != "private" {
		t.Errorf("cacheScope is %v, want private", got)
	}
}

// TestHandlerThatEndsItsGoroutine: the client of a line stream gets a response
// even so, and the id is free again.
func TestHandlerThatEndsItsGoroutine(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "leave"}, func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
		runtime.Goexit()
		return nil, nil
	})
	w := h.serve(t.Context(), &server.StreamOptions{MaxInFlight: 1})
	for range 2 {
		w.send(callLine("1", "leave"))
		w.fails("1", protocol.CodeInternalError)
	}
	if err := w.end(); err != nil {
		t.Error(err)
	}
}

// TestMiddlewareCannotAsk: its questions would pass the capability gate by, and
// without a state their answers would never count.
func TestMiddlewareCannotAsk(t *testing.T) {
	drafted := roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?"))
	built := &protocol.InputRequiredResult{InputRequests: drafted.InputRequests, RequestState: protocol.StateText("x")}
	for _, tc := range []struct {
		name         string
		capabilities string
		result       *protocol.InputRequiredResult
		bug          string
	}{
		{"drafted", allCapabilities, drafted, "not by middleware"},
		{"built by hand", `{}`, built, "does not support: elicitation.form"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t, &server.Options{Middleware: []server.Middleware{func(server.Handler) server.Handler {
				return func(context.Context, *server.Incoming) (protocol.Result, error) { return tc.result, nil }
			}}})
			server.AddRawTool(h.Server, server.Tool{Name: "t"}, asksCount)
			h.capabilities = tc.capabilities
			h.call("t", "").refused(protocol.CodeInternalError)
			h.wantBug(tc.bug)
		})
	}
}

// TestLongURIsMatchNoTemplate: matching costs time for each byte and template.
func TestLongURIsMatchNoTemplate(t *testing.T) {
	h := newHarness(t, nil)
	server.AddResourceTemplate(h.Server, server.ResourceTemplate{URITemplate: "x:{+rest}", Name: "x"},
		func(_ context.Context, call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{{Text: "read"}}}, nil
		})
	read := func(length int) reply {
		return h.send(protocol.MethodReadResource, fmt.Sprintf(`"uri":"x:%s"`, strings.Repeat("a", length-2)))
	}
	if r := read(16 << 10); r.err != nil {
		t.Errorf("16 KiB: %s", r.raw)
	}
	read(16<<10+1).refused(protocol.CodeInvalidParams, "not found")
}
