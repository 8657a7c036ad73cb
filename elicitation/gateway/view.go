package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

const (
	// viewWait limits a credential's first request's wait for lists. Later lists are announced,
	// except on a subscription opened before: it follows the gateway's view until reopened.
	viewWait  = 5 * time.Second
	startWait = 2 * time.Second // after the gateway's start, requests wait for lists
)

// A view is an upstream as callers with one credential see it. It reads lists on its own
// connection, and follows changes while clients listen and for idleTime after the last request.
type view struct {
	upstream  *upstream
	catalog   *server.Catalog
	published published
	shares    *subscribed   // of subscribed resources
	changed   chan struct{} // capacity 1: subscriptions may have changed
	read      chan struct{} // closed when the lists have been read, or reading failed
	ready     atomic.Bool   // the lists have been read
	retry     chan struct{} // capacity 1: a caller needs what could not be read
	stop      context.CancelFunc
	began     time.Time

	// Guarded by upstream.mu:
	caller   protocol.Principal // the latest; zero: the gateway itself
	key      string
	known    bool // key is known
	lastUsed time.Time
}

func (u *upstream) startView(caller protocol.Principal) *view {
	v := &view{upstream: u, caller: caller, changed: make(chan struct{}, 1),
		read: make(chan struct{}), retry: make(chan struct{}, 1), began: time.Now()}
	v.lastUsed = v.began
	most := int64(u.gateway.limits.entries)
	v.shares = &subscribed{holders: map[string][]holder{},
		room: quota.New(quota.Options[protocol.Principal]{Total: most, Share: quota.ShareOf(most),
			Local: protocol.LocalPrincipal()})}
	v.catalog = u.gateway.server.NewCatalog(func() { notify(v.changed) })
	ctx, stop := context.WithCancel(u.gateway.life)
	v.stop = stop
	u.gateway.busy.Go(func() { v.keepPublished(ctx) })
	return v
}

func (v *view) credential(ctx context.Context) (Credential, error) {
	var credential Credential
	if f := v.upstream.config.Credential; f != nil {
		v.upstream.mu.Lock()
		caller := v.caller
		v.upstream.mu.Unlock()
		var err error
		if credential, err = f(ctx, caller); err != nil {
			return Credential{}, &unhandled{err}
		}
	}
	v.upstream.mu.Lock()
	defer v.upstream.mu.Unlock()
	if v != v.upstream.own && credential.Key != v.key {
		return Credential{}, fmt.Errorf("gateway: the caller has other credentials now")
	}
	v.key, v.known = credential.Key, true
	return credential, nil
}

// viewFor returns a caller's view: the gateway's own before a login or without credentials.
func (u *upstream) viewFor(ctx context.Context, caller protocol.Principal) *view {
	if u.config.Credential == nil {
		return u.own
	}
	credential, err := u.config.Credential(ctx, caller)
	u.mu.Lock()
	known := u.views[credential.Key] != nil
	u.mu.Unlock()
	if err != nil || !known && isLoggedOut(ctx, credential) {
		return u.own // the call gets the error, or asks for the login
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.own.known && u.own.key == credential.Key || u.gateway.life.Err() != nil {
		return u.own
	}
	v := u.views[credential.Key]
	if v == nil {
		if most := u.maxConnectionsLocked(); most >= 0 && int64(len(u.views)) >= most {
			u.dropViewLocked(slices.MinFunc(slices.Collect(maps.Values(u.views)),
				func(a, b *view) int { return a.lastUsed.Compare(b.lastUsed) }))
		}
		v = u.startView(caller)
		v.key, v.known = credential.Key, true
		u.views[v.key] = v
	}
	v.caller, v.lastUsed = caller, time.Now() // earlier callers may have lost the credential
	return v
}

func (u *upstream) dropViewLocked(v *view) {
	v.stop()
	delete(u.views, v.key)
}

func (g *Gateway) closeIdle() {
	for pause(g.life, idleTime/5) {
		for _, u := range g.upstreams {
			u.mu.Lock()
			u.dropIdleLocked()
			for _, v := range u.views {
				if time.Since(v.lastUsed) > idleTime && !v.catalog.Watched() {
					u.dropViewLocked(v)
				}
			}
			u.mu.Unlock()
		}
	}
}

// chooseCatalogs gives a request its catalogs, and returns their views; nil if not needed.
func (g *Gateway) chooseCatalogs(ctx context.Context, req *server.Request) (views []*view) {
	all := false // the request is for lists
	switch req.Message.Method {
	case protocol.MethodListTools, protocol.MethodListPrompts, protocol.MethodListResources,
		protocol.MethodListResourceTemplates, protocol.MethodListen, protocol.MethodSubscribe,
		protocol.MethodUnsubscribe, protocol.MethodComplete:
		all = true
	case protocol.MethodCallTool, protocol.MethodGetPrompt, protocol.MethodReadResource:
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, viewWait)
	defer cancel()
	for _, u := range g.upstreams {
		v := u.viewFor(ctx, req.Principal)
		_, uri := u.names.OwnURI(req.Target)
		if all || uri || u.names.unprefixed[req.Target] ||
			strings.HasPrefix(req.Target, u.names.Publish("")) {
			v.awaitLists(ctx)
		}
		if v != u.own && !v.ready.Load() { // a caller that has to log in needs a tool to call
			notify(v.retry)
			v = u.own
		}
		req.Catalogs = append(req.Catalogs, v.catalog)
		views = append(views, v)
	}
	return views
}

// awaitLists waits until the lists have been read, or reading failed. For the gateway's own lists
// it waits only during the start, when a balancer may already send requests.
func (v *view) awaitLists(ctx context.Context) {
	select {
	case <-v.read:
		return
	default:
	}
	if v == v.upstream.own {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, v.began.Add(startWait))
		defer cancel()
	}
	select {
	case <-v.read:
	case <-ctx.Done():
	}
}
