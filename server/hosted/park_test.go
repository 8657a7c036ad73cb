package hosted_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/hosted"
)

func TestAParkedHandlerRunsOnce(t *testing.T) {
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		var runs atomic.Int32
		f := &fake{answers: map[string]handler{
			"once": func(ctx context.Context, c *fakeCall) (string, error) {
				runs.Add(1)
				_ = c.notify(ctx, protocol.NotifyMessage, `{"level":"error","data":"begun"}`)
				first, err := c.ask(ctx, "One?")
				if err != nil {
					return "", err
				}
				second, err := c.ask(ctx, "Two?")
				if err != nil {
					return "", err
				}
				return textResult("%s %s", first.Action, second.Content), nil
			},
		}}
		h := host(t, f, &hosted.Options{Park: []string{"once"}})
		c := open(t, r.open(t, h), era, hostedtest.Answering(protocol.ActionAccept))
		for n := range int32(3) {
			wantText(t, c, "once", `accept {"text":"Two?"}`)
			if runs.Load() != n+1 {
				t.Errorf("%d runs", runs.Load())
			}
		}
	})
}

func TestAParkedHandlerMayDoWithoutAnAnswer(t *testing.T) {
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		f := &fake{answers: map[string]handler{
			"tries": func(ctx context.Context, c *fakeCall) (string, error) {
				_, err := c.ask(ctx, "Well?")
				return textResult("%v", err != nil), nil
			},
		}}
		h := host(t, f, &hosted.Options{Park: []string{"tries"}, Optional: []string{"tries"}})
		c := open(t, r.open(t, h), era, client.Options{})
		wantText(t, c, "tries", "true")
	})
}

func TestAParkedHandlerHasNoRound(t *testing.T) {
	f := &fake{answers: map[string]handler{
		"asks": func(ctx context.Context, _ *fakeCall) (string, error) {
			_, err := roundtrip.Ask[struct{}](ctx, "why", "Why?")
			return textResult("%v", errors.Is(err, roundtrip.ErrNoRound)), nil
		},
	}}
	h := host(t, f, &hosted.Options{Park: []string{"asks"}})
	c := open(t, h.Server(), protocol.Modern, hostedtest.Answering(protocol.ActionAccept))
	wantText(t, c, "asks", "true")
}

// begin makes a call of a parked handler up to its question.
func begin(t *testing.T, h *hosted.Server) (*client.Client, *client.Pending) {
	t.Helper()
	c := open(t, h.Server(), protocol.Modern, client.Options{
		Manual: &protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}}})
	_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "waits"})
	if err != nil || pending == nil {
		t.Fatalf("got %v, %v, want a question", pending, err)
	}
	return c, pending
}

func TestParkedHandlersEndWithTheServer(t *testing.T) {
	ended := make(chan error, 1)
	f := &fake{answers: map[string]handler{
		"waits": func(ctx context.Context, c *fakeCall) (string, error) {
			_, err := c.ask(ctx, "Well?")
			ended <- err
			return "", err
		},
	}}
	h := host(t, f, &hosted.Options{Park: []string{"waits"}})
	c, pending := begin(t, h)
	noError(t, h.Close())
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the question has an answer")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the handler goes on")
	}
	accept, err := client.Accept(map[string]any{"text": "late"})
	noError(t, err)
	noError(t, pending.Answer(pending.Questions()[0].Key, accept))
	if _, _, err := c.Resume(t.Context(), pending); err == nil {
		t.Error("a closed server takes answers")
	}
}

type observer struct{ panics atomic.Int32 }

func (o *observer) Observe(_ context.Context, e event.Event) {
	if _, ok := e.(event.HandlerPanicked); ok {
		o.panics.Add(1)
	}
}

func TestAPanicOfAParkedHandlerIsAnError(t *testing.T) {
	f := &fake{answers: map[string]handler{
		"panics": func(ctx context.Context, c *fakeCall) (string, error) {
			_, _ = c.ask(ctx, "Well?")
			panic("after the answer")
		},
	}}
	var o observer
	h := host(t, f, &hosted.Options{Park: []string{"panics"},
		Server: server.Options{Observer: &o}})
	c := open(t, h.Server(), protocol.Modern, hostedtest.Answering(protocol.ActionAccept))
	got := hostedtest.CallTool(t, c, "panics")
	if !strings.HasPrefix(got, "error: internal error") || o.panics.Load() != 1 {
		t.Errorf("got %s, %d panics reported", got, o.panics.Load())
	}
}
