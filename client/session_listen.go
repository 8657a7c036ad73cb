package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

const unsubscribeLimit = 5 * time.Second // the outcome does not matter

// subscribers passes changes, which legacy servers announce once per session, to all Listen calls.
type subscribers struct {
	session *session

	mu        sync.Mutex
	list      []*subscriber
	uriCounts map[string]int // number of listeners per resource
}

type subscriber struct {
	honoured   protocol.SubscriptionFilter
	events     chan ListenEvent
	overflowed chan struct{} // closed when events is full
}

// listenInSession does the work of Listen in a session (server/resources of revision 2025-11-25).
func (c *Client) listenInSession(ctx context.Context, s *session, sub *subscription) error {
	me := &subscriber{
		events: make(chan ListenEvent, maxQueuedNotifications), overflowed: make(chan struct{}),
	}
	me.honoured = s.limitFilter(sub.wanted)
	uris := me.honoured.ResourceSubscriptions
	me.honoured.ResourceSubscriptions = nil
	b := &s.subscribers
	b.locked(func() { b.list = append(b.list, me) })
	defer b.locked(func() {
		b.list = slices.DeleteFunc(b.list, func(other *subscriber) bool { return other == me })
	})
	for _, uri := range uris {
		err := b.subscribeURI(ctx, uri)
		if err == nil {
			defer b.unsubscribeURI(context.WithoutCancel(ctx), uri)
			b.locked(func() {
				me.honoured.ResourceSubscriptions = append(me.honoured.ResourceSubscriptions, uri)
			})
		} else if _, refused := protocol.AsError(err); !refused {
			return preferClosed(ctx, err)
		}
	}
	honoured := me.honoured // only this function changes it
	honoured.ResourceSubscriptions = slices.Clone(honoured.ResourceSubscriptions)
	sub.acknowledgeFilter(&honoured)
	if err := sub.callHandler(ctx, Acknowledged{honoured}); err != nil {
		return err
	}
	for ctx.Err() == nil {
		select {
		case event := <-me.events:
			if err := sub.callHandler(ctx, event); err != nil {
				return err
			}
		case <-me.overflowed:
			return &TransportError{protocol.MethodListen, errOverrun}
		case <-ctx.Done():
		case <-s.peer.Done():
			return preferClosed(ctx, &TransportError{protocol.MethodListen, s.peer.Err()})
		}
	}
	return context.Cause(ctx)
}

// limitFilter returns the part of wanted that the server supports, without repeated URIs.
func (s *session) limitFilter(wanted protocol.SubscriptionFilter) (f protocol.SubscriptionFilter) {
	has := s.agreed.Load().Capabilities
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

func (b *subscribers) locked(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// subscribeURI subscribes to a resource and counts the listener. It sends a request for every
// listener, because an earlier subscription may have ended.
func (b *subscribers) subscribeURI(ctx context.Context, uri string) error {
	b.locked(func() { b.uriCounts[uri]++ })
	_, err := b.session.sendLeg(ctx, leg{method: protocol.MethodSubscribe,
		params: &protocol.SubscribeParams{URI: uri}}, nil)
	if err != nil {
		b.releaseURI(uri)
	}
	return err
}

func (b *subscribers) releaseURI(uri string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.uriCounts[uri]--; b.uriCounts[uri] > 0 {
		return false
	}
	delete(b.uriCounts, uri)
	return true
}

// unsubscribeURI removes a listener, and unsubscribes after the last. Failure does no harm.
func (b *subscribers) unsubscribeURI(ctx context.Context, uri string) {
	if !b.releaseURI(uri) || b.session.client.life.Err() != nil || b.session.peer.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, unsubscribeLimit)
	defer cancel()
	_, _ = b.session.sendLeg(ctx, leg{method: protocol.MethodUnsubscribe,
		params: &protocol.SubscribeParams{URI: uri}}, nil)
}

// publishNotification queues an event for interested listeners, and reports whether there are any.
// It never blocks: a listener whose queue is full ends with errOverrun.
func (b *subscribers) publishNotification(n *protocol.Notification) bool {
	event := eventOf(n)
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
