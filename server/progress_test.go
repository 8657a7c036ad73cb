package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// callWith calls the tool x with more members in _meta, and returns the notifications.
func (h *harness) callWith(meta string) (reply, []*protocol.Notification) {
	h.Helper()
	if meta != "" {
		meta = "," + meta
	}
	var way back
	req := messageOf(1, protocol.MethodCallTool,
		"{"+strings.TrimSuffix(goodMeta, "}")+meta+`},"name":"x"}`)
	response, err := h.Handle(h.Context(), req, &way)
	noError(h, err)
	return h.read(req, response), way
}

func paramsOf(t *testing.T, method string, list []*protocol.Notification) (all []string) {
	t.Helper()
	for _, n := range list {
		wantEqual(t, "sent", n.Method, method)
		all = append(all, string(n.Params))
	}
	return all
}

func TestProgress(t *testing.T) {
	type step struct {
		progress, total float64
		message         string
		ok              bool
	}
	steps := []step{
		{-1, 0, "", true}, {-1, 0, "", false}, {0, 0, "", true}, {0.5, 2, "half", true},
		{0.25, 2, "", false},
		{math.NaN(), 0, "", false}, {math.Inf(1), 0, "", false}, {1, math.NaN(), "", false},
		{1, math.Inf(-1), "", false},
		{1, 0, "näh", true}, {math.MaxFloat64, 0, "", true}, {math.MaxFloat64, 0, "", false},
	}
	sent := []string{`"progress":-1}`, `"progress":0}`, `"progress":0.5,"total":2,"message":"half"}`, `"progress":1,"message":"näh"}`,
		`"progress":1.7976931348623157e+308}`}
	tests := []struct {
		name, token string // JSON text; empty: none
		refused     bool
	}{
		{"string", `"abc"`, false},
		{"number", `5`, false},
		{"number as a string", `"5"`, false},
		{"zero", `0`, false},
		{"empty string", `""`, false},
		{"large", `9007199254740993`, false},
		{"none", ``, false},
		{"fraction of zero", `1.0`, false}, // is sent back unchanged
		{"exponent", `1e2`, false},
		{"fraction", `1.5`, true},
		{"exponent that is too large", `1e400`, true},
		{"object", `{}`, true},
		{"boolean", `true`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, nil)
			h.tool("x", func(ctx context.Context, c *server.ToolCall) (toolOutcome, error) {
				for _, s := range steps {
					err := c.Progress(ctx, s.progress, s.total, s.message)
					if (err == nil) != (s.ok || tt.token == "") {
						t.Errorf("%+v: %v", s, err)
					}
				}
				return server.Text("x"), nil
			})
			meta := ""
			if tt.token != "" {
				meta = `"progressToken":` + tt.token
			}
			r, way := h.callWith(meta)
			if tt.refused {
				r.refused(protocol.CodeInvalidParams, "progressToken")
				return
			}
			r.text("x")
			var want []string
			for _, s := range sent {
				if tt.token != "" {
					want = append(want, `{"progressToken":`+tt.token+`,`+s)
				}
			}
			wantList(t, "sent", paramsOf(t, protocol.NotifyProgress, way), want)
		})
	}
}

// Progress increases, even with concurrent reports.
func TestConcurrentProgress(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("x", func(ctx context.Context, c *server.ToolCall) (toolOutcome, error) {
		var done sync.WaitGroup
		for range 8 {
			done.Go(func() {
				for i := range 100 {
					_ = c.Progress(ctx, float64(i), 100, "")
				}
			})
		}
		done.Wait()
		return server.Text("x"), nil
	})
	_, way := h.callWith(`"progressToken":1`)
	last := -1.0
	for _, n := range way {
		var p protocol.Progress
		if err := json.Unmarshal(n.Params, &p); err != nil || p.Progress <= last {
			t.Errorf("%s after %v, %v", n.Params, last, err)
		}
		last = p.Progress
	}
	wantEqual(t, "the last progress is", last, 99.0)
}

