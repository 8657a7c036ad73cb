package middleware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
)

const canary = "canary-7f3Kq9Lw2Zx8" // must not be recorded

// The function leaky adds handlers that leak the canary in every way but their own protocol errors.
func leaky(s *server.Server) {
	addTool(s, "url", func(ctx context.Context, in input) (toolOutcome, error) {
		return roundtrip.InputRequired(
			roundtrip.ElicitURL("visit", "Sign in as "+in.Note,
				"https://id.example/login?token="+
					in.Note),
			roundtrip.WithState(map[string]string{"token": in.Note})), nil
	})
	addTool(s, "repeat", func(ctx context.Context, in input) (toolOutcome, error) {
		if answer := confirm.Answer(ctx); answer.Outcome == roundtrip.Accepted {
			return nil, errors.New("cannot use " + answer.Content.Reason)
		}
		return roundtrip.InputRequired(confirm.Elicit(in.Note + "?")), nil
	})
	server.AddTool(s, server.Tool{Name: "promise", OutputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
		func(_ context.Context, _ *server.ToolCall, in input) (toolOutcome, error) {
			return server.Structured(map[string]string{"n": in.Note})
		})
	server.AddResourceTemplate(s,
		server.ResourceTemplate{URITemplate: "bad://{+path}", Name: "bad"},
		func(_ context.Context, call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return nil, errors.New("cannot read " + call.URI)
		})
}

// play uses the canary in every way of a client, and returns the states on the wire.
func play(r *rig) (states []string) {
	state := func(response *protocol.Response) string {
		member := r.state(response)
		states = append(states,
			strings.TrimSuffix(strings.TrimPrefix(member, `"requestState":"`), `"`))
		return member
	}
	argument := fmt.Sprintf(`"arguments":{"note":%q}`, canary)
	accept := fmt.Sprintf(`{"action":"accept","content":{"ok":true,"reason":%q}}`, canary)

	for _, tool := range []string{"echo", "fail", "refuse", "panic", "bug", "promise"} {
		r.call(tool, canary)
	}
	r.send(protocol.MethodCallTool, `"name":"echo"`,
		fmt.Sprintf(`"arguments":{"note":{"x":%q}}`, canary))
	r.send(protocol.MethodCallTool, `"name":"echo"`, fmt.Sprintf(`"arguments":%q`, canary))
	r.send(protocol.MethodCallTool, `"name":"echo"`,
		`"arguments":{"note":"`+canary+strings.Repeat("x", 5000)+`"}`)

	asked := r.call("deploy", canary)
	r.call("deploy", canary, answers(`"confirm":`+accept), state(asked))
	r.call("deploy", "other", answers(`"confirm":`+accept), state(asked))
	r.call("deploy", canary, answers(fmt.Sprintf(`"confirm":{"action":%q}`, canary)), state(asked))
	r.call("deploy", canary, answers(fmt.Sprintf(`"confirm":{"action":"accept","content":{"ok":%q}}`, canary)), state(asked))
	r.call("deploy", canary, answers(`"x":`+accept+`,"y":"`+canary+`"`))
	r.call("deploy", canary, fmt.Sprintf(`"requestState":%q`, canary))
	r.call("deploy", canary, fmt.Sprintf(`"requestState":[%q]`, canary))
	r.call("deploy", canary, fmt.Sprintf(`"inputResponses":%q`, canary))
	asked = r.call("repeat", canary)
	r.call("repeat", canary, answers(`"confirm":`+accept), state(asked))
	state(r.call("url", canary))

	r.send(protocol.MethodGetPrompt, `"name":"greet"`,
		fmt.Sprintf(`"arguments":{"who":%q}`, canary))
	r.send(protocol.MethodGetPrompt, `"name":"greet"`,
		fmt.Sprintf(`"arguments":{"who":[%q]}`, canary))
	for _, uri := range []string{"doc://h/a?q=", "doc://h/a#", "doc://h/a? q=", "doc://h/a #",
		"doc://h/a\"#", "doc://u:" + canary + "@h/a?x=", "bad://h/a?q=", "nothing://h?"} {
		r.send(protocol.MethodReadResource, fmt.Sprintf(`"uri":%q`, uri+canary))
	}
	r.raw(context.Background(), protocol.MethodCallTool, params("{}", `"name":"deploy"`, argument))
	r.raw(context.Background(), protocol.MethodCallTool, []byte(`{"name":"echo",`+argument+`}`))
	r.raw(context.Background(), protocol.MethodCallTool, []byte(`{"name":"echo",`+argument+`,`))
	r.send("no/such", argument)
	return states
}

func TestNothingSecretIsRecorded(t *testing.T) {
	var lines bytes.Buffer
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	core := zapcore.NewCore(encoder, zapcore.AddSync(&lines), zapcore.DebugLevel)
	w := newWatch(t, nil, nil, zap.WrapCore(func(zapcore.Core) zapcore.Core { return core }))
	r := w.newRig(roundtrip.Options{},
		middleware.Payload(&middleware.Options{ArgumentBytes: 4096}), middleware.Limit(nil),
		middleware.Timeout(time.Minute))
	leaky(r.Server)
	states := play(r)

	text := lines.String()
	for _, name := range []string{
		"request", "state_rejected", "answers_dropped", "input_required", "resumed", "flow_ended",
		"capability_refused", "handler_failed", "answered", "answer_invalid", "handler_panicked",
		"server_bug",
	} {
		wantPart(t, "no entry mcp.", text, `"mcp.`+name+`"`)
	}
	for what, recorded := range map[string]string{"the log": text, "the metrics": r.exposition()} {
		for line := range strings.Lines(recorded) {
			wantNoPart(t, what, line, canary)
		}
		testkit.CheckSecret(t, []byte(canary), recorded)
		for _, state := range states {
			if strings.Contains(recorded, state[len(state)/2:]) {
				t.Errorf("%s shows a requestState", what)
			}
		}
	}
	if len(states) < 3 {
		t.Errorf("%d states were sent, want 3", len(states))
	}
	r.wantValue(float64(r.calls), "rondo_requests_total")
}
