package hosted

import (
	"context"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// The type subscriptions counts the subscribers of resources on a session of the hosted server.
type subscriptions struct {
	mu    sync.Mutex
	count map[string]int
}

// subscribe subscribes to a resource on the hosted server, once.
func (s *session) subscribe(ctx context.Context, uri string) error {
	s.uris.mu.Lock()
	defer s.uris.mu.Unlock()
	if s.uris.count[uri] == 0 {
		_, err := s.send(ctx, protocol.MethodSubscribe, &protocol.SubscribeParams{URI: uri})
		if err != nil {
			return err
		}
	}
	s.uris.count[uri]++
	return nil
}

const unsubscribeTimeout = 5 * time.Second // of the hosted server

// unsubscribe undoes one subscribe, even after the end of ctx.
func (s *session) unsubscribe(ctx context.Context, uri string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribeTimeout)
	defer cancel()
	s.uris.mu.Lock()
	defer s.uris.mu.Unlock()
	if s.uris.count[uri]--; s.uris.count[uri] <= 0 {
		delete(s.uris.count, uri)
		_, _ = s.send(ctx, protocol.MethodUnsubscribe, &protocol.SubscribeParams{URI: uri})
	}
}

func (s *session) announces() bool {
	return s.offers.Capabilities.Resources != nil && s.offers.Capabilities.Resources.Subscribe
}

// answerSubscribe subscribes or unsubscribes a session of an older revision.
func (h *Server) answerSubscribe(ctx context.Context, req *server.Request,
	p *protocol.SubscribeParams, next server.Handler) (protocol.Result, error) {
	s, giveBack, err := h.sessions.sessionFor(ctx, req)
	if err != nil {
		return nil, err
	}
	defer giveBack()
	req.Catalogs = append(req.Catalogs, s.catalog)
	if s.announces() {
		_, err = s.send(ctx, req.Message.Method, &protocol.SubscribeParams{URI: p.URI})
	}
	if err != nil && req.Message.Method == protocol.MethodSubscribe {
		return nil, err
	}
	return next(ctx, req)
}

// answerListen subscribes a client of revision 2026-07-28; meanwhile the session stays in use.
func (h *Server) answerListen(ctx context.Context, req *server.Request, p *protocol.ListenParams,
	next server.Handler) (protocol.Result, error) {
	s, giveBack, err := h.sessions.sessionFor(ctx, req)
	if err != nil {
		return nil, err
	}
	defer giveBack()
	req.Catalogs = append(req.Catalogs, s.catalog)
	if s.announces() {
		seen := map[string]bool{}
		for _, uri := range p.Notifications.ResourceSubscriptions {
			// A refused resource is never announced.
			if len(seen) < maxSubscribed && !seen[uri] && s.subscribe(ctx, uri) == nil {
				seen[uri] = true
				defer s.unsubscribe(ctx, uri)
			}
		}
	}
	return next(ctx, req)
}

const maxSubscribed = 1000 // resources of one subscription, as in package server
