package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// resubscribePause is how long the gateway waits for more subscriptions before it subscribes anew
// upstream, where all of them are one.
const resubscribePause = 100 * time.Millisecond

// subscribedURIs returns the resources that clients want to hear of, by the upstream's own URIs: at
// most as many as the upstream may publish.
func (v *view) subscribedURIs() (uris []string) {
	for _, uri := range v.catalog.SubscribedResources() {
		if own, ok := v.upstream.names.OwnURI(uri); ok {
			uris = append(uris, own)
		}
	}
	return uris[:min(len(uris), v.upstream.gateway.limits.Entries)]
}

// listen follows the upstream's changes until ctx ends: those of its lists, which are told to
// changed, and those of the resources that clients have subscribed to.
func (v *view) listen(ctx context.Context, c *client.Client, changed chan<- struct{}) {
	var before []string
	missed := true // changes of lists, perhaps
	for failures := 0; ctx.Err() == nil; {
		began, reread := time.Now(), missed
		uris := v.subscribedURIs()
		listening, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Listen(listening, protocol.SubscriptionFilter{
				ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true,
				ResourceSubscriptions: uris,
			}, func(_ context.Context, event client.ListenEvent) {
				v.passOn(event, before, reread, changed)
			})
		}()
		if v.awaitOtherSubscriptions(ctx, uris, ended) {
			missed = false
		} else if ctx.Err() == nil { // the stream broke, or the upstream does not have this
			if time.Since(began) > rereadTime {
				failures = 0
			}
			pause(ctx, retryPause(failures))
			failures, missed = failures+1, true
		}
		stop()
		<-ended
		before = uris
	}
}

// awaitOtherSubscriptions reports whether clients have subscribed to other resources than uris
// before ended is closed or ctx ends.
func (v *view) awaitOtherSubscriptions(
	ctx context.Context, uris []string, ended <-chan struct{},
) bool {
	for {
		select {
		case <-v.changed:
			pause(ctx, resubscribePause)
			if !slices.Equal(v.subscribedURIs(), uris) {
				return true
			}
		case <-ended:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// passOn tells clients of a change. What changed between two subscriptions nobody knows, so those
// who had subscribed before are told that their resources may have.
func (v *view) passOn(
	event client.ListenEvent, before []string, reread bool, changed chan<- struct{},
) {
	switch e := event.(type) {
	case client.Acknowledged:
		for _, uri := range before {
			v.catalog.ResourceUpdated(v.upstream.names.PublishURI(uri))
		}
		if reread {
			notify(changed)
		}
	case client.ResourceUpdated:
		v.catalog.ResourceUpdated(v.upstream.names.PublishURI(e.URI))
	default:
		notify(changed)
	}
}
