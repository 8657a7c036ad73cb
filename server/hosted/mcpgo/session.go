package mcpgo

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// A session is one that mcp-go has registered. Requests see a [run] in its place, which is the
// same but that what is sent to it belongs to the request.
type session struct {
	*server.InProcessSession
	peer   *peer
	back   protocol.BackCaller
	life   context.Context
	end    context.CancelFunc
	outbox outbox // of what belongs to no request

	mu        sync.Mutex
	tools     map[string]server.ServerTool
	resources map[string]server.ServerResource
	templates map[string]server.ServerResourceTemplate
	uris      map[string]bool
}

func newSession(p *peer, caller *hosted.Caller, back protocol.BackCaller) *session {
	id := p.server.GenerateInProcessSessionID()
	if caller != nil && caller.SessionID != "" {
		id = caller.SessionID
	}
	x := &session{peer: p, back: back, uris: map[string]bool{},
		InProcessSession: server.NewInProcessSession(id, nil)}
	x.life, x.end = context.WithCancel(context.Background())
	x.outbox.back = back
	return x
}

var (
	_ server.SessionWithTools                 = (*run)(nil)
	_ server.SessionWithResources             = (*run)(nil)
	_ server.SessionWithResourceTemplates     = (*run)(nil)
	_ server.SessionWithResourceSubscriptions = (*run)(nil)
	_ server.SessionWithLogging               = (*run)(nil)
	_ server.SessionWithClientInfo            = (*run)(nil)
	_ server.SessionWithElicitation           = (*run)(nil)
	_ server.SessionWithSampling              = (*run)(nil)
	_ server.SessionWithRoots                 = (*run)(nil)
)

// Notify implements [protocol.LegacySession].
func (x *session) Notify(ctx context.Context, n *protocol.Notification) error {
	_, err := x.peer.send(x.peer.server.WithContext(ctx, x), n)
	return err
}

// Close implements [protocol.LegacySession].
func (x *session) Close() error {
	if x.life.Err() == nil {
		x.end()
		x.peer.server.UnregisterSession(context.Background(), x.SessionID())
		x.peer.mu.Lock()
		defer x.peer.mu.Unlock()
		delete(x.peer.sessions, x)
		x.outbox.flush()
	}
	return nil
}

// Done implements [protocol.LegacySession].
func (x *session) Done() <-chan struct{} { return x.life.Done() }

// Err implements [protocol.LegacySession].
func (x *session) Err() error {
	if x.life.Err() != nil {
		return protocol.ErrSessionGone
	}
	return nil
}

// GetLogLevel implements [server.SessionWithLogging]: rondo's server drops what the client does
// not want.
func (x *session) GetLogLevel() mcp.LoggingLevel { return mcp.LoggingLevelDebug }

// NotificationChannel implements [server.ClientSession].
func (x *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return x.outbox.open() }

// NotificationChannel implements [server.ClientSession] for what a handler sends.
func (r *run) NotificationChannel() chan<- mcp.JSONRPCNotification { return r.outbox.open() }

func (x *session) GetSessionTools() map[string]server.ServerTool {
	return readMap(x, &x.tools)
}
func (x *session) SetSessionTools(tools map[string]server.ServerTool) {
	writeMap(x, &x.tools, tools)
}
func (x *session) GetSessionResources() map[string]server.ServerResource {
	return readMap(x, &x.resources)
}
func (x *session) SetSessionResources(resources map[string]server.ServerResource) {
	writeMap(x, &x.resources, resources)
}
func (x *session) GetSessionResourceTemplates() map[string]server.ServerResourceTemplate {
	return readMap(x, &x.templates)
}
func (x *session) SetSessionResourceTemplates(templates map[string]server.ServerResourceTemplate) {
	writeMap(x, &x.templates, templates)
}

func readMap[V any](x *session, m *map[string]V) map[string]V {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(*m)
}

func writeMap[V any](x *session, m *map[string]V, to map[string]V) {
	x.mu.Lock()
	defer x.mu.Unlock()
	*m = maps.Clone(to)
}

func (x *session) SubscribeToResource(uri string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.uris[uri] = true
}

func (x *session) UnsubscribeFromResource(uri string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.uris, uri)
}

func (x *session) SubscribedResources() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Keys(x.uris))
}

func (x *session) IsSubscribedToResource(uri string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.uris[uri]
}

// outboxRoom is how many notifications wait in an outbox, beyond which mcp-go drops them.
const outboxRoom = 1024

// An outbox passes on notifications, in order. Its goroutine runs from the first one on.
type outbox struct {
	back protocol.BackCaller

	mu      sync.Mutex
	queue   chan mcp.JSONRPCNotification
	ending  chan struct{}
	drained chan struct{}
	flushed bool
}

// open returns the channel for notifications. What is sent after flush is lost.
func (o *outbox) open() chan<- mcp.JSONRPCNotification {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queue == nil {
		o.queue = make(chan mcp.JSONRPCNotification, outboxRoom)
		if !o.flushed {
			o.ending, o.drained = make(chan struct{}), make(chan struct{})
			go o.passOn()
		}
	}
	return o.queue
}

func (o *outbox) passOn() {
	defer close(o.drained)
	for {
		select {
		case n := <-o.queue:
			o.send(n)
		case <-o.ending:
			for len(o.queue) > 0 {
				o.send(<-o.queue)
			}
			return
		}
	}
}

func (o *outbox) send(n mcp.JSONRPCNotification) {
	params, err := json.Marshal(n.Params)
	if err == nil { // else nobody could read it
		_ = o.back.Notify(context.Background(),
			&protocol.Notification{Method: n.Method, Params: params})
	}
}

// flush passes on what has been sent, and ends the goroutine.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.flushed = true; o.ending != nil {
		close(o.ending)
		<-o.drained
		o.ending = nil
	}
}
