package server

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// The type watching is one call of [Options].Watch for one URI, and of its stop.
type watching struct {
	holders  int
	previous *watching // whose stop may still run
	begun    bool      // Watch is called
	end      context.CancelFunc
	ready    chan struct{} // closed when Watch has returned
	done     chan struct{} // closed when stop has returned
}

// listWatchable returns the URIs that the request may read: clients could invent any number.
func (s *Server) listWatchable(request *Request, uris ...string) (watched []string) {
	if s.opts.Watch == nil {
		return nil
	}
	for _, uri := range uris {
		r, _ := s.findReader(request, uri)
		if r != nil && request.Access.Check(r.scopes...) == nil {
			watched = append(watched, uri)
		}
	}
	return watched
}

// holdLocked makes sub hold the watching of uri, which it starts if there is none.
func (s *Server) holdLocked(sub *subscriber, uri string) {
	h := s.hub
	if h.closing || sub.held[uri] != nil {
		return
	}
	w := h.watched[uri]
	if w == nil || w.holders == 0 {
		w = &watching{previous: w, ready: make(chan struct{}), done: make(chan struct{})}
		var ctx context.Context
		ctx, w.end = context.WithCancel(h.life)
		h.watched[uri] = w
		h.watches.Add(1)
		go s.runWatch(ctx, w, w.previous, uri)
	}
	w.holders++
	if sub.held == nil {
		sub.held = map[string]*watching{}
	}
	sub.held[uri] = w
}

// dropLocked undoes holdLocked. The last holder ends the watching.
func (h *hub) dropLocked(sub *subscriber, uri string) {
	w := sub.held[uri]
	if w == nil {
		return
	}
	delete(sub.held, uri)
	if w.holders--; w.holders > 0 {
		return
	}
	w.end()
	switch {
	case w.begun:
	case w.previous != nil:
		h.watched[uri] = w.previous
	default:
		delete(h.watched, uri)
	}
}

// runWatch calls Watch once previous, which may be nil, has stopped, and stop when ctx has ended.
func (s *Server) runWatch(ctx context.Context, w, previous *watching, uri string) {
	h := s.hub
	if previous != nil {
		select {
		case <-previous.done:
		case <-ctx.Done():
		}
	}
	h.mu.Lock()
	w.begun = ctx.Err() == nil
	h.mu.Unlock()
	if !w.begun {
		h.watches.Done()
		return
	}
	stop := s.callWatch(ctx, uri)
	close(w.ready)
	context.AfterFunc(ctx, func() {
		defer h.watches.Done()
		s.callStop(ctx, stop, uri)
		h.mu.Lock()
		defer h.mu.Unlock()
		if next := h.watched[uri]; next == w {
			delete(h.watched, uri)
		} else if next != nil {
			next.previous = nil
		}
		close(w.done)
	})
}

func (s *Server) callWatch(ctx context.Context, uri string) (stop func()) {
	defer s.recoverAndReport(ctx, event.Where{Method: protocol.MethodSubscribe, Target: uri})
	return s.opts.Watch(ctx, uri)
}

func (s *Server) callStop(ctx context.Context, stop func(), uri string) {
	defer s.recoverAndReport(ctx, event.Where{Method: protocol.MethodUnsubscribe, Target: uri})
	if stop != nil {
		stop()
	}
}

// awaitWatch waits for Watch of w, which may be nil, to miss no later change.
func (h *hub) awaitWatch(ctx context.Context, w *watching) {
	if w == nil {
		return
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
	case <-h.closed:
	}
}
