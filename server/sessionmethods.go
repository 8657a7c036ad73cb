package server

import (
	"context"

	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// open opens the session. It is called with mu held.
func (x *Session) open(in *Incoming, p *protocol.InitializeParams) {
	x.version = negotiate(p.ProtocolVersion)
	capabilities, info := limitDeclared(p.Capabilities, p.ClientInfo)
	x.client.Capabilities, x.client.ClientInfo = &capabilities, &info
	in.Version = x.version
	in.Meta.Capabilities, in.Meta.ClientInfo = x.client.Capabilities, x.client.ClientInfo
	in.opens = true
}

// settle undoes open when initialize failed.
func (x *Session) settle(in *Incoming, err error) {
	if !in.opens || err == nil {
		return
	}
	x.server.hub.remove(x.news)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.version, x.client = "", protocol.RequestMeta{}
}

// offers is [Server.offers] for sessions.
func (x *Session) offers(method string) bool {
	s := x.server
	switch method {
	case protocol.MethodDiscover, protocol.MethodListen:
		return false
	case protocol.MethodPing, protocol.MethodSetLevel:
		return true
	case protocol.MethodSubscribe, protocol.MethodUnsubscribe:
		return x.send != nil && s.offers(protocol.MethodReadResource)
	}
	return s.offers(method)
}

// legacy answers the requests that only sessions have. It reports false for
// others.
func (x *Session) legacy(in *Incoming) (protocol.Result, error, bool) {
	switch p := in.Params.(type) {
	case *protocol.InitializeParams:
		return x.initialize(in), nil, true
	case *protocol.PingParams:
		return &protocol.EmptyResult{}, nil, true
	case *protocol.SetLevelParams:
		x.mu.Lock()
		defer x.mu.Unlock()
		x.level = p.Level
		return &protocol.EmptyResult{}, nil, true
	case *protocol.SubscribeParams:
		if in.Request.Method == protocol.MethodSubscribe {
			if err := x.subscribe(p.URI); err != nil {
				return nil, err, true
			}
		} else {
			x.unsubscribe(p.URI)
		}
		return &protocol.EmptyResult{}, nil, true
	}
	return nil, nil, false
}

// initialize says what the server offers, and notes from now on what changes of
// it.
func (x *Session) initialize(in *Incoming) *protocol.InitializeResult {
	c := legacyCapabilities(x.server.capabilities(), in.Version)
	if x.send == nil {
		c = withoutAnnouncements(c)
	}
	if x.stateless {
		c = withoutSession(c)
	}
	x.follow(protocol.SubscriptionFilter{
		ToolsListChanged:     c.Tools != nil && c.Tools.ListChanged,
		PromptsListChanged:   c.Prompts != nil && c.Prompts.ListChanged,
		ResourcesListChanged: c.Resources != nil && c.Resources.ListChanged,
	})
	return &protocol.InitializeResult{
		ProtocolVersion: in.Version,
		Capabilities:    c,
		ServerInfo:      legacyInfo(x.server.opts.Info, in.Version),
		Instructions:    x.server.opts.Instructions,
	}
}

// legacyCapabilities leaves out what revision v does not know.
func legacyCapabilities(c protocol.ServerCapabilities, v protocol.Version) protocol.ServerCapabilities {
	c.Extensions = nil
	if v < protocol.V20250326 {
		c.Completions = nil
	}
	return c
}

// withoutAnnouncements declares that nothing will be announced, neither changes of a list nor of a
// resource.
func withoutAnnouncements(c protocol.ServerCapabilities) protocol.ServerCapabilities {
	if c.Tools != nil {
		c.Tools = &protocol.ListCapability{}
	}
	if c.Prompts != nil {
		c.Prompts = &protocol.ListCapability{}
	}
	if c.Resources != nil {
		c.Resources = &protocol.ResourcesCapability{}
	}
	return c
}

// legacyInfo leaves out what revision v does not know.
func legacyInfo(info protocol.Implementation, v protocol.Version) protocol.Implementation {
	if v < protocol.V20251125 {
		info.Description, info.WebsiteURL, info.Icons = "", "", nil
	}
	if v < protocol.V20250618 {
		info.Title = ""
	}
	return info
}

// subscribe notes that the client wants to know when the resource at uri
// changes. Which resources there are it does not tell. The number is bounded,
// and so is the room that the URIs take: they are held as long as the session.
func (x *Session) subscribe(uri string) error {
	hub := x.server.hub
	hub.mu.Lock()
	defer hub.mu.Unlock()
	if _, twice := x.news.resources[uri]; twice {
		return nil
	}
	if len(x.news.resources) >= MaxSubscribedResources || x.uriBytes+len(uri) > MaxListenBytes {
		return quota.Refuse("session", subscriptionRetry, "too many resources are subscribed to; unsubscribe from some")
	}
	x.news.resources[uri] = struct{}{}
	x.uriBytes += len(uri)
	return nil
}

func (x *Session) unsubscribe(uri string) {
	hub := x.server.hub
	hub.mu.Lock()
	defer hub.mu.Unlock()
	if _, ok := x.news.resources[uri]; ok {
		delete(x.news.resources, uri)
		x.uriBytes -= len(uri)
		x.news.drop(uri)
	}
}

// initialized lets the news out: nothing but pings and logs may be sent before
// (basic/lifecycle, "Initialization").
func (x *Session) initialized() {
	x.mu.Lock()
	x.ready = x.version != ""
	x.mu.Unlock()
	x.tell()
}

// tell sends the news, unless it is being done. However much changes meanwhile,
// there is one goroutine, and none while nothing changes.
func (x *Session) tell() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ready || x.telling || x.closed || x.send == nil {
		return
	}
	x.telling = true
	go func() {
		for x.announce() {
		}
	}()
}

// announce sends what is due by now. It reports false when nothing was.
func (x *Session) announce() bool {
	x.mu.Lock()
	lists, updated := x.news.take()
	if x.closed || len(lists)+len(updated) == 0 {
		x.telling = false
		x.mu.Unlock()
		return false
	}
	x.mu.Unlock()
	l := &listener{server: x.server, in: &Incoming{Principal: x.principal, Back: sessionBack{x}}}
	for _, method := range lists {
		x.say(l, method, "")
	}
	for _, uri := range updated {
		x.say(l, protocol.NotifyResourceUpdated, uri)
	}
	return true
}

// say announces that a list changed, or the resource at uri, unless whoever
// decides about that, or sends it, panics.
func (x *Session) say(l *listener, method, uri string) {
	defer x.server.outlive(x.life, roundtrip.Where{Version: x.Version(), Method: method, Target: uri})
	if uri != "" {
		_ = l.send(x.life, nil, []string{uri})
	} else {
		_ = l.send(x.life, []string{method}, nil)
	}
}

// sessionBack sends what relates to no request. Nobody listening is no failure.
type sessionBack struct{ session *Session }

// Notify implements [protocol.Back].
func (b sessionBack) Notify(ctx context.Context, n *protocol.Notification) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_ = b.session.send(ctx, n)
	return nil
}

// tellNow sends one message that relates to no request.
func (x *Session) tellNow(ctx context.Context, m protocol.Message) error {
	if x.life.Err() != nil {
		return ErrSessionClosed
	}
	if x.send == nil {
		return ErrEnded
	}
	return x.send(ctx, m)
}

// follow notes what changes from now on, unless the session is closed already.
func (x *Session) follow(filter protocol.SubscriptionFilter) {
	x.server.hub.join(x.news, filter)
	x.mu.Lock()
	closed := x.closed
	x.mu.Unlock()
	if closed {
		x.server.hub.remove(x.news)
	}
}
