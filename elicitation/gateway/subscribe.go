package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// resubscribePause is how long the gateway waits for more subscriptions before it subscribes anew
// upstream, where all of them are one.
const resubscribePause = 100 * time.Millisecond

// subscriptions are the resources of an upstream that clients want to hear of, by its own URIs, and
// how many subscriptions name each.
type subscriptions struct {
	mu      sync.Mutex
	uris    map[string]int
	changed chan struct{} // has room for one
}

func newSubscriptions() *subscriptions {
	return &subscriptions{uris: map[string]int{}, changed: make(chan struct{}, 1)}
}

// add counts one more subscription, unless limit resources are named already: the upstream is not
// asked about those beyond.
func (s *subscriptions) add(uri string, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uris[uri] == 0 && len(s.uris) >= limit {
		return
	}
	if s.uris[uri]++; s.uris[uri] == 1 {
		notify(s.changed)
	}
}

func (s *subscriptions) remove(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uris[uri]--; s.uris[uri] <= 0 {
		delete(s.uris, uri)
		notify(s.changed)
	}
}

func (s *subscriptions) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.uris))
}

// noteSubscriptions counts what a request subscribes to. The function must be called when the
// request has ended, with its success.
func (g *Gateway) noteSubscriptions(params protocol.Params, method string) func(done bool) {
	each := func(uris []string, f func(u *upstream, uri string)) {
		for _, published := range uris {
			for _, u := range g.upstreams {
				if strings.HasPrefix(published, u.publishedURI("")) {
					f(u, u.upstreamURI(published))
				}
			}
		}
	}
	add := func(u *upstream, uri string) { u.subscribed.add(uri, g.limits.Entries) }
	remove := func(u *upstream, uri string) { u.subscribed.remove(uri) }
	switch p := params.(type) {
	case *protocol.ListenParams: // it runs as long as the subscription lasts
		each(p.Notifications.ResourceSubscriptions, add)
		return func(bool) { each(p.Notifications.ResourceSubscriptions, remove) }
	case *protocol.SubscribeParams:
		return func(done bool) {
			switch {
			case !done:
			case method == protocol.MethodSubscribe:
				each([]string{p.URI}, add)
			default:
				each([]string{p.URI}, remove)
			}
		}
	}
	return func(bool) {}
}

// listen follows the upstream's changes until ctx ends: those of its lists, which are told to
// changed, and those of the resources that clients have subscribed to.
func (u *upstream) listen(ctx context.Context, c *client.Client, changed chan<- struct{}) {
	var before []string
	for ctx.Err() == nil {
		uris := u.subscribed.list()
		listening, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Listen(listening, protocol.SubscriptionFilter{
				ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true,
				ResourceSubscriptions: uris,
			}, func(_ context.Context, event client.ListenEvent) {
				u.passOn(event, before, changed)
			})
		}()
		select {
		case <-u.subscribed.changed:
			pause(ctx, resubscribePause)
		case <-ctx.Done():
		}
		stop()
		<-ended
		before = uris
	}
}

// passOn tells clients of a change. What changed between two subscriptions nobody knows, so those
// who had subscribed before are told that their resources may have.
func (u *upstream) passOn(event client.ListenEvent, before []string, changed chan<- struct{}) {
	switch e := event.(type) {
	case client.Acknowledged:
		for _, uri := range before {
			u.gateway.server.ResourceUpdated(u.publishedURI(uri))
		}
	case client.ResourceUpdated:
		u.gateway.server.ResourceUpdated(u.publishedURI(e.URI))
	default:
		notify(changed)
	}
}
