package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// reporting sends the given progress with the request's token, if it has one.
func reporting(t *testing.T, progress ...string) *fakePeer {
	return &fakePeer{handle: func(ctx context.Context, req *protocol.Request, back protocol.Back) (*protocol.Response, error) {
		if token := metaOf(t, req).ProgressToken; !token.IsZero() {
			for _, p := range progress {
				params := fmt.Sprintf(`{"progressToken":%s,"progress":%s}`, token, p)
				if err := back.Notify(ctx, &protocol.Notification{Method: protocol.NotifyProgress, Params: json.RawMessage(params)}); err != nil {
					t.Error(err)
				}
			}
		}
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(done)}, nil
	}}
}

// collect returns a handler that appends to got.
func collect(got *[]float64) func(context.Context, *protocol.Progress) {
	return func(_ context.Context, p *protocol.Progress) { *got = append(*got, p.Progress) }
}

func TestWithProgress(t *testing.T) {
	var call, all []float64
	c := newClient(t, reporting(t, "1", "2"), &client.Options{Progress: collect(&all)})
	for _, ctx := range []context.Context{t.Context(), client.WithProgress(t.Context(), collect(&call)), client.WithProgress(t.Context(), nil)} {
		r, err := c.CallTool(ctx, "t", nil)
		wantDone(t, r, err)
	}
	want := []float64{1, 2}
	if !slices.Equal(call, want) || !slices.Equal(all, want) {
		t.Errorf("got %v for the call and %v for the client, want %v each", call, all, want)
	}
}

func TestWithProgressAlone(t *testing.T) {
	var got []float64
	c := newClient(t, reporting(t, "1"), nil)
	r, err := c.CallTool(client.WithProgress(t.Context(), collect(&got)), "t", nil)
	wantDone(t, r, err)
	r, err = c.CallTool(t.Context(), "t", nil)
	wantDone(t, r, err)
	if len(got) != 1 {
		t.Errorf("got %v, want one report", got)
	}
}

func TestProgressMustIncrease(t *testing.T) {
	var got []float64
	c := newClient(t, reporting(t, "0", "1", "1", "0.5", "2", "-1", "2.5"), nil)
	r, err := c.CallTool(client.WithProgress(t.Context(), collect(&got)), "t", nil)
	wantDone(t, r, err)
	if want := []float64{0, 1, 2, 2.5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
