package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestNotifications(t *testing.T) {
	var late protocol.Back
	peer := &fakePeer{handle: func(ctx context.Context, req *protocol.Request,
		back protocol.Back) (response, error) {
		late = back
		token := metaOf(t, req).ProgressToken.String()
		for _, n := range []frame{
			{protocol.NotifyProgress, `{"progressToken":` + token + `,"progress":1}`},
			{protocol.NotifyProgress, `{"progressToken":"other","progress":2}`},
			{protocol.NotifyProgress, `{"progressToken":null,"progress":2}`},
			{protocol.NotifyProgress, ""},
			{protocol.NotifyMessage, `{"level":"info","data":"hello"}`},
			{protocol.NotifyMessage, `{"level":"loud","data":"hello"}`},
			{"notifications/custom", `{}`},
		} {
			if err := n.send(ctx, back); err != nil {
				t.Errorf("%s: %v", n.method, err)
			}
		}
		return reply(req, done)
	}}
	var got []string
	ctx := client.WithProgress(t.Context(),
		func(context.Context, *protocol.Progress) { got = append(got, "progress") })
	r, err := newClient(t, peer, &client.Options{
		LogLevel: protocol.LevelInfo,
		Log: func(_ context.Context, m *protocol.LogMessage) {
			got = append(got, "log "+string(m.Data))
		},
		Notification: func(_ context.Context, n *protocol.Notification) {
			got = append(got, n.Method)
		},
	}).CallTool(ctx, "t", nil)
	wantDone(t, r, err)
	wantEqual(t, "told", strings.Join(got, ", "), `progress, log "hello", notifications/custom`)
	wantEqual(t, "level", metaOf(t, peer.requests()[0]).LogLevel, protocol.LevelInfo)
	if err := late.Notify(t.Context(),
		&protocol.Notification{Method: "notifications/custom"}); err == nil || len(got) != 3 {
		t.Errorf("after the end: got %v and %d notifications", err, len(got))
	}
}

func TestNotificationHandlerPanics(t *testing.T) {
	peer := &fakePeer{handle: func(ctx context.Context, req *protocol.Request,
		back protocol.Back) (response, error) {
		_ = back.Notify(ctx, nil)
		_ = back.Notify(ctx, &protocol.Notification{Method: "notifications/custom"})
		return reply(req, done)
	}}
	_, err := callOnce(t, peer, &client.Options{
		Notification: func(context.Context, *protocol.Notification) { panic("boom") },
	})
	if p, ok := errors.AsType[*client.PanicError](err); !ok || p.Value != "boom" ||
		len(p.Stack) == 0 {
		t.Errorf("got %v, want the panic", err)
	}
}

func TestRequestWithoutHandlersHasNoBack(t *testing.T) {
	peer := &fakePeer{handle: func(_ context.Context, req *protocol.Request,
		back protocol.Back) (response, error) {
		if back != nil {
			t.Error("got a way back that leads nowhere")
		}
		return reply(req, done)
	}}
	wantOnce(t, peer, nil)
}

func reporting(t *testing.T, progress ...string) *fakePeer {
	return &fakePeer{handle: func(ctx context.Context, req *protocol.Request,
		back protocol.Back) (response, error) {
		if token := metaOf(t, req).ProgressToken; !token.IsZero() {
			for _, p := range progress {
				params := fmt.Sprintf(`{"progressToken":%s,"progress":%s}`, token, p)
				noError(t, frame{protocol.NotifyProgress, params}.send(ctx, back))
			}
		}
		return reply(req, done)
	}}
}

func TestProgressMustIncrease(t *testing.T) {
	var got []float64
	c := newClient(t, reporting(t, "0", "1", "1", "0.5", "2", "-1", "2.5"), nil)
	for _, ctx := range []context.Context{t.Context(), client.WithProgress(t.Context(), nil),
		client.WithProgress(t.Context(), func(_ context.Context, p *protocol.Progress) {
			got = append(got, p.Progress)
		})} {
		r, err := c.CallTool(ctx, "t", nil)
		wantDone(t, r, err)
	}
	wantEqual(t, "progress", fmt.Sprint(got), "[0 1 2 2.5]")
}

func TestProgressTokensOfRoundsDiffer(t *testing.T) {
	peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
	c := newClient(t, peer, &client.Options{ElicitForm: acceptName})
	r, err := c.CallTool(client.WithProgress(t.Context(),
		func(context.Context, *protocol.Progress) {}), "t", nil)
	wantDone(t, r, err)
	a, b := metaOf(t, peer.requests()[0]).ProgressToken, metaOf(t, peer.requests()[1]).ProgressToken
	if a == b || a.IsZero() || b.IsZero() {
		t.Errorf("got tokens %s and %s, want two", a, b)
	}
}
