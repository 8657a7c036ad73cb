package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

var reasonForm = json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string","default":"none"}}}`)

func TestPushesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		failed := make(chan error, 100+1)
		h.tool("push", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			for i := range 100 + 1 {
				go func() {
					// the first failure would end the others
					_, err := roundtrip.AskRoots(ctx, fmt.Sprint("roots-", i),
						roundtrip.IfPossible())
					failed <- err
				}()
			}
			// Wait until all are sent or refused: unsent ones are not withdrawn.
			synctest.Wait()
			return server.Text((<-failed).Error()), nil
		})
		c := h.enter(protocol.V20251125, allCapabilities)
		wantPart(t, "the result", c.call("push", "{}"), "too many questions")
		// Leftover questions are withdrawn before the response.
		for range 100 {
			if err := <-failed; err == nil {
				t.Error("a question of an answered request was answered")
			}
		}
		wantEqual(t, "withdrawn", len(c.noted(protocol.NotifyCancelled)), 100)
	})
}

func TestPushAfterTheEnd(t *testing.T) {
	h := newHarness(t, nil)
	kept := make(chan *server.ToolCall, 1)
	h.tool("keep", func(_ context.Context, call *server.ToolCall) (toolOutcome, error) {
		kept <- call
		return server.Text("done"), nil
	})
	c := h.enter(protocol.V20251125, allCapabilities)
	c.call("keep", "{}")
	call := <-kept
	_, err := call.Push(t.Context(), &protocol.ListRoots{})
	if !errors.Is(err, roundtrip.ErrNoRound) || len(c.asked()) != 0 {
		t.Errorf("got %v after %d questions", err, len(c.asked()))
	}
}

// The notification reaches one session, in the one revision that has it, even after the response.
func TestElicitationComplete(t *testing.T) {
	h := newHarness(t, nil)
	calls := make(chan *server.ToolCall, 1)
	h.tool("visit", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		calls <- call
		return server.Text("done"), call.ElicitationComplete(ctx, "id-1")
	})
	other := h.enter(protocol.V20251125, allCapabilities)
	for _, v := range append([]protocol.Version{protocol.V20260728}, legacyVersions...) {
		var c *visitor
		if v.Era() == protocol.Modern {
			h.call("visit", "{}").text("done")
		} else {
			c = h.enter(v, allCapabilities)
			wantEqual(t, string(v), c.call("visit", "{}"), "done")
		}
		call := <-calls
		if err := call.ElicitationComplete(t.Context(), "id-2"); err != nil {
			t.Errorf("%s: %v", v, err)
		}
		if c == nil {
			continue
		}
		during, after := c.noted(protocol.NotifyElicitationCompleted), len(c.news)
		if v != protocol.V20251125 {
			wantEqual(t, fmt.Sprintf("%s: notifications", v), len(during)+after, 0)
			continue
		}
		if len(during) != 1 || during[0] != `{"elicitationId":"id-1"}` || after != 1 {
			t.Errorf("got %q and %d after, want one each", during, after)
		}
		if call.ElicitationComplete(t.Context(), "") == nil {
			t.Error("an empty id was sent")
		}
		c.session.Close()
		if err := call.ElicitationComplete(t.Context(), "id-3"); !errors.Is(err,
			server.ErrSessionClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if len(other.news) != 0 || len(other.noted(protocol.NotifyElicitationCompleted)) != 0 {
		t.Error("another session was told")
	}
}
