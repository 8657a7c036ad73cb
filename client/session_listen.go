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

	mu        sync.Mutex
	list      []*subscriber
	uriCounts map[string]int // how many listen to each
}

// A subscriber is one call of Listen.
type subscriber struct {
	honoured   protocol.SubscriptionFilter
	events     chan Event
	overflowed chan struct{} // closed when events had no room
}

// listenLegacy is Listen in a session (server/resources of revision 2025-11-25,
// "Subscriptions").
func (c *Client) listenInSession(ctx context.Context, s *session, sub *subscription) error {
	me := &subscriber{
		events: make(chan Event, maxQueuedNotifications), overflowed: make(chan struct{}),
	}
	me.honoured = s.limitFilter(sub.wanted)
	uris := me.honoured.ResourceSubscriptions
	me.honoured.ResourceSubscriptions = nil
	s.subscribers.addSubscriber(me)
	defer s.subscribers.removeSubscriber(me)
	for _, uri := range uris {
		switch err := s.subscribers.subscribeURI(ctx, uri); {
		case err == nil:
			defer s.subscribers.unsubscribeURI(context.WithoutCancel(ctx), uri)
			s.subscribers.addHonouredURI(me, uri)
		case !isServerError(err):
			return preferClosed(ctx, err)
		}
	}
	honoured := s.subscribers.honouredFilter(me)
	sub.acknowledgeFilter(&honoured)
	if err := sub.reportEvent(ctx, Acknowledged{honoured}); err != nil {
		return err
	}
	for {
		select {
		case event := <-me.events:
			if err := sub.reportEvent(ctx, event); err != nil {
				return err
			}
		case <-me.overflowed:
			return &TransportError{protocol.MethodListen, ErrOverrun}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.peer.Done():
			return preferClosed(ctx, &TransportError{protocol.MethodListen, s.peer.Err()})
		}
	}
}

func isServerError(err error) bool {
	_, said := protocol.AsError(err)
	return said
}

// offered returns the part of a filter that the server has declared.
func (s *session) limitFilter(wanted protocol.SubscriptionFilter) (f protocol.SubscriptionFilter) {
	has := s.agreed.Capabilities
	f.ToolsListChanged = wanted.ToolsListChanged && has.Tools != nil && has.Tools.ListChanged
	f.PromptsListChanged = wanted.PromptsListChanged && has.Prompts != nil && has.Prompts.ListChanged
	f.ResourcesListChanged = wanted.ResourcesListChanged && has.Resources != nil &&
		has.Resources.ListChanged
	if has.Resources != nil && has.Resources.Subscribe {
		for _, uri := range wanted.ResourceSubscriptions {
			if !slices.Contains(f.ResourceSubscriptions, uri) {
				f.ResourceSubscriptions = append(f.ResourceSubscriptions, uri)
			}
		}
	}
	return f
}

func (b *subscribers) addSubscriber(me *subscriber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, me)
}

func (b *subscribers) removeSubscriber(me *subscriber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = slices.DeleteFunc(b.list, func(other *subscriber) bool { return other == me })
}

func (b *subscribers) addHonouredURI(me *subscriber, uri string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	me.honoured.ResourceSubscriptions = append(me.honoured.ResourceSubscriptions, uri)
}

func (b *subscribers) honouredFilter(me *subscriber) protocol.SubscriptionFilter {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := me.honoured
	f.ResourceSubscriptions = slices.Clone(f.ResourceSubscriptions)
	return f
}

// subscribe subscribes to a resource. It asks the server each time: to subscribe
// twice does no harm, and what another listener was told may be out of date.
func (b *subscribers) subscribeURI(ctx context.Context, uri string) error {
	b.mu.Lock()
	if b.uriCounts == nil {
		b.uriCounts = map[string]int{}
	}
	b.uriCounts[uri]++
	b.mu.Unlock()
	_, err := b.session.sendRequest(ctx, protocol.MethodSubscribe, &protocol.SubscribeParams{URI: uri})
	if err != nil {
		b.releaseURI(uri)
	}
	return err
}

// drop reports whether nobody listens to a resource any more.
func (b *subscribers) releaseURI(uri string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.uriCounts[uri]--; b.uriCounts[uri] > 0 {
		return false
	}
	delete(b.uriCounts, uri)
	return true
}

// unsubscribe tells the server, if it was the last who listened and the session
// goes on. That it may fail does no harm.
func (b *subscribers) unsubscribeURI(ctx context.Context, uri string) {
	if !b.releaseURI(uri) || b.session.client.life.Err() != nil || b.session.peer.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, unsubscribeLimit)
	defer cancel()
	_, _ = b.session.sendRequest(ctx, protocol.MethodUnsubscribe, &protocol.SubscribeParams{URI: uri})
}

// publish hands an announcement to all who listen for it. It reports false when
// nobody does. The cache is cleared all the same.
func (b *subscribers) publishNotification(n *protocol.Notification) bool {
	event := legacyEvent(n)
	if event == nil {
		return false
	}
	b.session.client.cache.forgetChanged(event)
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := false
	for _, me := range b.list {
		if !filterMatches(&me.honoured, event) {
			continue
		}
		taken = true
		select {
		case me.events <- event:
		default:
			select {
			case <-me.overflowed:
			default:
				close(me.overflowed)
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
func filterMatches(f *protocol.SubscriptionFilter, event Event) bool {
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
