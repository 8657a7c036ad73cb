package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const (
	defaultMaxSubscriptions = 10_000 // each holds a goroutine and, over HTTP, a connection
	maxSubscribedResources  = 1000   // of one subscription; the acknowledgment leaves out the rest
	// maxListenBytes limits the kept parameters of a subscription. Usual URIs of all resources fit.
	maxListenBytes    = 256 << 10
	subscriptionRetry = 30 * time.Second // long, because subscriptions last for hours
)

// A hub notifies open subscriptions of changes.
type hub struct {
	listening *quota.Pool[protocol.Principal] // subscribers other than sessions

	mu          sync.Mutex
	subscribers map[*subscriber]struct{}
	closing     bool
	closed      chan struct{} // closed when no subscription may go on

	watched map[string]*watching // by URI
	watches sync.WaitGroup       // watches that have not stopped
	life    context.Context      // context of all watches
	endLife context.CancelFunc
}

func newHub(max int) *hub {
	listening := quota.New(quota.Options[protocol.Principal]{
		Total: int64(max), Share: quota.ShareOf(int64(max)), Local: protocol.LocalPrincipal(),
	})
	h := &hub{listening: listening, subscribers: map[*subscriber]struct{}{},
		closed: make(chan struct{}), watched: map[string]*watching{}}
	h.life, h.endLife = context.WithCancel(context.Background())
	return h
}

// A subscriber is a subscription or a session. Pending changes are sets, so that a slow client
// costs no more than a fast one: it learns once that a list changed.
type subscriber struct {
	principal protocol.Principal
	filter    protocol.SubscriptionFilter // the acknowledged filter
	resources map[string]*Access          // by URI, with the access of the subscribing request
	catalogs  []*Catalog                  // catalogs besides the server's own
	wake      chan struct{}               // has room for one; nil for sessions
	changed   func()                      // of sessions: called when something is due
	held      map[string]*watching        // by URI; may be nil

	mu      sync.Mutex
	lists   map[string]bool // notifications that are due
	updated map[string]bool // URIs of resources that are due
}

// openSubscription opens a subscription, or returns the limit that it would exceed.
func (s *Server) openSubscription(
	request *Request, filter protocol.SubscriptionFilter,
) (*subscriber, quota.Limit, error) {
	h, p := s.hub, request.Principal
	watchable := s.listWatchable(request, filter.ResourceSubscriptions...)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return nil, quota.None, waiting.RefuseClosing()
	}
	if limit := h.listening.Take(p, 1); limit != quota.None {
		return nil, limit, quota.Refuse(limit, subscriptionRetry,
			"too many subscriptions are open; try again in %s", subscriptionRetry)
	}
	sub := newSubscriber(filter, request.Access)
	sub.principal, sub.wake = p, make(chan struct{}, 1)
	sub.catalogs = request.Catalogs
	h.subscribers[sub] = struct{}{}
	sub.noteSubscribedLocked()
	for _, uri := range watchable {
		s.holdLocked(sub, uri)
	}
	return sub, quota.None, nil
}

func newSubscriber(filter protocol.SubscriptionFilter, access *Access) *subscriber {
	sub := &subscriber{filter: filter, lists: map[string]bool{}, updated: map[string]bool{}}
	sub.resources = make(map[string]*Access, len(filter.ResourceSubscriptions))
	for _, uri := range filter.ResourceSubscriptions {
		sub.resources[uri] = access
	}
	return sub
}

// joinSession subscribes a session, which holds nothing open and is limited by its transport.
func (h *hub) joinSession(sub *subscriber, filter protocol.SubscriptionFilter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sub.filter = filter
	h.subscribers[sub] = struct{}{}
}

func (h *hub) removeSubscriber(sub *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.subscribers[sub]; ok && sub.wake != nil {
		h.listening.Give(sub.principal, 1)
	}
	delete(h.subscribers, sub)
	sub.noteSubscribedLocked()
	for uri := range sub.held {
		h.dropLocked(sub, uri)
	}
}

// followCatalogs makes a session follow the catalogs of its latest request, with notifications.
func (h *hub) followCatalogs(sub *subscriber, catalogs []*Catalog) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if catalogs == nil || slices.Equal(catalogs, sub.catalogs) {
		return
	}
	before := sub.catalogs
	sub.noteSubscribedLocked()
	sub.catalogs = catalogs
	sub.noteSubscribedLocked()
	if before == nil {
		return
	}
	for _, method := range [...]string{protocol.MethodListTools, protocol.MethodListPrompts,
		protocol.MethodListResources} {
		sub.markListDue(method)
	}
}

// noteSubscribedLocked tells the catalogs that the subscription has changed.
func (s *subscriber) noteSubscribedLocked() {
	for _, c := range s.catalogs {
		if c.subscribed != nil {
			c.subscribed()
		}
	}
}

