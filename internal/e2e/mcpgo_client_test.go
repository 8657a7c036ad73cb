package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// Defect: answers and state of the caller were dropped on the first send, so that nothing could be resumed by hand.
func TestM14CallersAnswersAreSent(t *testing.T) {
	h, who := newHostile(t, ask(`"inputRequests":{"d":`+nameForm+`},"requestState":"s2"`), done), &ada{}
	p := &protocol.CallToolParams{Name: "x"}
	p.InputResponses = protocol.InputResponses{{Key: "c", Result: raw(`{"action":"decline"}`)}}
	p.RequestState = protocol.StateText("s1")
	if _, err := h.dial(who.options()).CallToolParams(within(t, patience), p); err != nil {
		t.Fatal(err)
	}
	want := []struct{ answers, state string }{
		{`{"c":{"action":"decline"}}`, `"s1"`},
		{`{"d":{"action":"accept","content":{"name":"Ada"}}}`, `"s2"`}, // of this round only
	}
	for i, sent := range h.wantRequests(2) {
		if string(sent["inputResponses"]) != want[i].answers || string(sent["requestState"]) != want[i].state {
			t.Errorf("request %d: got %s and %s, want %+v", i+1, sent["inputResponses"], sent["requestState"], want[i])
		}
	}
}

// Defect: polling stopped after three tries.
func TestM15PollingGoesOn(t *testing.T) {
	wait := ask(`"requestState":"s"`)
	h := newHostile(t, wait, wait, wait, wait, wait, wait, wait, wait, done)
	r, err := h.call(&client.Options{MinPause: time.Millisecond, MaxPause: 2 * time.Millisecond})
	if err != nil || textOf(r.Content) != "done" {
		t.Errorf("got %+v, %v", r, err)
	}
	h.wantRequests(9)
}

// Defect: the empty state was not echoed. See also G31.
func TestM16EmptyStateOfPromptsAndResources(t *testing.T) {
	question := ask(`"inputRequests":{"c":` + nameForm + `},"requestState":""`)
	h := newHostile(t, question, `{"resultType":"complete","messages":[]}`, question, completeRead, ask(`"requestState":""`), done)
	c, ctx := h.dial((&ada{}).options()), within(t, patience)
	if _, err := c.GetPrompt(ctx, "x", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadResource(ctx, "u:x"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CallTool(ctx, "x", nil); err != nil {
		t.Fatal(err)
	}
	for i, sent := range h.wantRequests(6) {
		want := ""
		if i%2 == 1 {
			want = `""`
		}
		if got := string(sent["requestState"]); got != want {
			t.Errorf("request %d: got state %s, want %s", i+1, got, want)
		}
	}
}

// Defect: after a result with neither questions nor state the identical call was sent three more times.
func TestM17NoBlindRetry(t *testing.T) {
	h := newHostile(t, ask(`"_meta":{}`))
	_, err := h.call((&ada{}).options())
	wantUnusable(t, err)
	h.wantRequests(1)
}

// Defect: an unknown resultType with content counted as success.
func TestM18UnknownResultTypeWithContent(t *testing.T) {
	h := newHostile(t, `{"resultType":"deferred","content":[{"type":"text","text":"done"}]}`)
	r, err := h.call(nil)
	if r != nil {
		t.Errorf("got %+v", r)
	}
	wantUnusable(t, err)
}

// Defect: nothing bounded the wait for a person who does not answer. The caller's context does.
func TestM20SilentPersonsAreBounded(t *testing.T) {
	h := newHostile(t, ask(`"inputRequests":{"c":`+nameForm+`}`), done)
	ctx, cancel := context.WithCancel(t.Context())
	c := h.dial(&client.Options{ElicitForm: func(ctx context.Context, _ *client.FormQuestion) (*protocol.ElicitResult, error) {
		cancel() // the caller gives up while the person thinks
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if _, err := c.CallTool(ctx, "x", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	h.wantRequests(1)
}
