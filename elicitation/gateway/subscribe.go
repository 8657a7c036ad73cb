package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// resubscribePause is how long the gateway waits for more subscriptions before it subscribes anew
// upstream, where all of them are one.
const resubscribePause = 100 * time.Millisecond

// noteSubscriptions watches a request that may change what clients are subscribed to. The function
// must be called when the request has ended.
func (g *Gateway) noteSubscriptions(params protocol.Params) func() {
	switch p := params.(type) {
	case *protocol.ListenParams: // it runs as long as the subscription lasts
		each := func(change func(*subscriptions, string)) {
			for _, uri := range p.Notifications.ResourceSubscriptions {
				for _, u := range g.upstreams {
					if _, ok := u.names.OwnURI(uri); ok {
						change(u.subscribed, uri)
					}
				}
			}
		}
		each((*subscriptions).add)
		return func() { each((*subscriptions).remove) }
	case *protocol.SubscribeParams:
		return func() {
			for _, u := range g.upstreams {
				if _, ok := u.names.OwnURI(p.URI); ok {
					notify(u.subscribed.changed)
				}
			}
		}
	}
	return func() {}
}

// subscriptions are the published resources of an upstream that requests of clients listen to, and
// how many requests name each. Those of sessions the server knows.
type subscriptions struct {
	mu      sync.Mutex
	uris    map[string]int
	changed chan struct{} // has room for one
}

func newSubscriptions() *subscriptions {
	return &subscriptions{uris: map[string]int{}, changed: make(chan struct{}, 1)}
}

func (s *subscriptions) add(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// subscribedURIs returns the resources that clients want to hear of, by the upstream's own URIs: at
// most as many as the upstream may publish.
func (u *upstream) subscribedURIs() []string {
	wanted := map[string]bool{}
	for _, uri := range u.gateway.server.SubscribedResources() {
		if own, ok := u.names.OwnURI(uri); ok {
			wanted[own] = true
		}
	}
	u.subscribed.mu.Lock()
	defer u.subscribed.mu.Unlock()
	for uri := range u.subscribed.uris { // the server may not have come to it
		own, _ := u.names.OwnURI(uri)
		wanted[own] = true
	}
	uris := slices.Sorted(maps.Keys(wanted))
	if limit := u.gateway.limits.Entries; limit >= 0 && len(uris) > limit {
		uris = uris[:limit]
	}
	return uris
}

// listen follows the upstream's changes until ctx ends: those of its lists, which are told to
// changed, and those of the resources that clients have subscribed to.
func (u *upstream) listen(ctx context.Context, c *client.Client, changed chan<- struct{}) {
	var before []string
	missed := true // changes of lists, perhaps
	for failures := 0; ctx.Err() == nil; {
		began, reread := time.Now(), missed
		uris := u.subscribedURIs()
		listening, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Listen(listening, protocol.SubscriptionFilter{
				ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true,
				ResourceSubscriptions: uris,
			}, func(_ context.Context, event client.ListenEvent) {
				u.passOn(event, before, reread, changed)
			})
		}()
		select {
		case <-u.subscribed.changed:
			pause(ctx, resubscribePause)
			missed = false
		case <-ended: // the stream broke, or the upstream does not have this
			if time.Since(began) > rereadTime {
				failures = 0
			}
			pause(ctx, retryPause(failures))
			failures, missed = failures+1, true
		case <-ctx.Done():
		}
		stop()
		<-ended
		before = uris
	}
}

// passOn tells clients of a change. What changed between two subscriptions nobody knows, so those
// who had subscribed before are told that their resources may have.
func (u *upstream) passOn(
	event client.ListenEvent, before []string, reread bool, changed chan<- struct{},
) {
	switch e := event.(type) {
	case client.Acknowledged:
		for _, uri := range before {
			u.gateway.server.ResourceUpdated(u.names.PublishURI(uri))
		}
		if reread {
			notify(changed)
		}
	case client.ResourceUpdated:
		u.gateway.server.ResourceUpdated(u.names.PublishURI(e.URI))
	default:
		notify(changed)
	}
}
