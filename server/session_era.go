package server

import (
	"context"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// openLocked opens the session for an initialize that is being admitted.
func (x *Session) openLocked(request *Request, p *protocol.InitializeParams) {
	x.version = negotiateVersion(p.ProtocolVersion)
	capabilities, info := limitDeclared(p.Capabilities, p.ClientInfo)
	x.client.Capabilities, x.client.ClientInfo = &capabilities, &info
	request.Version = x.version
	request.Meta.Capabilities, request.Meta.ClientInfo = x.client.Capabilities, x.client.ClientInfo
	request.opensSession = true
}

// revertFailedOpen implements [era]: it undoes openLocked and the subscription of answerInitialize.
func (x *Session) revertFailedOpen(request *Request, err error) {
	if !request.opensSession || err == nil {
		return
	}
	x.server.hub.removeSubscriber(x.announcements)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.version, x.client = "", protocol.RequestMeta{}
}

func (x *Session) offersMethod(method string) bool {
	s := x.server
	switch method {
	case protocol.MethodDiscover, protocol.MethodListen:
		return false
	case protocol.MethodPing, protocol.MethodSetLevel:
		return true
	case protocol.MethodSubscribe, protocol.MethodUnsubscribe:
		return x.sendUnrelated != nil && s.offersMethod(protocol.MethodListen) &&
			s.offersMethod(protocol.MethodReadResource)
	}
	return s.offersMethod(method)
}

func (x *Session) answerOwnMethod(ctx context.Context, request *Request) (protocol.Result, error,
	bool) {
	x.server.hub.followCatalogs(x.announcements, request.Catalogs)
	switch p := request.Params.(type) {
	case *protocol.InitializeParams:
		return x.answerInitialize(request), nil, true
	case *protocol.RequestMeta:
		if request.Message.Method == protocol.MethodPing {
			return &protocol.EmptyResult{}, nil, true
		}
	case *protocol.SetLevelParams:
		x.mu.Lock()
		defer x.mu.Unlock()
		x.level = p.Level
		return &protocol.EmptyResult{}, nil, true
	case *protocol.SubscribeParams:
		if request.Message.Method == protocol.MethodSubscribe {
			err := x.server.checkSubscriber(request, p.URI)
			if err == nil {
				err = x.subscribeResource(ctx, request, p.URI)
			}
			if err != nil {
				return nil, err, true
			}
		} else {
			x.unsubscribeResource(p.URI)
		}
		return &protocol.EmptyResult{}, nil, true
	}
	return nil, nil, false
}

// answerInitialize also subscribes the session to the promised changes.
func (x *Session) answerInitialize(request *Request) *protocol.InitializeResult {
	c := legacyCapabilities(x.server.declaredCapabilities(), request.Version)
	if x.sendUnrelated == nil {
		c = setAnnouncements(c, false)
	}
	if x.stateless {
		c.Logging = nil // the level could not be kept
	}
	x.followLists(protocol.SubscriptionFilter{
		ToolsListChanged:     c.Tools != nil && c.Tools.ListChanged,
		PromptsListChanged:   c.Prompts != nil && c.Prompts.ListChanged,
		ResourcesListChanged: c.Resources != nil && c.Resources.ListChanged,
	})
	return &protocol.InitializeResult{
		ProtocolVersion: request.Version,
		Capabilities:    c,
		ServerInfo:      legacyInfo(x.server.opts.Info, request.Version),
		Instructions:    x.server.opts.Instructions,
	}
}

// legacyCapabilities leaves out the capabilities that revision v lacks.
func legacyCapabilities(c protocol.ServerCapabilities,
	v protocol.Version) protocol.ServerCapabilities {
	c.Extensions = nil
	if v < protocol.V20250326 {
		c.Completions = nil
	}
	return c
}

// legacyInfo leaves out the members that revision v lacks.
func legacyInfo(info protocol.Implementation, v protocol.Version) protocol.Implementation {
	if v < protocol.V20251125 {
		info.Description, info.WebsiteURL, info.Icons = "", "", nil
	}
	if v < protocol.V20250618 {
		info.Title = ""
	}
	return info
}

// subscribeResource subscribes the session to the resource at uri, without revealing whether it
// exists. URIs are limited because the session keeps them. The latest subscription's access counts.
func (x *Session) subscribeResource(ctx context.Context, request *Request, uri string) error {
	hub, watchable := x.server.hub, x.server.listWatchable(request, uri)
	hub.mu.Lock()
	err := x.subscribeLocked(uri, request.Access)
	if err == nil && len(watchable) > 0 && !x.isClosed() {
		x.server.holdLocked(x.announcements, uri)
	}
	w := x.announcements.held[uri]
	hub.mu.Unlock()
	hub.awaitWatch(ctx, w)
	return err
}

func (x *Session) subscribeLocked(uri string, access *Access) error {
	if _, twice := x.announcements.resources[uri]; twice {
		x.announcements.resources[uri] = access
		return nil
	}
	if len(x.announcements.resources) >= maxSubscribedResources ||
		x.uriBytes+len(uri) > maxListenBytes {
		return quota.Refuse("session", subscriptionRetry,
			"too many resources are subscribed to; unsubscribe from some")
	}
	x.announcements.resources[uri] = access
	x.uriBytes += len(uri)
	x.announcements.noteSubscribedLocked()
	return nil
}

func (x *Session) unsubscribeResource(uri string) {
	hub := x.server.hub
	hub.mu.Lock()
	defer hub.mu.Unlock()
	if _, ok := x.announcements.resources[uri]; ok {
		delete(x.announcements.resources, uri)
		x.uriBytes -= len(uri)
		x.announcements.forgetUpdate(uri)
		hub.dropLocked(x.announcements, uri)
		x.announcements.noteSubscribedLocked()
	}
}

// noteInitialized starts announcements: before notifications/initialized a server may send only
// pings and logs (basic/lifecycle, "Initialization").
func (x *Session) noteInitialized() {
	x.mu.Lock()
	x.clientReady = x.version != ""
	x.mu.Unlock()
	x.startAnnouncing()
}

// startAnnouncing starts the goroutine that announces changes until none are pending, if needed.
func (x *Session) startAnnouncing() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.clientReady || x.announcing || x.closed || x.sendUnrelated == nil {
		return
	}
	x.announcing = true
	go func() {
		for x.announceChanges() {
		}
	}()
}

