package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// unsubscribeLimit is the time limit of resources/unsubscribe, whose outcome
// the caller of Listen does not need.
const unsubscribeLimit = 5 * time.Second

// subscribers are the calls of Listen in a session. Legacy servers announce
// changes of lists to every client and changes of resources once a session, so
// the client distributes them to its listeners.
type subscribers struct {
	session *session

	mu        sync.Mutex
	list      []*subscriber
	uriCounts map[string]int // number of listeners by resource
}

// A subscriber is one call of Listen.
type subscriber struct {
	honoured   protocol.SubscriptionFilter
	events     chan ListenEvent
	overflowed chan struct{} // closed when an event found no room in events
}

// listenInSession is Listen in a session (server/resources of revision
// 2025-11-25, "Subscriptions").
func (c *Client) listenInSession(ctx context.Context, s *session, sub *subscription) error {
	me := &subscriber{
		events: make(chan ListenEvent, maxQueuedNotifications), overflowed: make(chan struct{}),
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
			return &TransportError{protocol.MethodListen, errOverrun}
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

// limitFilter returns the part of a filter that the server has declared,
// without repeated URIs.
func (s *session) limitFilter(wanted protocol.SubscriptionFilter) (f protocol.SubscriptionFilter) {
	has := s.agreed.Capabilities
	f.ToolsListChanged = wanted.ToolsListChanged && has.Tools != nil && has.Tools.ListChanged
	f.PromptsListChanged = wanted.PromptsListChanged && has.Prompts != nil &&
		has.Prompts.ListChanged
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

// subscribeURI subscribes to a resource and counts the listener. It sends the
// request for every listener: a second subscription does no harm, and an
// earlier one may no longer hold.
func (b *subscribers) subscribeURI(ctx context.Context, uri string) error {
	b.mu.Lock()
	if b.uriCounts == nil {
		b.uriCounts = map[string]int{}
	}
	b.uriCounts[uri]++
	b.mu.Unlock()
	_, err := b.session.sendRequest(ctx, protocol.MethodSubscribe,
		&protocol.SubscribeParams{URI: uri})
	if err != nil {
		b.releaseURI(uri)
	}
	return err
}

// releaseURI removes one listener of a resource and reports whether it was the
// last.
func (b *subscribers) releaseURI(uri string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.uriCounts[uri]--; b.uriCounts[uri] > 0 {
		return false
	}
	delete(b.uriCounts, uri)
	return true
}

// unsubscribeURI removes one listener of a resource. If it was the last and the
// session still runs, it tells the server. Failure does no harm: further
// updates are ignored.
func (b *subscribers) unsubscribeURI(ctx context.Context, uri string) {
	if !b.releaseURI(uri) || b.session.client.life.Err() != nil || b.session.peer.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, unsubscribeLimit)
	defer cancel()
	_, _ = b.session.sendRequest(ctx, protocol.MethodUnsubscribe,
		&protocol.SubscribeParams{URI: uri})
}

// publishNotification queues an event for all listeners that want it. It
// reports false when none does. It does not block: a listener without room ends
// with errOverrun.
func (b *subscribers) publishNotification(n *protocol.Notification) bool {
	event := legacyEvent(n)
	if event == nil {
		return false
	}
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
func legacyEvent(n *protocol.Notification) ListenEvent {
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

// filterMatches reports whether a filter includes an event. An updated resource
// may be a part of one that was subscribed to, and only the server knows which,
// so every ResourceUpdated matches if the filter has any URI.
func filterMatches(f *protocol.SubscriptionFilter, event ListenEvent) bool {
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
