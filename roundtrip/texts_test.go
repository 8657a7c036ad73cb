package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestTextsSayWhatToDo brings about each text of the funnel's own that a model or
// a person reads, and looks for what they are to do next.
func TestTextsSayWhatToDo(t *testing.T) {
	lossy := `{"action":"perhaps"}`
	for _, tc := range []struct {
		name, answer string
		handler      roundtrip.Handler
		change       func(*roundtrip.Options, *roundtrip.Call)
		want         string // of what to do
		modern, live bool
	}{
		{name: "declined", answer: declined, handler: payFlow, want: "do not call again unless they ask for it", modern: true, live: true},
		{name: "cancelled", answer: cancelled, handler: payFlow, want: "call again only if they want to", modern: true, live: true},
		{name: "declined and asked again", answer: declined, handler: nags, want: "do not call again unless they ask for it", modern: true, live: true},
		{name: "cancelled and asked again", answer: cancelled, handler: nags, want: "call again only if they want to", modern: true, live: true},
		{name: "invalid", answer: `{"action":"accept","content":{}}`, handler: payFlow, want: "Start the call again when a valid answer can be given.", modern: true, live: true},
		{name: "too many rounds", answer: accepted, handler: insatiable, want: "Start the call again, and answer what it asked for last.", modern: true, live: true},
		{name: "malformed in guard style", answer: lossy, handler: payGuard, want: "use a client that returns requestState unchanged", modern: true, live: true},
		{name: "malformed in flow style", answer: lossy, handler: payFlow, want: "use a client that ", modern: true, live: true},
		{name: "no capability", handler: payFlow, want: "use a client that does", live: true,
			change: func(_ *roundtrip.Options, c *roundtrip.Call) { c.Capabilities = protocol.ClientCapabilities{} }},
		{name: "no session", handler: payFlow, want: "connect with one", live: true,
			change: func(_ *roundtrip.Options, c *roundtrip.Call) { c.Push = nil }},
		{name: "refused era", handler: payFlow, want: "needs a client of revision 2026-07-28", live: true,
			change: func(o *roundtrip.Options, _ *roundtrip.Call) { o.RefuseLegacy = true }},
		{name: "old revision", handler: payFlow, want: "use a client of a later revision", live: true,
			change: func(_ *roundtrip.Options, c *roundtrip.Call) { c.Version = protocol.V20250326 }},
		{name: "hidden failure", handler: func(context.Context) (protocol.Result, error) { return nil, errors.New("secret") },
			want: "try again later, and give the reference to the operator", modern: true, live: true,
			change: func(o *roundtrip.Options, _ *roundtrip.Call) { o.HideErrors = true }},
	} {
		for _, m := range modes {
			if legacy := m.version.Era() == protocol.Legacy; legacy && !tc.live || !legacy && !tc.modern {
				continue
			}
			t.Run(tc.name+" "+m.name, func(t *testing.T) {
				opts, call := roundtrip.Options{ReplayOnLegacy: m.replay}, toolCall()
				call.Version = m.version
				if m.version.Era() == protocol.Legacy {
					call.Push = &human{t: t, version: m.version, answer: says(tc.answer)}
				}
				if tc.change != nil {
					tc.change(&opts, &call)
				}
				text := lastText(t, opts, call, tc.handler, tc.answer)
				if !strings.Contains(text, tc.want) {
					t.Errorf("%q does not say %q", text, tc.want)
				}
			})
		}
	}
}

// lastText takes a flow to its end with the same answer to everything.
func lastText(t *testing.T, opts roundtrip.Options, call roundtrip.Call, handler roundtrip.Handler, answer string) string {
	t.Helper()
	funnel, err := roundtrip.NewFunnel(opts)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		result, err := funnel.Do(t.Context(), call, handler)
		if err != nil {
			return err.Error()
		}
		asked, ok := result.(*protocol.InputRequiredResult)
		if !ok {
			return result.(*protocol.CallToolResult).Content[0].(*protocol.TextContent).Text
		}
		call.State, call.Responses = asked.RequestState, nil
		for _, q := range asked.InputRequests {
			call.Responses = append(call.Responses, protocol.KeyedResponse{Key: q.Key, Result: json.RawMessage(answer)})
		}
	}
	t.Fatal("the flow does not end")
	return ""
}

// TestNoRoundSaysWhy: an author who passed on the wrong context learns so, and
// not that there is no handler.
func TestNoRoundSaysWhy(t *testing.T) {
	asks := func(ctx context.Context) error {
		_, err := roundtrip.Ask[Payment](ctx, "pay", "How much?")
		if !errors.Is(err, roundtrip.ErrNoRound) {
			t.Errorf("got %v", err)
		}
		return err
	}
	contains(t, asks(context.Background()).Error(), "the context is not that of a handler")
	var left context.Context
	var wrong error
	c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
		left, wrong = ctx, asks(context.Background())
		return say("done")
	})
	c.done()
	contains(t, wrong.Error(), "this is a handler", "not context.Background()")
	contains(t, asks(left).Error(), "the handler has returned")
	c.call.Method = protocol.MethodListTools
	c.handler = func(ctx context.Context) (protocol.Result, error) {
		contains(t, asks(ctx).Error(), "requests of this method cannot ask")
		return &protocol.ListToolsResult{}, nil
	}
	if _, err := c.send(); err != nil {
		t.Error(err)
	}
}
