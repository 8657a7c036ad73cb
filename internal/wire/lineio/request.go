package lineio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A request is a request being served, the [protocol.Back] of its handler.
type request struct {
	server *Server
	task   inflight.Request

	// Guarded by server.mu.
	waiting  bool // for a person; counted in server.waitingCount
	answered bool // later calls of SetWaiting are ignored

	onWritten func() // called when the response is written; may be nil
}

// OnWritten sets a function to call when the response is written. Only the serving code calls it.
func (r *request) OnWritten(f func()) { r.onWritten = f }

func (r *request) SetWaiting(waiting bool) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if !r.answered {
		r.server.setWaitingLocked(r, waiting)
	}
}

func (s *Server) setWaitingLocked(r *request, waiting bool) {
	switch {
	case waiting && !r.waiting:
		s.waitingCount++
	case !waiting && r.waiting:
		s.waitingCount--
	}
	r.waiting = waiting
}

func (s *Server) startRequest(ctx context.Context, req *protocol.Request,
	reply func(*protocol.Response)) {
	r := &request{server: s}
	r.task.Uncancellable = req.Method == protocol.MethodInitialize
	if req.Method == protocol.MethodListen {
		r.task.DrainCause = s.opts.SubscriptionEnd
	}
	ctx = r.task.Start(ctx, r)
	if why, refusal := s.addRequest(req.ID, r); refusal != nil {
		r.task.Cancel(nil)
		reply(s.refuseLine(ctx, why, req.ID, refusal))
		return
	}
	// The goroutine does not refer to req, so that the line can be freed while the handler runs.
	id, serve := req.ID, s.peer.Admit(req, r)
	go func() {
		inflight.GrowStack()
		defer s.requests.End(id.Value(), &r.task)
		defer r.task.Cancel(nil)
		// The client gets a response even if a handler ends its goroutine.
		response := &protocol.Response{ID: id, Error: rules.InternalError()}
		defer func() { s.answerRequest(id, r, response, reply) }()
		if served, err := serve(ctx); err == nil {
			response = served
		}
	}()
}

// addRequest adds a request to those in flight or refuses it. Only the reading goroutine calls it.
func (s *Server) addRequest(id protocol.ID, r *request) (event.RefusalReason, *protocol.Error) {
	switch err := s.requests.Begin(id.Value(), &r.task); {
	case errors.Is(err, inflight.ErrDraining):
		return words.RefusedClosing, waiting.RefuseClosing()
	case errors.Is(err, inflight.ErrDuplicate):
		return words.RefusedDuplicateID, protocol.Errorf(protocol.CodeInvalidRequest,
			"invalid request: a request with this id is running")
	}
	s.mu.Lock()
	waitingCount := s.waitingCount
	s.mu.Unlock()
	if s.requests.Len()-waitingCount > s.opts.MaxInFlight {
		s.requests.End(id.Value(), &r.task)
		return words.RefusedRequests, quota.Refuse(quota.Total, time.Second,
			"too many requests are running; try again in %s", time.Second)
	}
	return "", nil
}

// answerRequest ends a request with the response, unless the client cancelled it. The id is freed
// before the response is sent, because the client may then reuse it.
func (s *Server) answerRequest(id protocol.ID, r *request, response *protocol.Response,
	reply func(*protocol.Response)) {
	if !s.freeRequest(id, r) {
		response = nil
	} else if r.task.DrainCause != nil && response.Error == nil {
		s.announceEnd(response)
	}
	reply(response)
	if r.onWritten != nil && response != nil {
		r.onWritten()
	}
}

// freeRequest frees the id of a served request and reports whether to answer it: false if
// cancelled. server.mu is not held during calls of the set, whose mutex is held around SetWaiting.
func (s *Server) freeRequest(id protocol.ID, r *request) bool {
	s.requests.Free(id.Value())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setWaitingLocked(r, false)
	r.answered = true
	return !r.task.IsCancelled()
}

// announceEnd announces the end of a subscription, as required (basic/patterns/cancellation).
func (s *Server) announceEnd(response *protocol.Response) {
	params := []byte(`{"requestId":` + response.ID.String() + `}`)
	_ = s.Send(context.Background(),
		&protocol.Notification{Method: protocol.NotifyCancelled, Params: params})
}

// cancelRequest handles notifications/cancelled. It ignores ids not in flight.
func (s *Server) cancelRequest(params []byte) {
	var c protocol.Cancelled
	if jsonx.Decode(params, &c) != nil {
		return
	}
	s.requests.Cancel(c.RequestID, inflight.ErrCancelled)
}

// Notify implements [protocol.Back]. It sends nothing for a cancelled request. An invalid message
// from a handler is an error, and must not break the stream for other requests.
func (r *request) Notify(ctx context.Context, n *protocol.Notification) error {
	return r.sendUnlessCancelled(ctx, n, r)
}

// Send sends a request to the client, or a notification that withdraws a request. The notification
// is sent even if the client has cancelled r.
func (r *request) Send(ctx context.Context, m protocol.Message) error {
	if _, withdraws := m.(*protocol.Notification); withdraws {
		return r.sendUnlessCancelled(ctx, m, nil)
	}
	return r.sendUnlessCancelled(ctx, m, r)
}

// sendUnlessCancelled sends m, unless the request unless, which may be nil, has been cancelled.
func (r *request) sendUnlessCancelled(ctx context.Context, m protocol.Message,
	unless *request) error {
	if unless != nil && unless.task.IsCancelled() {
		return inflight.ErrCancelled
	}
	line, err := Encode(m)
	if err != nil {
		return fmt.Errorf("server: notify: %w", err)
	}
	return r.server.sendLine(ctx, line, unless)
}
