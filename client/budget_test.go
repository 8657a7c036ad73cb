package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestTimeoutLeavesOutPeople(t *testing.T) {
	slow := func(d time.Duration) *fakePeer {
		peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
		inner := peer.handle
		peer.handle = func(ctx context.Context, req *protocol.Request,
			back protocol.Back) (response, error) {
			select {
			case <-time.After(d):
				return inner(ctx, req, back)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return peer
	}
	opts := &client.Options{
		Timeout: time.Minute,
		ElicitForm: func(ctx context.Context, q *client.FormQuestion) (elicited, error) {
			time.Sleep(time.Hour) // of fake time: a person at lunch
			if _, ok := ctx.Deadline(); ok {
				t.Error("the handler has a deadline")
			}
			return acceptName(ctx, q)
		},
	}
	inBubble(t, "within", func(t *testing.T) {
		wantOnce(t, slow(29*time.Second), opts)
	})
	inBubble(t, "legs add up", func(t *testing.T) {
		start := time.Now()
		_, err := callOnce(t, slow(31*time.Second), opts)
		wantError(t, err, "tools/call: server took longer than 1m0s", "Options.Timeout")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want a timeout", err)
		}
		wantEqual(t, "took", time.Since(start), time.Hour+time.Minute)
	})
}
