package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// repairs returns the latest repairs: the names of arguments, or "text".
func (e *events) repairs() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, happened := range e.list {
		if r, ok := happened.(event.MessageRepaired); ok {
			all = append(all, r.Method+":"+r.Target+" "+strings.Join(r.Arguments, ","))
		}
	}
	e.list = nil
	return strings.Join(all, "; ")
}

func TestArgumentsThatComeAsJSONText(t *testing.T) {
	type in struct {
		Tags  []string       `json:"tags,omitempty"`
		N     *int           `json:"n,omitempty" maximum:"9"`
		On    bool           `json:"on,omitempty"`
		Text  string         `json:"text,omitempty"`
		Any   any            `json:"any,omitempty"`
		Map   map[string]int `json:"map,omitempty"`
		Limit int            `json:"limit,omitempty" default:"3"`
	}
	const schema = `{"type":"object","$defs":{"n":{"anyOf":[{"type":"integer","maximum":9},` +
		`{"type":"null"}]}},"properties":{"n":{"$ref":"#/$defs/n"},` +
		`"tags":{"oneOf":[{"$ref":"#/$defs/n"},{"type":"array","items":{"type":"string"}}]},` +
		`"on":{"type":["boolean","null"]},"text":{"type":"string"},` +
		`"map":{"type":"object"},"any":{"anyOf":[{"type":"string","maxLength":1},` +
		`{"type":"number"}]}},"additionalProperties":false}`
	for _, test := range []struct{ sent, got, names string }{
		{`{"tags":"[\"a\"]"}`, `{"tags":["a"]}`, "tags"},
		{`{"n":"5","text":"5","on":"true"}`, `{"n":5,"text":"5","on":true}`, "n,on"},
		{`{"map":" {\"a\" : 1}","tags":["b"]}`, `{"map": {"a" : 1},"tags":["b"]}`, "map"},
		{`{"n":"null"}`, `{"n":null}`, "n"},
		{`{"n":5}`, `{"n":5}`, ""},
		{`{"n":"50"}`, "", ""},                  // too large
		{`{"n":"5","on":"yes"}`, "", ""},        // only one fits
		{`{"n":"\"5\""}`, "", ""},               // the text contains a text
		{`{"n":"5,\"on\":true"}`, "", ""},       // not one value
		{`{"map":"{\"a\":1,\"a\":2}"}`, "", ""}, // not strict
		{`{"other":"5"}`, "", ""},               // not a property
		{`{"tags":"[[[`, "", ""},                // not JSON
		{`{"text":"5","n":"x"}`, "", ""},        // a text stays
		{`{"map":"` + strings.Repeat("[", 99), "", ""},
	} {
		if !json.Valid([]byte(test.sent)) {
			test.sent += `"}`
		}
		for _, on := range []bool{true, false} {
			h := newHarness(t, &server.Options{ParseArguments: on})
			echo := func(_ context.Context, c *server.ToolCall) (toolOutcome, error) {
				return server.Text(string(c.Arguments)), nil
			}
			server.AddTool(h.Server, server.Tool{Name: "struct"},
				func(ctx context.Context, c *server.ToolCall, _ in) (toolOutcome, error) {
					return echo(ctx, c)
				})
			server.AddRawTool(h.Server,
				server.Tool{Name: "schema", InputSchema: json.RawMessage(schema)}, echo)
			legacy := h.enter(protocol.V20250618, `{}`)
			for _, tool := range []string{"struct", "schema"} {
				want, event := test.got, "tools/call:"+tool+" "+test.names
				if test.names == "" {
					event = ""
				} else if !on {
					want, event = "", ""
				}
				for era, got := range map[string]string{
					"modern": h.call(tool, test.sent).firstText(),
					"legacy": legacy.call(tool, test.sent),
				} {
					if strings.Contains(got, "invalid arguments") {
						got = ""
					}
					wantEqual(t, fmt.Sprint(era, on, tool, test.sent), got, want)
				}
				if event != "" {
					event += "; " + event
				}
				wantEqual(t, fmt.Sprint(on, tool, test.sent, " is reported"), h.events.repairs(), event)
			}
		}
	}
}

func TestRepairedTextIsReported(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("x", says("done"))
	w := h.serve(t.Context(), nil)
	w.send(strings.Replace(callLine("1", "x"), `"name"`, `"arguments":{"a":"\ud800","b":"\ud800"},"name"`, 1))
	w.succeeds("1")
	wantEqual(t, "events", h.events.repairs(), "tools/call:x ")
	w.send(callLine("2", "x"))
	w.succeeds("2")
	wantEqual(t, "events", h.events.repairs(), "")
}