// The method sees reports whether the subscription follows the changes of c.
func (s *subscriber) sees(c *Catalog) bool {
	return c == &c.server.own || slices.Contains(s.catalogs, c)
}

// closeAll ends all subscriptions with a result, and all watches.
func (h *hub) closeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closing {
		h.closing = true
		h.endLife()
		close(h.closed)
	}
}

func (h *hub) forEach(f func(*subscriber)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subscribers {
		f(sub)
	}
}

// accessTo returns the access with which sub subscribed to uri, and its catalogs.
func (h *hub) accessTo(sub *subscriber, uri string) (*Access, []*Catalog) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return sub.resources[uri], sub.catalogs
}

func (h *hub) noteListChanged(c *Catalog, method string) {
	h.forEach(func(sub *subscriber) {
		if sub.sees(c) {
			sub.markListDue(method)
		}
	})
}

func (s *subscriber) markListDue(method string) {
	switch {
	case method == protocol.MethodListTools && s.filter.ToolsListChanged:
		s.markDue(s.lists, protocol.NotifyToolsChanged)
	case method == protocol.MethodListPrompts && s.filter.PromptsListChanged:
		s.markDue(s.lists, protocol.NotifyPromptsChanged)
	case method != protocol.MethodListTools && method != protocol.MethodListPrompts &&
		s.filter.ResourcesListChanged:
		s.markDue(s.lists, protocol.NotifyResourcesChanged)
	}
}

func (h *hub) noteResourceUpdated(c *Catalog, uri string) {
	h.forEach(func(sub *subscriber) {
		if _, ok := sub.resources[uri]; ok && sub.sees(c) {
			sub.markDue(sub.updated, uri)
		}
	})
}

func (s *subscriber) markDue(set map[string]bool, what string) {
	s.mu.Lock()
	set[what] = true
	s.mu.Unlock()
	if s.changed != nil {
		s.changed()
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscriber) forgetUpdate(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.updated, uri)
}

// takeDue empties the sets and returns their contents, sorted.
func (s *subscriber) takeDue() (lists, updated []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists, updated = slices.Sorted(maps.Keys(s.lists)), slices.Sorted(maps.Keys(s.updated))
	clear(s.lists)
	clear(s.updated)
	return lists, updated
}

// ResourceUpdated tells clients that subscribed to the resource at uri, and may see it, that its
// contents changed (basic/patterns/subscriptions). List changes are announced automatically.
func (s *Server) ResourceUpdated(uri string) { s.own.ResourceUpdated(uri) }

// answerListen acknowledges subscriptions/listen and sends changes until the subscription ends.
func (s *Server) answerListen(ctx context.Context, request *Request,
	p *protocol.ListenParams) (protocol.Result, error) {
	if request.back == nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest,
			"subscriptions/listen needs a way to send notifications")
	}
	if len(request.Message.Params) > maxListenBytes {
		return nil, protocol.Errorf(protocol.CodeInvalidParams,
			"invalid params: longer than %d bytes", maxListenBytes)
	}
	filter := s.honouredFilter(p.Notifications)
	for _, uri := range filter.ResourceSubscriptions {
		if err := s.checkSubscriber(request, uri); err != nil {
			return nil, err
		}
	}
	heard, announce, err := s.listenToTasks(ctx, request, p.Notifications.TaskIDs)
	if err != nil {
		return nil, err
	}
	filter.TaskIDs = heard
	if request.private {
		s.hub.listening.ReserveForAuthenticated()
	}
	sub, full, err := s.openSubscription(request, filter)
	if full != quota.None {
		s.opts.Observer.Observe(ctx, event.QuotaExceeded{
			Where: request.eventWhere(), Resource: "subscriptions", Limit: string(full),
			RetryAfter: subscriptionRetry,
		})
	}
	if err != nil {
		return nil, err
	}
	defer s.hub.removeSubscriber(sub)
	for _, w := range sub.held { // which nobody else changes
		s.hub.awaitWatch(ctx, w)
	}
	meta, err := protocol.Meta(nil).With(protocol.MetaSubscriptionID, request.Message.ID)
	if err != nil {
		return nil, err
	}
	l := &announcer{server: s, in: request, meta: meta}
	if err := l.sendNotification(ctx, protocol.NotifyAcknowledged,
		subscriptionParams{Notifications: &filter}); err != nil {
		return nil, newClientGoneError(err) // no result: the acknowledgment must come first
	}
	announced, end := startAnnouncing(ctx, announce)
	defer end()
	for {
		select {
		case <-s.hub.closed:
			return l.endResult(), nil
		case <-ctx.Done():
			err = ctx.Err()
		case n := <-announced:
			err = l.sendAnnounced(ctx, n)
		case <-sub.wake:
			lists, updated := sub.takeDue()
			err = l.sendDue(ctx, lists, updated)
		}
		switch {
		case err == nil:
		case errors.Is(context.Cause(ctx), ErrClosed): // maybe while sending
			return l.endResult(), nil
		default:
			return nil, newClientGoneError(err)
		}
	}
}

