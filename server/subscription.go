package server

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// DefaultMaxSubscriptions is how many subscriptions may be open at once.
	// Each holds a goroutine and, over HTTP, a connection.
	DefaultMaxSubscriptions = 10_000
	// MaxSubscribedResources is how many resources one subscription may name.
	// What does not fit is left out of the acknowledgment.
	MaxSubscribedResources = 1000
)

// hub tells open subscriptions what changed.
type hub struct {
	mu          sync.Mutex
	max         int
	subscribers map[*subscriber]struct{}
	closing     bool
	closed      chan struct{} // closed when no subscription may go on
}

func newHub(max int) *hub {
	return &hub{max: max, subscribers: map[*subscriber]struct{}{}, closed: make(chan struct{})}
}

// A subscriber is one open subscription. What changed is kept as a set, so a
// client that reads slowly costs no more than one that reads fast: it learns
// that a list changed, once, however often that was.
type subscriber struct {
	filter protocol.SubscriptionFilter // what was acknowledged
	wake   chan struct{}               // holds one

	mu      sync.Mutex
	lists   map[string]bool // notifications that are due
	updated map[string]bool // URIs of resources that are due
}

func (h *hub) add(filter protocol.SubscriptionFilter) (*subscriber, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return nil, protocol.Errorf(protocol.CodeBusy, "server is closing")
	}
	if len(h.subscribers) >= h.max {
		return nil, protocol.Errorf(protocol.CodeBusy, "too many subscriptions are open")
	}
	sub := &subscriber{filter: filter, wake: make(chan struct{}, 1), lists: map[string]bool{}, updated: map[string]bool{}}
	h.subscribers[sub] = struct{}{}
	return sub, nil
}

func (h *hub) remove(sub *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subscribers, sub)
}

// close ends every subscription, in good order.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closing {
		h.closing = true
		close(h.closed)
	}
}

func (h *hub) each(f func(*subscriber)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subscribers {
		f(sub)
	}
}

// listChanged notes that the list behind method changed.
func (h *hub) listChanged(method string) {
	h.each(func(sub *subscriber) {
		switch {
		case method == protocol.MethodListTools && sub.filter.ToolsListChanged:
			sub.due(sub.lists, protocol.NotifyToolsChanged)
		case method == protocol.MethodListPrompts && sub.filter.PromptsListChanged:
			sub.due(sub.lists, protocol.NotifyPromptsChanged)
		case method != protocol.MethodListTools && method != protocol.MethodListPrompts && sub.filter.ResourcesListChanged:
			sub.due(sub.lists, protocol.NotifyResourcesChanged)
		}
	})
}

func (h *hub) resourceUpdated(uri string) {
	h.each(func(sub *subscriber) {
		if slices.Contains(sub.filter.ResourceSubscriptions, uri) {
			sub.due(sub.updated, uri)
		}
	})
}

// due adds to one of the sets and wakes the subscription.
func (s *subscriber) due(set map[string]bool, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set[what] = true
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take empties the sets.
func (s *subscriber) take() (lists, updated []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists, updated = slices.Sorted(maps.Keys(s.lists)), slices.Sorted(maps.Keys(s.updated))
	clear(s.lists)
	clear(s.updated)
	return lists, updated
}

// ResourceUpdated tells the clients that subscribed to the resource at uri that
// its contents changed (basic/patterns/subscriptions). Changes of the lists
// are announced by themselves when something is added or removed.
func (s *Server) ResourceUpdated(uri string) { s.hub.resourceUpdated(uri) }

// listen answers subscriptions/listen: it acknowledges, then sends what changes
// until the client or the server ends it.
func (s *Server) listen(ctx context.Context, in *Incoming, p *protocol.ListenParams) (protocol.Result, error) {
	if in.Back == nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "subscriptions/listen needs a way to send notifications")
	}
	filter := s.honoured(p.Notifications)
	sub, err := s.hub.add(filter)
	if err != nil {
		return nil, err
	}
	defer s.hub.remove(sub)
	meta, err := protocol.Meta(nil).With(protocol.MetaSubscriptionID, in.Request.ID)
	if err != nil {
		return nil, err
	}
	notify := func(method string, params subscriptionParams) error {
		params.Meta = meta
		raw, err := jsonx.Encode(params)
		if err != nil {
			return err
		}
		return in.Back.Notify(ctx, &protocol.Notification{Method: method, Params: json.RawMessage(raw)})
	}
	if err := notify(protocol.NotifyAcknowledged, subscriptionParams{Notifications: &filter}); err != nil {
		return nil, gone(err)
	}
	for {
		select {
		case <-s.hub.closed:
			return &protocol.ListenResult{Meta: meta}, nil
		case <-ctx.Done():
			return s.listenEnded(ctx, meta)
		case <-sub.wake:
		}
		lists, updated := sub.take()
		for _, method := range lists {
			if err := notify(method, subscriptionParams{}); err != nil {
				return nil, gone(err)
			}
		}
		for _, uri := range updated {
			if err := notify(protocol.NotifyResourceUpdated, subscriptionParams{URI: uri}); err != nil {
				return nil, gone(err)
			}
		}
	}
}

// listenEnded tells a server that closes, which ends a subscription in good
// order, from a client that left.
func (s *Server) listenEnded(ctx context.Context, meta protocol.Meta) (protocol.Result, error) {
	if context.Cause(ctx) == ErrClosed {
		return &protocol.ListenResult{Meta: meta}, nil
	}
	return nil, gone(context.Cause(ctx))
}

// gone is the outcome of a request whose client can no longer be reached. It
// reaches nobody but middleware.
func gone(err error) error {
	return protocol.Errorf(protocol.CodeInternalError, "subscription ended: %v", err)
}

// subscriptionParams are the parameters of what a subscription sends.
type subscriptionParams struct {
	Meta          protocol.Meta                `json:"_meta"`
	Notifications *protocol.SubscriptionFilter `json:"notifications,omitzero"`
	URI           string                       `json:"uri,omitzero"`
}

// honoured returns what of a filter the server can serve: lists and resources
// that it offers.
func (s *Server) honoured(wanted protocol.SubscriptionFilter) protocol.SubscriptionFilter {
	c := s.capabilities()
	honoured := protocol.SubscriptionFilter{
		ToolsListChanged:     wanted.ToolsListChanged && c.Tools != nil && c.Tools.ListChanged,
		PromptsListChanged:   wanted.PromptsListChanged && c.Prompts != nil && c.Prompts.ListChanged,
		ResourcesListChanged: wanted.ResourcesListChanged && c.Resources != nil && c.Resources.ListChanged,
	}
	if c.Resources == nil || !c.Resources.Subscribe {
		return honoured
	}
	for _, uri := range wanted.ResourceSubscriptions {
		if len(honoured.ResourceSubscriptions) == MaxSubscribedResources {
			break
		}
		if !slices.Contains(honoured.ResourceSubscriptions, uri) {
			honoured.ResourceSubscriptions = append(honoured.ResourceSubscriptions, uri)
		}
	}
	return honoured
}
