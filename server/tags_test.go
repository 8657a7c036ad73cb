package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

type refundLine struct {
	Cents int `json:"cents" minimum:"1"`
}

type refundBase struct {
	Reason string `json:"reason" minLength:"3" maxLength:"5"`
}

type refund struct {
	refundBase
	Amount float64               `json:"amount" minimum:"1" maximum:"100.5"`
	Kind   string                `json:"kind" enum:"card, cash" title:"Kind"`
	Mail   *string               `json:"mail,omitempty" format:"email"`
	Tags   []string              `json:"tags,omitempty" minItems:"1" maxItems:"2" enum:"a,b"`
	Lines  []refundLine          `json:"lines,omitempty"`
	Named  map[string]refundLine `json:"named,omitempty"`
	Level  *string               `json:"level,omitempty" enum:"high"`
}

// TestTagsBoundArguments: what a tag says of a field, no argument breaks.
func TestTagsBoundArguments(t *testing.T) {
	h := newHarness(t, nil)
	server.AddTool(h.Server, server.Tool{Name: "refund"}, func(context.Context, *server.ToolCall, refund) (protocol.CallToolOutcome, error) {
		return server.Text("refunded"), nil
	})
	const good = `"amount":1,"kind":"cash","reason":"abc"`
	for _, tc := range []struct{ arguments, bad string }{
		{`{` + good + `}`, ""},
		{`{` + good + `,"mail":"a@example.com","tags":["a","b"],"lines":[{"cents":1}],"named":{"x":{"cents":2}},"level":"high"}`, ""},
		{`{` + good + `,"level":null}`, ""},
		{`{"amount":0,"kind":"cash","reason":"abc"}`, "amount"},
		{`{"amount":100.6,"kind":"cash","reason":"abc"}`, "amount"},
		{`{"amount":1,"kind":"gold","reason":"abc"}`, "kind"},
		{`{"amount":1,"kind":"cash","reason":"ab"}`, "reason"},
		{`{"amount":1,"kind":"cash","reason":"abcdef"}`, "reason"},
		{`{` + good + `,"mail":"nobody"}`, "mail"},
		{`{` + good + `,"tags":[]}`, "tags"},
		{`{` + good + `,"tags":["a","b","a"]}`, "tags"},
		{`{` + good + `,"tags":["c"]}`, "tags"},
		{`{` + good + `,"lines":[{"cents":0}]}`, "cents"},
		{`{` + good + `,"named":{"x":{"cents":0}}}`, "cents"},
		{`{` + good + `,"level":"low"}`, "level"},
	} {
		got := h.call("refund", tc.arguments)
		if tc.bad == "" {
			got.text("refunded")
		} else {
			got.failed(tc.bad)
		}
	}
}

// TestTagsThatDoNotFit are mistakes of the program, found when it starts.
func TestTagsThatDoNotFit(t *testing.T) {
	type noNumber struct {
		Bound string `json:"bound" minimum:"1"`
	}
	type noBound struct {
		Bound int `json:"bound" minimum:"one"`
	}
	type noText struct {
		Bound int `json:"bound" minLength:"1"`
	}
	type noCount struct {
		Bound string `json:"bound" maxLength:"-1"`
	}
	type noList struct {
		Bound string `json:"bound" minItems:"1"`
	}
	type noChoice struct {
		Bound int `json:"bound" enum:"1,2"`
	}
	type noFormat struct {
		Bound int `json:"bound" format:"email"`
	}
	h := newHarness(t, nil)
	wrong(t, "minimum", func() { addTyped[noNumber](h.Server) })
	wrong(t, "minimum", func() { addTyped[noBound](h.Server) })
	wrong(t, "minLength", func() { addTyped[noText](h.Server) })
	wrong(t, "maxLength", func() { addTyped[noCount](h.Server) })
	wrong(t, "minItems", func() { addTyped[noList](h.Server) })
	wrong(t, "enum", func() { addTyped[noChoice](h.Server) })
	wrong(t, "format", func() { addTyped[noFormat](h.Server) })
}

func addTyped[In any](s *server.Server) {
	server.AddTool(s, server.Tool{Name: "wrong"}, func(context.Context, *server.ToolCall, In) (protocol.CallToolOutcome, error) {
		return server.Text("never"), nil
	})
}

// wrong wants a panic that names type, field and tag.
func wrong(t *testing.T, tag string, register func()) {
	t.Helper()
	defer func() {
		t.Helper()
		said, _ := recover().(string)
		if !strings.Contains(said, ".Bound") || !strings.Contains(said, tag) {
			t.Errorf("%s: registering panics with %q", tag, said)
		}
	}()
	register()
}
