package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// leaveTimeout is how long a handler may go on whose call has been given up. Handlers that look at
// their context return at once; no call is to hang on one that does not.
const leaveTimeout = 5 * time.Second

// Peer returns a server of mcp-go as the peer of a hosted server: for a [hosted.Source] of one's
// own. Call it once for each server: it adds middleware to the server's handlers.
func Peer(s *server.MCPServer) protocol.LegacyPeer {
	s.Use(catchQuestions)
	server.WithPromptHandlerMiddleware(catchPromptQuestions)(s)
	server.WithResourceHandlerMiddleware(addHeaders)(s)
	return &peer{server: s, sessions: map[*session]struct{}{}}
}

type peer struct {
	server *server.MCPServer

	mu       sync.Mutex
	sessions map[*session]struct{}
	closed   bool
}

var errOutside = errors.New("mcpgo: hosted servers have sessions only")

// Handle implements [protocol.Peer].
func (p *peer) Handle(context.Context, *protocol.Request, protocol.Back) (
	*protocol.Response, error) {
	return nil, errOutside
}

// Notify implements [protocol.Peer].
func (p *peer) Notify(context.Context, *protocol.Notification) error { return errOutside }

// Probe implements [protocol.LegacyPeer].
func (p *peer) Probe(context.Context, *protocol.Request) (*protocol.Response, bool, error) {
	return nil, true, nil
}

// OpenSession implements [protocol.LegacyPeer].
func (p *peer) OpenSession(ctx context.Context, initialize *protocol.Request,
	back protocol.BackCaller) (protocol.LegacySession, *protocol.Response, error) {
	x := newSession(p, hosted.CallerFrom(ctx), back)
	if err := p.server.RegisterSession(ctx, x); err != nil {
		return nil, nil, err
	}
	if !p.keep(x) {
		_ = x.Close()
		return nil, nil, protocol.ErrSessionGone
	}
	response, err := p.send(p.server.WithContext(ctx, x), initialize)
	if err != nil || response.Error != nil {
		_ = x.Close()
	}
	return x, response, err
}

func (p *peer) keep(x *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.sessions[x] = struct{}{}
	}
	return !p.closed
}

// Close implements [protocol.Peer]: it closes all sessions.
func (p *peer) Close() error {
	p.mu.Lock()
	p.closed = true
	open := maps.Clone(p.sessions)
	p.mu.Unlock()
	for x := range open {
		_ = x.Close()
	}
	return nil
}

// send has the server handle a message. There is no response to a notification.
func (p *peer) send(ctx context.Context, m protocol.Message) (*protocol.Response, error) {
	raw, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return nil, err
	}
	answer := p.server.HandleMessage(ctx, raw)
	if answer == nil {
		return nil, nil
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("mcpgo: the result cannot be encoded: %w", err)
	}
	decoded, err := protocol.DecodeMessage(text)
	if err != nil {
		return nil, fmt.Errorf("mcpgo: the response cannot be read: %w", err)
	}
	response, ok := decoded.(*protocol.Response)
	if !ok {
		return nil, fmt.Errorf("mcpgo: the server answered with a %T", decoded)
	}
	return response, nil
}

// A run is one request while the server handles it.
type run struct {
	*session
	caller *hosted.Caller
	back   protocol.BackCaller
	outbox outbox
	asks   json.RawMessage // a result that asks, which the handler has returned
}

type runKey struct{}

func runFrom(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// Handle implements [protocol.LegacySession].
func (x *session) Handle(ctx context.Context, req *protocol.Request, back protocol.Back) (
	*protocol.Response, error) {
	caller, ok := back.(protocol.BackCaller)
	if !ok {
		return nil, errors.New("mcpgo: the way back takes no questions")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(x.life, func() { cancel(protocol.ErrSessionGone) })
	defer stop()
	r := &run{session: x, caller: hosted.CallerFrom(ctx), back: caller}
	r.outbox.back = caller
	ended := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() { ended <- o }()
		roundtrip.ContinueHandler(func() { o = r.handle(ctx, req) })
	}()
	select {
	case o := <-ended:
		return o.response, o.check()
	case <-ctx.Done():
	}
	select {
	case o := <-ended:
		return o.response, o.check()
	case <-time.After(leaveTimeout):
		return nil, fmt.Errorf("mcpgo: the handler goes on after its call: %w",
			context.Cause(ctx))
	}
}

// An outcome is how a request ended.
type outcome struct {
	response *protocol.Response
	err      error
	panicked any
}

// check panics as the handler did, on the goroutine of the call.
func (o outcome) check() error {
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.err
}

func (r *run) handle(ctx context.Context, req *protocol.Request) (o outcome) {
	defer func() { o.panicked = recover() }()
	ctx = context.WithValue(ctx, runKey{}, r)
	o.response, o.err = r.peer.send(r.peer.server.WithContext(ctx, r), req)
	r.outbox.flush()
	switch {
	case o.err == nil && o.response == nil:
		o.err = fmt.Errorf("mcpgo: the server has not answered %s", req.Method)
	case r.asks != nil:
		o.response, o.err = &protocol.Response{ID: req.ID, Result: r.asks}, nil
	case r.life.Err() != nil && o.err != nil:
		o.err = fmt.Errorf("%w: %w", protocol.ErrSessionGone, o.err)
	}
	return o
}
