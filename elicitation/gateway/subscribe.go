package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// resubscribePause batches subscriptions before the subscription at the upstream is renewed.
const resubscribePause = 100 * time.Millisecond

// The type subscribed has a view's subscriptions, up to a limit, each counted for its first holder.
type subscribed struct {
	room *quota.Pool[protocol.Principal]

	mu      sync.Mutex
	holders map[string][]holder // by published URI
}

type holder struct {
	principal protocol.Principal
	by        any
	stop      func() bool // stops waiting for the holder's end
}

// add subscribes until life ends, or returns the limit reached; added is false if by had it.
func (s *subscribed) add(life context.Context, uri string, principal protocol.Principal, by any,
) (added bool, limit quota.Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.holders[uri]
	if indexOfHolder(all, by) >= 0 {
		return false, quota.None
	}
	if len(all) == 0 {
		if limit := s.room.Take(principal, 1); limit != quota.None {
			return false, limit
		}
	}
	stop := context.AfterFunc(life, func() { s.remove(uri, by) })
	s.holders[uri] = append(all, holder{principal, by, stop})
	return true, quota.None
}

func indexOfHolder(all []holder, by any) int {
	return slices.IndexFunc(all, func(h holder) bool { return h.by == by })
}

// remove ends a subscription. If others hold the resource, it counts for the next of them.
func (s *subscribed) remove(uri string, by any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.holders[uri]
	i := indexOfHolder(all, by)
	if i < 0 {
		return
	}
	all[i].stop()
	if i == 0 {
		s.room.Give(all[0].principal, 1)
		if len(all) > 1 {
			s.room.ForceTake(all[1].principal, 1)
		}
	}
	if s.holders[uri] = slices.Delete(all, i, i+1); len(s.holders[uri]) == 0 {
		delete(s.holders, uri)
	}
}

func viewOf(views []*view, uri string) *view {
	for _, v := range views {
		if _, ok := v.upstream.names.OwnURI(uri); ok {
			return v
		}
	}
	return nil
}

func (g *Gateway) watchSession(ctx context.Context, req *server.Request, uri string,
	views []*view, next server.Handler,
) (protocol.Result, error) {
	v, session := viewOf(views, uri), req.Session()
	if v == nil || session == nil {
		return next(ctx, req)
	}
	if req.Message.Method == protocol.MethodUnsubscribe {
		u := v.upstream
		u.mu.Lock()
		u.own.shares.remove(uri, session)
		for _, v := range u.views {
			v.shares.remove(uri, session)
		}
		u.mu.Unlock()
		return next(ctx, req)
	}
	added, limit := v.shares.add(session.Lifetime(), uri, req.Principal, session)
	if limit != quota.None {
		return nil, quota.Refuse(limit, time.Second, "upstream %s: too many resources are "+
			"subscribed to: unsubscribe from some", v.upstream.config.Name)
	}
	result, err := next(ctx, req)
	if added && err != nil {
		v.shares.remove(uri, session)
	}
	return result, err
}

// watchListener handles a request to listen, acknowledging no resources over the limit.
func (g *Gateway) watchListener(ctx context.Context, req *server.Request, p protocol.ListenParams,
	views []*view, next server.Handler,
) (protocol.Result, error) {
	var kept []string
	for _, uri := range p.Notifications.ResourceSubscriptions {
		if v := viewOf(views, uri); v != nil {
			if _, limit := v.shares.add(ctx, uri, req.Principal, req); limit != quota.None {
				continue
			}
			defer v.shares.remove(uri, req)
		}
		kept = append(kept, uri)
	}
	p.Notifications.ResourceSubscriptions = kept
	req.Params = &p
	return next(ctx, req)
}

// subscribedURIs returns the upstream's own URIs of resources with subscribers, up to a limit.
func (v *view) subscribedURIs() (uris []string) {
	for _, uri := range v.catalog.SubscribedResources() {
		if own, ok := v.upstream.names.OwnURI(uri); ok {
			uris = append(uris, own)
		}
	}
	return uris[:min(len(uris), v.upstream.gateway.limits.entries)]
}

// listen follows upstream changes until ctx ends: of lists (to changed) and of resources.
func (v *view) listen(ctx context.Context, c *client.Client, changed chan<- struct{}) {
	var before []string
	missed := true // perhaps changes of lists were missed
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
		} else if ctx.Err() == nil { // the stream broke, or the upstream lacks this
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

// awaitOtherSubscriptions returns true once the subscriptions differ from uris.
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

// passOn announces a change; after a resubscription, all resources in before count as changed.
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
