package roundtrip_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A notebook is a tracer that records its calls and numbers its spans.
type notebook struct {
	mu    sync.Mutex
	spans byte
	unset bool // unsampled
	links []string
	asked []string
}

func (n *notebook) CurrentSpan(context.Context) roundtrip.SpanRef {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unset {
		return roundtrip.SpanRef{Trace: [16]byte{1}}
	}
	n.spans++
	return roundtrip.SpanRef{Trace: [16]byte{0: 1}, Span: [8]byte{7: n.spans}}
}

func (n *notebook) LinkSpan(ctx context.Context, before roundtrip.SpanRef) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = append(n.links, fmt.Sprintf("%d", before.Span[7]))
}

func (n *notebook) BeginQuestion(_ context.Context, q protocol.InputRequest) (
	protocol.InputRequest, func(error)) {
	form := *q.(*protocol.ElicitForm)
	form.Meta = protocol.Meta(`{"traceparent":"x"}`)
	return &form, func(err error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.asked = append(n.asked, fmt.Sprintf("%s: %v", form.Message, err))
	}
}

func (n *notebook) CarrySpan(ctx, _ context.Context) context.Context { return ctx }

func (n *notebook) holds(t *testing.T, links, asked []string) {
	t.Helper()
	if !slices.Equal(n.links, links) || !slices.Equal(n.asked, asked) {
		t.Errorf("links %q, want %q; asked %q, want %q", n.links, links, n.asked, asked)
	}
}

func askTwice(ctx context.Context) (protocol.Result, error) {
	for _, key := range []string{"one", "two"} {
		if _, err := reasonOf(ctx, key); err != nil {
			return nil, err
		}
	}
	return say("done")
}

// TestRoundsAreLinkedAcrossReplicas: each round is served by another funnel and linked to the
// previous round. In a session the questions are traced.
func TestRoundsAreLinkedAcrossReplicas(t *testing.T) {
	for _, unset := range []bool{false, true} {
		n := &notebook{unset: unset}
		opts := roundtrip.Options{Sealer: ring(t, "k1"), Tracer: n}
		c := newClient(t, opts, askTwice)
		for _, key := range []string{"one", "two"} {
			c.ask(key).answer(key, form("now"))
			c.funnel = newClient(t, opts, askTwice).funnel
		}
		c.says("done")
		if unset {
			n.holds(t, nil, nil)
		} else {
			n.holds(t, []string{"1", "2"}, nil)
		}
	}
}

func TestPushedQuestionsAreTraced(t *testing.T) {
	n := &notebook{}
	c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{Tracer: n}, askTwice)
	h.answer = func(q *pushed) (string, error) {
		if string(q.InputRequest.(*protocol.ElicitForm).Meta) != `{"traceparent":"x"}` {
			t.Errorf("the question carries %s", q.InputRequest.(*protocol.ElicitForm).Meta)
		}
		if h.traffic() == 1 {
			return form("now"), nil
		}
		return "", errors.New("gone")
	}
	if _, err := c.send(); err != nil {
		t.Error(err)
	}
	n.holds(t, nil, []string{"one ?: <nil>", "two ?: gone"})
}

func TestRunsOfATaskAreLinkedToTheCallThatBeganIt(t *testing.T) {
	n := &notebook{}
	handler := func(ctx context.Context) (protocol.Result, error) {
		if err := roundtrip.BeginTask(ctx); err != nil {
			return nil, err
		}
		return askTwice(ctx)
	}
	c := newClient(t, roundtrip.Options{Tracer: n}, handler)
	var journal []byte
	c.call.Task = &roundtrip.TaskCall{Begin: func(_ context.Context, _ [16]byte, begun []byte) (
		protocol.CallToolOutcome, error) {
		journal = begun
		return &protocol.CallToolResult{}, nil
	}}
	if _, err := c.send(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "one", "two"} {
		run := &roundtrip.TaskRun{Journal: journal,
			Save: func(context.Context, []byte) error { return nil }}
		c.call.Task = &roundtrip.TaskCall{Run: run}
		c.call.Responses, c.call.State = nil, protocol.RequestState{}
		if key != "" {
			c.answer(key, form("now"))
		}
		if _, err := c.send(); err != nil {
			t.Fatal(err)
		}
		journal = run.Next
	}
	n.holds(t, []string{"1", "1", "1"}, nil)
}