// announceChanges sends the pending changes. It reports false if there are none.
func (x *Session) announceChanges() bool {
	x.mu.Lock()
	lists, updated := x.announcements.takeDue()
	if x.closed || len(lists)+len(updated) == 0 {
		x.announcing = false
		x.mu.Unlock()
		return false
	}
	x.mu.Unlock()
	l := &announcer{server: x.server,
		in: &Request{Principal: x.principal, back: announcementChannel{x}}}
	for _, method := range lists {
		x.announceOne(l, method, "")
	}
	for _, uri := range updated {
		x.announceOne(l, protocol.NotifyResourceUpdated, uri)
	}
	return true
}

// announceOne announces a list, or the resource at uri. It recovers panics of Visible and send.
func (x *Session) announceOne(l *announcer, method, uri string) {
	defer x.server.recoverAndReport(x.lifetime,
		event.Where{Version: x.Version(), Method: method, Target: uri})
	if uri != "" {
		l.in.Access, l.in.Catalogs = x.server.hub.accessTo(x.announcements, uri)
		_ = l.sendDue(x.lifetime, nil, []string{uri})
	} else {
		_ = l.sendDue(x.lifetime, []string{method}, nil)
	}
}

// An announcementChannel sends unrelated messages. They are lost while no client is connected.
type announcementChannel struct{ session *Session }

func (b announcementChannel) Notify(ctx context.Context, n *protocol.Notification) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_ = b.session.sendUnrelated(ctx, n)
	return nil
}

func (x *Session) sendNow(ctx context.Context, m protocol.Message) error {
	if x.lifetime.Err() != nil {
		return errSessionClosed
	}
	if x.sendUnrelated == nil {
		return ErrEnded
	}
	return x.sendUnrelated(ctx, m)
}

// followLists subscribes the session to later changes, unless it is closed.
func (x *Session) followLists(filter protocol.SubscriptionFilter) {
	x.server.hub.joinSession(x.announcements, filter)
	if x.isClosed() {
		x.server.hub.removeSubscriber(x.announcements)
	}
}

func (x *Session) isClosed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closed
}

// newPusher implements [era]. Questions go out on the channel of the request.
func (x *Session) newPusher(request *Request) *pusher {
	back, ok := request.back.(BackSender)
	if !ok {
		return nil
	}
	return &pusher{session: x, version: request.Version, channel: request.channel, back: back}
}

func (x *Session) sessionKey() any { return x }

// logLevel returns the level of logging/setLevel.
func (x *Session) logLevel(*protocol.RequestMeta) protocol.LoggingLevel {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.level
}

func (x *Session) hasParamHeaders() bool { return false }

func (x *Session) refuseCapabilities(missing protocol.ClientCapabilities) error {
	return protocol.Errorf(protocol.CodeCannotAsk,
		"the client does not support: %s; use a client that does", missing)
}

// refuseTool returns a result: models do not read errors.
func (x *Session) refuseTool(err error) (protocol.Result, error) {
	if e, ok := protocol.AsError(err); ok {
		return ErrorText(e.Message), nil
	}
	return nil, err
}

// namesServer is false: the answer to initialize has named the server.
func (x *Session) namesServer() bool { return false }

// spellError implements [era]. It replaces codes that the revision lacks, and gives a missing
// resource the code of these revisions (server/resources, "Error Handling"). It checks URLs in
// errors of middleware, which bypassed the funnel.
func (x *Session) spellError(
	ctx context.Context, request *Request, e *protocol.Error,
) *protocol.Error {
	spelled, err := rules.SpellError(request.Version, e)
	switch {
	case err != nil:
		return x.server.reportBug(ctx, request, err)
	case spelled == nil:
		return nil
	case spelled.Code == protocol.CodeURLElicitationRequired:
		hook := urlrule.Hook(x.server.opts.Roundtrip.AllowURL)
		if refusal := hook.RefuseRequired(spelled); refusal != nil {
			_ = x.server.reportBug(ctx, request, refusal)
			return refusal.Wire()
		}
	case spelled.Code == protocol.CodeInvalidParams && isMissingResource(request, spelled):
		c := *spelled
		c.Code = protocol.CodeResourceNotFound
		return &c
	}
	return spelled
}

// isMissingResource reports whether e is like [protocol.ResourceNotFound]: an error about a
// resource with only its URI as data. For resources/subscribe only middleware returns one.
func isMissingResource(request *Request, e *protocol.Error) bool {
	switch request.Message.Method {
	case protocol.MethodReadResource, protocol.MethodSubscribe:
	default:
		return false
	}
	members, uri := 0, false
	err := jsonx.Members(e.Data, func(key, value []byte) error {
		members++
		uri = string(key) == "uri" && jsonx.KindOf(value) == jsonx.String
		return nil
	})
	return err == nil && members == 1 && uri
}
