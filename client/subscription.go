package client

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A ListenEvent is an event of a subscription: [Acknowledged], [ToolsChanged], [PromptsChanged],
// [ResourcesChanged], [ResourceUpdated] or [TaskChanged].
type ListenEvent interface{ isEvent() }

// Acknowledged is the first event of every subscription.
type Acknowledged struct {
	Filter protocol.SubscriptionFilter // honoured part of the request: all reported changes
}

// ToolsChanged means that the result of tools/list has changed.
type ToolsChanged struct{}

// PromptsChanged means that the result of prompts/list has changed.
type PromptsChanged struct{}

// ResourcesChanged means that resources/list or resources/templates/list has changed.
type ResourcesChanged struct{}

// ResourceUpdated means that the contents of a resource changed.
type ResourceUpdated struct {
	URI string // may name a part of a resource in the filter
}

// TaskChanged means that a task of this client has changed.
type TaskChanged struct {
	Task *protocol.Task // current state; its questions are not checked
}

func (TaskChanged) isEvent()      {}
func (Acknowledged) isEvent()     {}
func (ToolsChanged) isEvent()     {}
func (PromptsChanged) isEvent()   {}
func (ResourcesChanged) isEvent() {}
func (ResourceUpdated) isEvent()  {}

// Listen opens a subscription and reports changes to handler, which may be nil, until the server or
// ctx ends it (basic/patterns/subscriptions). Calls of handler do not overlap, and may call the
// client. A panic of handler ends the subscription. Its context ends with the subscription.
//
// Listen returns nil when the server ends the subscription gracefully. Errors are the cause of ctx,
// a [*TransportError] for a lost connection, a [*protocol.Error] for a refusal, a [*ResponseError]
// for a broken rule, a [context.DeadlineExceeded] if there is no acknowledgment within
// [Options.Timeout] (which limits nothing else here), and [ErrClosed]. Listen does not resubscribe,
// because changes in the meantime would be lost. Callers that resubscribe should back off and, once
// acknowledged, reread everything.
func (c *Client) Listen(ctx context.Context, filter protocol.SubscriptionFilter,
	handler func(context.Context, ListenEvent)) error {
	ctx, done := c.beginCall(ctx)
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	filter.ResourceSubscriptions = slices.Clone(filter.ResourceSubscriptions)
	filter.TaskIDs = slices.Clone(filter.TaskIDs)
	sub := &subscription{client: c, wanted: filter, handler: handler, cancel: cancel}
	if limit := c.opts.Timeout; limit > 0 {
		ctx = c.humanClock.Carry(ctx)
		sub.timer = c.humanClock.AfterFunc(limit,
			func() { cancel(timeoutError(protocol.MethodListen, limit)) })
		defer sub.timer.Stop()
	}
	conn, err := c.negotiator.connect(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case conn.isLegacy():
		return c.listenInSession(ctx, conn.session, sub)
	}
	_, err = c.sendNegotiated(ctx, leg{
		method:       protocol.MethodListen,
		params:       &protocol.ListenParams{Notifications: filter},
		subscription: sub,
	}, nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && sub.honouredFilter() == nil:
		err := errors.New("subscription ended without having been acknowledged")
		return &ResponseError{protocol.MethodListen, err}
	}
	return err
}

type subscription struct {
	client  *Client
	wanted  protocol.SubscriptionFilter
	handler func(context.Context, ListenEvent) // may be nil
	cancel  context.CancelCauseFunc
	timer   *waiting.Timer // ends the wait for the acknowledgment; may be nil

	handling sync.Mutex // held while an event is handled, so that handler calls do not overlap
	mu       sync.Mutex
	id       protocol.ID                  // of the request
	honoured *protocol.SubscriptionFilter // nil before the acknowledgment
}

func (s *subscription) startRequest(id protocol.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.honoured = id, nil
}

func (s *subscription) honouredFilter() *protocol.SubscriptionFilter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.honoured
}

type changeParams struct {
	Meta          protocol.Meta                `json:"_meta"`
	Notifications *protocol.SubscriptionFilter `json:"notifications"`
	URI           string                       `json:"uri"`
}

