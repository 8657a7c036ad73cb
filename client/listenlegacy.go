package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// unsubscribeLimit is how long a server may take to hear that nobody listens any
// more.
const unsubscribeLimit = 5 * time.Second

// subscribers are those who listen in a session. Legacy revisions announce
// changes of lists to everybody and changes of resources to a session, so it is
// here that they are told apart.
type subscribers struct {
	session *session

	mu   sync.Mutex
	list []*subscriber
	uris map[string]int // how many listen to each
}

// A subscriber is one call of Listen.
type subscriber struct {
	honoured protocol.SubscriptionFilter
	events   chan Event
	overrun  chan struct{} // closed when events had no room
}

// listenLegacy is Listen in a session (server/resources of revision 2025-11-25,
// "Subscriptions").
func (c *Client) listenLegacy(ctx context.Context, s *session, sub *subscription) error {
	me := &subscriber{events: make(chan Event, maxQueued), overrun: make(chan struct{})}
	me.honoured = s.offered(sub.wanted)
	uris := me.honoured.ResourceSubscriptions
	me.honoured.ResourceSubscriptions = nil
	s.subs.add(me)
	defer s.subs.remove(me)
	for _, uri := range uris {
		switch err := s.subs.subscribe(ctx, uri); {
		case err == nil:
			defer s.subs.unsubscribe(context.WithoutCancel(ctx), uri)
			s.subs.honour(me, uri)
		case !isSaid(err):
			return endedBy(ctx, err)
		}
	}
	honoured := s.subs.filter(me)
	sub.acknowledge(&honoured)
	if err := sub.report(ctx, Acknowledged{honoured}); err != nil {
		return err
	}
	for {
		select {
		case event := <-me.events:
			if err := sub.report(ctx, event); err != nil {
				return err
			}
		case <-me.overrun:
			return &TransportError{protocol.MethodListen, ErrOverrun}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.peer.Done():
			return endedBy(ctx, &TransportError{protocol.MethodListen, s.peer.Err()})
		}
	}
}

func isSaid(err error) bool {
	_, said := protocol.AsError(err)
	return said
}

// report drops what the cache holds of an event and hands it to the handler.
func (s *subscription) report(ctx context.Context, event Event) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.client.forget(event)
	if s.handler == nil {
		return nil
	}
	return s.handle(ctx, event)
}

// offered returns the part of a filter that the server has declared.
func (s *session) offered(wanted protocol.SubscriptionFilter) (f protocol.SubscriptionFilter) {
	has := s.agreed.Capabilities
	f.ToolsListChanged = wanted.ToolsListChanged && has.Tools != nil && has.Tools.ListChanged
	f.PromptsListChanged = wanted.PromptsListChanged && has.Prompts != nil && has.Prompts.ListChanged
	f.ResourcesListChanged = wanted.ResourcesListChanged && has.Resources != nil && has.Resources.ListChanged
	if has.Resources != nil && has.Resources.Subscribe {
		for _, uri := range wanted.ResourceSubscriptions {
			if !slices.Contains(f.ResourceSubscriptions, uri) {
				f.ResourceSubscriptions = append(f.ResourceSubscriptions, uri)
			}
		}
	}
	return f
}

func (b *subscribers) add(me *subscriber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, me)
}

func (b *subscribers) remove(me *subscriber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = slices.DeleteFunc(b.list, func(other *subscriber) bool { return other == me })
}

func (b *subscribers) honour(me *subscriber, uri string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	me.honoured.ResourceSubscriptions = append(me.honoured.ResourceSubscriptions, uri)
}

func (b *subscribers) filter(me *subscriber) protocol.SubscriptionFilter {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := me.honoured
	f.ResourceSubscriptions = slices.Clone(f.ResourceSubscriptions)
	return f
}

// subscribe subscribes to a resource. It asks the server each time: to subscribe
// twice does no harm, and what another listener was told may be out of date.
func (b *subscribers) subscribe(ctx context.Context, uri string) error {
	b.mu.Lock()
	if b.uris == nil {
		b.uris = map[string]int{}
	}
	b.uris[uri]++
	b.mu.Unlock()
	_, err := b.session.request(ctx, protocol.MethodSubscribe, &protocol.SubscribeParams{URI: uri})
	if err != nil {
		b.drop(uri)
	}
	return err
}

// drop reports whether nobody listens to a resource any more.
func (b *subscribers) drop(uri string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.uris[uri]--; b.uris[uri] > 0 {
		return false
	}
	delete(b.uris, uri)
	return true
}

// unsubscribe tells the server, if it was the last who listened and the session
// goes on. That it may fail does no harm.
func (b *subscribers) unsubscribe(ctx context.Context, uri string) {
	if !b.drop(uri) || b.session.client.life.Err() != nil || b.session.peer.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, unsubscribeLimit)
	defer cancel()
	_, _ = b.session.request(ctx, protocol.MethodUnsubscribe, &protocol.SubscribeParams{URI: uri})
}

// publish hands an announcement to all who listen for it. It reports false when
// nobody does. The cache is cleared all the same.
func (b *subscribers) publish(n *protocol.Notification) bool {
	event := legacyEvent(n)
	if event == nil {
		return false
	}
	b.session.client.forget(event)
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := false
	for _, me := range b.list {
		if !wants(&me.honoured, event) {
			continue
		}
		taken = true
		select {
		case me.events <- event:
		default:
			select {
			case <-me.overrun:
			default:
				close(me.overrun)
			}
		}
	}
	return taken
}

// legacyEvent returns the event that a notification stands for, nil for none.
func legacyEvent(n *protocol.Notification) Event {
	switch n.Method {
	case protocol.NotifyToolsChanged:
		return ToolsChanged{}
	case protocol.NotifyPromptsChanged:
		return PromptsChanged{}
	case protocol.NotifyResourcesChanged:
		return ResourcesChanged{}
	case protocol.NotifyResourceUpdated:
		var p changeParams
		if err := jsonx.Decode(n.Params, &p); err == nil && p.URI != "" {
			return ResourceUpdated{p.URI}
		}
	}
	return nil
}

// wants reports whether a filter lets an event through. A changed resource may
// be a part of one that was subscribed to; which, the server knows.
func wants(f *protocol.SubscriptionFilter, event Event) bool {
	switch event.(type) {
	case ToolsChanged:
		return f.ToolsListChanged
	case PromptsChanged:
		return f.PromptsListChanged
	case ResourcesChanged:
		return f.ResourcesListChanged
	case ResourceUpdated:
		return len(f.ResourceSubscriptions) > 0
	}
	return false
}
