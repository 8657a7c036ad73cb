package mcpgo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// A session is registered with mcp-go. Handlers see a [run] instead, which sends its messages.
type session struct {
	*features
	asker
	peer   *peer
	caller *hosted.Caller // who opened it
	life   context.Context
	cancel context.CancelFunc
	ended  atomic.Bool
	asked  atomic.Int64 // number of questions
	outbox outbox       // of messages unrelated to requests
	back   protocol.BackCaller

	mu      sync.Mutex
	running map[*run]struct{}
}

func newSession(p *peer, caller *hosted.Caller, back protocol.BackCaller) *session {
	if caller == nil {
		caller = &hosted.Caller{SessionID: rand.Text()}
	}
	x := &session{peer: p, caller: caller, back: back, running: map[*run]struct{}{},
		features: &features{uris: map[string]struct{}{},
			InProcessSession: server.NewInProcessSession(caller.SessionID, nil)}}
	x.asker.of = x
	x.life, x.cancel = context.WithCancel(hosted.WithCaller(context.Background(), caller))
	x.outbox = outbox{room: sessionRoom, send: func(n mcp.JSONRPCNotification) {
		notify(x.life, x.back, n)
	}}
	return x
}

func notify(ctx context.Context, back protocol.Back, n mcp.JSONRPCNotification) {
	params, err := json.Marshal(n.Params)
	if err == nil { // otherwise nobody could read the message
		_ = back.Notify(ctx, &protocol.Notification{Method: n.Method, Params: params})
	}
}

func (x *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return x.outbox.open() }

var errGone = fmt.Errorf("mcpgo: %w", protocol.ErrSessionGone)

func (x *session) Notify(ctx context.Context, n *protocol.Notification) error {
	if x.ended.Load() {
		return errGone
	}
	raw, err := protocol.AppendMessage(nil, n)
	if err == nil {
		x.peer.server.HandleMessage(x.peer.server.WithContext(ctx, x), raw)
	}
	return err
}

// Close returns a panic of the server's hooks as an error.
func (x *session) Close() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("mcpgo: panic while a session was closed: %v", v)
		}
	}()
	x.end()
	return nil
}

// end may be called again by hooks that it calls.
func (x *session) end() {
	if !x.ended.CompareAndSwap(false, true) {
		return
	}
	x.cancel()
	x.outbox.abandon()
	x.peer.remove(x)
	x.peer.server.UnregisterSession(context.WithoutCancel(x.life), x.SessionID())
}

func (x *session) Done() <-chan struct{} { return x.life.Done() }

func (x *session) Err() error {
	if x.life.Err() != nil {
		return errGone
	}
	return nil
}