// handleNotification handles a subscription's notification, and returns false for other kinds. It
// drops notifications that lack the subscription id, precede the acknowledgment, or are outside the
// filter. An error ends the subscription.
func (s *subscription) handleNotification(ctx context.Context,
	n *protocol.Notification) (bool, error) {
	switch n.Method {
	case protocol.NotifyAcknowledged, protocol.NotifyToolsChanged, protocol.NotifyPromptsChanged,
		protocol.NotifyResourcesChanged, protocol.NotifyResourceUpdated, protocol.NotifyTask:
	default:
		return false, nil
	}
	s.handling.Lock()
	defer s.handling.Unlock()
	if !s.ownsNotification(n) {
		return true, nil
	}
	event, err := s.readEvent(n)
	if err != nil {
		s.cancel(err)
		return true, err
	}
	if event == nil {
		return true, nil
	}
	return true, s.callHandler(ctx, event)
}

// callHandler calls the handler, if any. A panic ends the subscription with a [*PanicError]; the
// request is cancelled here because the peer need not cancel it.
func (s *subscription) callHandler(ctx context.Context, event ListenEvent) (err error) {
	if s.handler == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = errPrefix.Errorf("subscription: %w", &PanicError{v, debug.Stack()})
			s.cancel(err)
		}
	}()
	s.handler(ctx, event)
	return nil
}

func (s *subscription) ownsNotification(n *protocol.Notification) bool {
	raw, ok := metadataOf(n.Params).Get(protocol.MetaSubscriptionID)
	if !ok {
		return false
	}
	id, err := protocol.ParseID(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && id == s.id
}

func (s *subscription) readEvent(n *protocol.Notification) (ListenEvent, error) {
	var p changeParams
	err := jsonx.Decode(n.Params, &p)
	filter := s.honouredFilter()
	if n.Method == protocol.NotifyAcknowledged {
		if filter != nil {
			return nil, nil
		}
		if err == nil && p.Notifications == nil {
			err = errors.New("notifications: must be present")
		}
		if err != nil {
			return nil, &ResponseError{protocol.MethodListen, fmt.Errorf("acknowledgment: %w", err)}
		}
		return s.acknowledgeFilter(p.Notifications), nil
	}
	event := eventOf(n)
	if filter == nil || err != nil || event == nil || !filterMatches(filter, event) {
		return nil, nil
	}
	return event, nil
}

// eventOf returns a notification's event, nil for the acknowledgment and other notifications.
func eventOf(n *protocol.Notification) ListenEvent {
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
	case protocol.NotifyTask:
		if task, err := protocol.DecodeTask(n.Params); err == nil {
			return TaskChanged{task}
		}
	}
	return nil
}

// filterMatches reports whether a filter includes an event. Every ResourceUpdated matches a filter
// with URIs: the event may name a part of a resource, and only the server knows which resource.
func filterMatches(f *protocol.SubscriptionFilter, event ListenEvent) bool {
	switch event := event.(type) {
	case ToolsChanged:
		return f.ToolsListChanged
	case PromptsChanged:
		return f.PromptsListChanged
	case ResourcesChanged:
		return f.ResourcesListChanged
	case ResourceUpdated:
		return len(f.ResourceSubscriptions) > 0
	case TaskChanged:
		return slices.Contains(f.TaskIDs, event.Task.ID)
	}
	return false
}

func (s *subscription) acknowledgeFilter(said *protocol.SubscriptionFilter) ListenEvent {
	if s.timer != nil {
		s.timer.Stop()
	}
	honoured := protocol.SubscriptionFilter{
		ToolsListChanged:     s.wanted.ToolsListChanged && said.ToolsListChanged,
		PromptsListChanged:   s.wanted.PromptsListChanged && said.PromptsListChanged,
		ResourcesListChanged: s.wanted.ResourcesListChanged && said.ResourcesListChanged,

		ResourceSubscriptions: intersect(s.wanted.ResourceSubscriptions, said.ResourceSubscriptions),
		TaskIDs:               intersect(s.wanted.TaskIDs, said.TaskIDs),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.honoured = &honoured
	copied := honoured
	copied.ResourceSubscriptions = slices.Clone(honoured.ResourceSubscriptions)
	copied.TaskIDs = slices.Clone(honoured.TaskIDs)
	return Acknowledged{copied}
}

func intersect(wanted, said []string) (both []string) {
	has := make(map[string]bool, len(said))
	for _, s := range said {
		has[s] = true
	}
	for _, w := range wanted {
		if has[w] {
			both = append(both, w)
		}
	}
	return both
}