func TestNothingFollowsTheResponse(t *testing.T) {
	h := newHarness(t, nil)
	calls := make(chan *server.ToolCall, 1)
	h.tool("x", func(ctx context.Context, c *server.ToolCall) (toolOutcome, error) {
		calls <- c
		return server.Text("x"), c.Progress(ctx, 5, 0, "")
	})
	_, way := h.callWith(`"progressToken":1,"` + protocol.MetaLogLevel + `":"debug"`)
	c, ctx := <-calls, context.Background()
	for name, err := range map[string]error{
		"progress":                        c.Progress(ctx, 6, 0, ""),
		"progress that does not increase": c.Progress(ctx, 5, 0, ""),
		"log":                             c.Log(ctx, protocol.LevelError, "", 1),
		"notify":                          c.Notify(ctx, &protocol.Notification{Method: "x/y"}),
	} {
		wantIs(t, name+" after the response", err, server.ErrEnded)
	}
	if len(way) != 1 {
		t.Errorf("sent %v", way)
	}
}

func TestLog(t *testing.T) {
	levels := []protocol.LoggingLevel{protocol.LevelDebug, protocol.LevelInfo, protocol.LevelNotice,
		protocol.LevelWarning,
		protocol.LevelError, protocol.LevelCritical, protocol.LevelAlert, protocol.LevelEmergency}
	h := newHarness(t, nil)
	h.tool("x", func(ctx context.Context, c *server.ToolCall) (toolOutcome, error) {
		for i, level := range levels {
			if err := c.Log(ctx, level, "", i); err != nil {
				t.Errorf("%s: %v", level, err)
			}
		}
		return server.Text("x"), nil
	})
	for i, level := range levels {
		r, way := h.callWith(`"` + protocol.MetaLogLevel + `":"` + string(level) + `"`)
		r.text("x")
		var want []string
		for j := i; j < len(levels); j++ {
			want = append(want, fmt.Sprintf(`{"level":%q,"data":%d}`, levels[j], j))
		}
		wantList(t, "from", paramsOf(t, protocol.NotifyMessage, way), want)
	}
	if _, way := h.callWith(""); len(way) > 0 {
		t.Errorf("without a level: sent %v", way)
	}
	for _, bad := range []string{`"loud"`, `"DEBUG"`, `""`, `7`, `{}`} {
		r, way := h.callWith(`"` + protocol.MetaLogLevel + `":` + bad)
		r.refused(protocol.CodeInvalidParams, protocol.MetaLogLevel)
		if len(way) > 0 {
			t.Errorf("a refused call was sent %v", way)
		}
	}
}

func TestLogData(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("x", func(ctx context.Context, c *server.ToolCall) (toolOutcome, error) {
		for _, data := range []any{nil, "line\nbreak", map[string]any{"a": []int{1}},
			json.RawMessage(`{"b":1}`)} {
			if err := c.Log(ctx, protocol.LevelInfo, "db", data); err != nil {
				t.Errorf("%v: %v", data, err)
			}
		}
		for name, err := range map[string]error{
			"a channel":       c.Log(ctx, protocol.LevelInfo, "", make(chan int)),
			"not JSON":        c.Log(ctx, protocol.LevelInfo, "", json.RawMessage(`{`)),
			"unknown level":   c.Log(ctx, "loud", "", 1),
			"no level at all": c.Log(ctx, "", "", 1),
		} {
			if err == nil {
				t.Errorf("%s is accepted", name)
			}
		}
		return server.Text("x"), nil
	})
	_, way := h.callWith(`"` + protocol.MetaLogLevel + `":"debug"`)
	want := []string{`null`, `"line\nbreak"`, `{"a":[1]}`, `{"b":1}`}
	for i := range want {
		want[i] = `{"level":"info","logger":"db","data":` + want[i] + `}`
	}
	wantList(t, "sent", paramsOf(t, protocol.NotifyMessage, way), want)
}

// Internal failures are not logged to clients.
func TestServerItselfDoesNotLog(t *testing.T) {
	handlers := map[string]func(context.Context, *server.ToolCall) (toolOutcome, error){
		"panic": func(context.Context, *server.ToolCall) (toolOutcome, error) {
			panic("secret")
		},
		"nil": func(context.Context, *server.ToolCall) (toolOutcome, error) {
			return nil, nil
		},
		"bug": func(context.Context, *server.ToolCall) (toolOutcome, error) {
			return server.Structured(func() { _ = "secret" })
		},
		"asks": asksCount,
	}
	for name, handler := range handlers {
		h := newHarness(t, nil)
		h.tool("x", handler)
		r, way := h.callWith(`"progressToken":1,"` + protocol.MetaLogLevel + `":"debug"`)
		if len(way) > 0 || strings.Contains(r.raw, "secret") {
			t.Errorf("%s: sent %v and %s", name, way, r.raw)
		}
	}
}