// An announcer sends the notifications of one subscription or session.
type announcer struct {
	server *Server
	in     *Request
	meta   protocol.Meta // with the id of the subscription
}

func (l *announcer) sendNotification(ctx context.Context, method string,
	params subscriptionParams) error {
	params.Meta = l.meta
	raw, err := jsonx.Encode(params)
	if err != nil {
		return err
	}
	return l.in.back.Notify(ctx,
		&protocol.Notification{Method: method, Params: json.RawMessage(raw)})
}

// startAnnouncing runs announce and forwards its notifications. end() stops it and waits.
func startAnnouncing(ctx context.Context, announce Announce) (
	announced <-chan *protocol.Notification, end func()) {
	if announce == nil {
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	notifications, done := make(chan *protocol.Notification), make(chan struct{})
	go func() {
		defer close(done)
		announce(ctx, func(n *protocol.Notification) error {
			select {
			case notifications <- n:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return notifications, func() { cancel(); <-done }
}

// sendAnnounced sends a notification of an extension, with the id of the subscription.
func (l *announcer) sendAnnounced(ctx context.Context, n *protocol.Notification) error {
	params, err := protocol.Meta(n.Params).With("_meta", json.RawMessage(l.meta))
	if err != nil {
		return err
	}
	return l.in.back.Notify(ctx,
		&protocol.Notification{Method: n.Method, Params: json.RawMessage(params)})
}

func (l *announcer) sendDue(ctx context.Context, lists, updated []string) error {
	for _, method := range lists {
		if err := l.sendNotification(ctx, method, subscriptionParams{}); err != nil {
			return err
		}
	}
	for _, uri := range updated {
		if !l.mayLearn(uri) {
			continue
		}
		if err := l.sendNotification(ctx, protocol.NotifyResourceUpdated,
			subscriptionParams{URI: uri}); err != nil {
			return err
		}
	}
	return nil
}

// mayLearn reports whether the client may know of the resource at uri. It is checked each time, as
// a principal may lose access. The acknowledgment reveals nothing: it names unknown resources, too.
func (l *announcer) mayLearn(uri string) bool {
	if l.server.opts.Visible == nil && !l.server.resourceScopes.Load() {
		return true
	}
	r, _ := l.server.findReader(l.in, uri)
	if r == nil {
		return l.server.opts.Visible == nil
	}
	return l.in.Access.Check(r.scopes...) == nil
}

// checkSubscriber refuses a subscription to a resource that the request may not read.
func (s *Server) checkSubscriber(request *Request, uri string) error {
	if !s.resourceScopes.Load() {
		return nil
	}
	if r, _ := s.findReader(request, uri); r != nil {
		return request.checkScopes(r.scopes)
	}
	return nil
}

func (l *announcer) endResult() protocol.Result { return &protocol.ListenResult{Meta: l.meta} }

// newClientGoneError returns the outcome, for middleware, if the client is unreachable.
func newClientGoneError(err error) error {
	return protocol.Errorf(protocol.CodeInternalError, "subscription ended: %v", err)
}

type subscriptionParams struct {
	Meta          protocol.Meta                `json:"_meta,omitzero"`
	Notifications *protocol.SubscriptionFilter `json:"notifications,omitzero"`
	URI           string                       `json:"uri,omitzero"`
}

// honouredFilter returns the part of a filter that the server can serve.
func (s *Server) honouredFilter(wanted protocol.SubscriptionFilter) protocol.SubscriptionFilter {
	c := s.declaredCapabilities()
	honoured := protocol.SubscriptionFilter{
		ToolsListChanged: wanted.ToolsListChanged && c.Tools != nil && c.Tools.ListChanged,
		PromptsListChanged: wanted.PromptsListChanged && c.Prompts != nil &&
			c.Prompts.ListChanged,
		ResourcesListChanged: wanted.ResourcesListChanged && c.Resources != nil &&
			c.Resources.ListChanged,
	}
	if c.Resources == nil || !c.Resources.Subscribe {
		return honoured
	}
	seen := map[string]struct{}{}
	for _, uri := range wanted.ResourceSubscriptions {
		if len(seen) == maxSubscribedResources {
			break
		}
		if _, twice := seen[uri]; !twice {
			seen[uri] = struct{}{}
			honoured.ResourceSubscriptions = append(honoured.ResourceSubscriptions, uri)
		}
	}
	return honoured
}
