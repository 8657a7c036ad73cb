package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/relay"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

type sessions struct {
	mu       sync.Mutex
	attached map[*server.Session]*elicitation.Session
}

// clientOf describes the client of a call, without retaining the call.
func clientOf(call *server.Call) elicitation.SessionInfo {
	return elicitation.SessionInfo{Principal: call.Principal, Version: call.Version,
		Capabilities: call.Capabilities()}
}

// attach returns the router's session for a client, and a function that ends it if call-specific.
func (g *Gateway) attach(
	session *server.Session, info elicitation.SessionInfo,
) (*elicitation.Session, func(), error) {
	if session == nil {
		attached, err := g.router.Attach(info)
		if err != nil {
			return nil, nil, err
		}
		return attached, attached.Detach, nil
	}
	g.sessions.mu.Lock()
	defer g.sessions.mu.Unlock()
	if attached := g.sessions.attached[session]; attached != nil {
		return attached, func() {}, nil
	}
	info.Principal = session.Principal()
	info.Notify = elicitation.DeliverFunc(func(ctx context.Context, m protocol.Message) error {
		n, ok := m.(*protocol.Notification)
		if !ok {
			return fmt.Errorf("gateway: unexpected message %T", m)
		}
		return session.Send(ctx, n)
	})
	attached, err := g.router.Attach(info)
	if err != nil {
		return nil, nil, err
	}
	g.sessions.attached[session] = attached
	context.AfterFunc(session.Lifetime(), func() {
		g.sessions.mu.Lock()
		delete(g.sessions.attached, session)
		g.sessions.mu.Unlock()
		attached.Detach()
	})
	return attached, func() {}, nil
}

// begin registers a call on a connection with the router, until the returned function is called.
// ask puts pushed questions to the client; nil means that the upstream does not push.
func (g *Gateway) begin(ctx context.Context, session *server.Session,
	info elicitation.SessionInfo, conn *connection, ask *asker,
) (*elicitation.Call, func(), error) {
	attached, detach, err := g.attach(session, info)
	if err != nil {
		return nil, nil, err
	}
	var via elicitation.Via
	if ask != nil {
		ask.sender = elicitation.Sender{Session: attached.ID(), Principal: info.Principal}
		via = elicitation.ViaAsker(ask)
	}
	declared := conn.key.declared.declare()
	begun, err := g.router.Begin(ctx, elicitation.Origin{
		Session: attached, Principal: info.Principal, Capabilities: &declared,
	}, via, conn.name)
	if err != nil {
		detach()
		return nil, nil, err
	}
	return begun, func() { begun.End(); detach() }, nil
}

// An asker puts pushed questions to the client of a parked call.
type asker struct {
	gateway *Gateway
	parked  *relay.Parked
	sender  elicitation.Sender // of the client's progress notifications
	// The field ended is closed when the client's request ends, but not when only a push fails.
	ended <-chan struct{}
}

// Ask implements [elicitation.Asker].
func (a *asker) Ask(
	ctx context.Context, q elicitation.Question, delivered func(),
) (json.RawMessage, error) {
	if tracer := a.gateway.tracer; tracer != nil {
		ctx = tracer.CarrySpan(ctx, q.Upstream)
	}
	answer, err := a.parked.Ask(ctx, q.Request, &waiting.Push{
		Written: func(string) { delivered() },
		Extended: func() {
			params, err := json.Marshal(protocol.Progress{Token: protocol.StringID(q.ID)})
			if err == nil {
				a.gateway.router.HandleProgress(a.sender, &protocol.Notification{
					Method: protocol.NotifyProgress, Params: params})
			}
		},
	})
	if err == nil {
		return answer.Encode()
	}
	if _, said := protocol.AsError(err); said {
		return nil, err
	}
	select {
	case <-a.ended:
		if a.parked.Session() != nil {
			<-ctx.Done() // the question is withdrawn with the call; the delivery has not failed
		}
	default:
	}
	return nil, err
}

// Deliver implements [elicitation.FrameDeliverer] for completed visits, while the call runs.
func (a *asker) Deliver(ctx context.Context, m protocol.Message) error {
	session, n := a.parked.Session(), m.(*protocol.Notification)
	if session == nil {
		return fmt.Errorf("gateway: revision 2026-07-28 has no %s", n.Method)
	}
	var completed protocol.ElicitationCompleted
	if err := json.Unmarshal(n.Params, &completed); err != nil {
		return err
	}
	return session.ElicitationComplete(ctx, completed.ElicitationID)
}

func (c *connection) elicit(
	ctx context.Context, params json.RawMessage,
) (*protocol.ElicitResult, error) {
	return c.router.ElicitFrom(ctx, c.name, params)
}

// askURL puts to the client the visit that the upstream requires for a call (-32042).
func (c *connection) askURL(
	ctx context.Context, q *client.URLQuestion,
) (*protocol.ElicitResult, error) {
	params, err := protocol.AppendInputParams(nil, protocol.V20251125, &protocol.ElicitURL{
		Message: q.Message, URL: q.URL, ElicitationID: q.ElicitationID})
	if err != nil {
		return nil, err
	}
	return c.elicit(ctx, params)
}

// passOnVisitEnd announces a completed visit only to the client that was asked for it.
func (c *connection) passOnVisitEnd(ctx context.Context, n *protocol.Notification) {
	var completed protocol.ElicitationCompleted
	if n.Method == protocol.NotifyElicitationCompleted &&
		json.Unmarshal(n.Params, &completed) == nil {
		_, _ = c.router.HandleURLCompletion(ctx, c.name, completed.ElicitationID)
	}
}

// A request is one client request and its returned questions; in a session it covers all rounds.
type request struct {
	gateway *Gateway
	session *server.Session // nil in revision 2026-07-28
	ctx     context.Context

	mu    sync.Mutex
	begun *elicitation.Call // nil: no question was returned yet
	end   func()
	open  map[string]*elicitation.Relayed // by the client's key
	kept  bool                            // the client comes back by another call
}

type requestKey struct{} // in the contexts of requests

func requestFrom(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

func (r *request) withQuestions(ctx context.Context) context.Context {
	r.ctx = ctx
	ctx = context.WithValue(ctx, requestKey{}, r)
	if r.session == nil {
		return ctx
	}
	return waiting.WithPush(ctx, &waiting.Push{Written: func(key string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if q := r.open[key]; q != nil {
			r.begun.DeliverRelayed(q)
		}
	}})
}

// beginLocked registers the request with the router, once.
func (r *request) beginLocked(call *server.Call, conn *connection) (err error) {
	if r.begun == nil {
		r.open = map[string]*elicitation.Relayed{}
		r.begun, r.end, err = r.gateway.begin(r.ctx, r.session, clientOf(call), conn, nil)
	}
	return err
}

func (r *request) openQuestion(call *server.Call, conn *connection, key string,
	q protocol.InputRequest,
) (*elicitation.Relayed, error) {
	params, err := protocol.AppendInputParams(nil, protocol.V20260728, q)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.beginLocked(call, conn); err != nil {
		return nil, err
	}
	opened, err := r.begun.OpenRelayed(r.ctx, params)
	if err != nil {
		return nil, err
	}
	r.open[key] = opened
	return opened, nil
}

// completeQuestions ends the questions of the last round. It fails for late answers.
func (r *request) completeQuestions(call *server.Call, conn *connection,
	asked map[string]*elicitation.Relayed, answers protocol.InputResponses,
) error {
	if len(asked) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.beginLocked(call, conn); err != nil {
		return err
	}
	clear(r.open)
	left := maps.Clone(asked)
	var late error
	complete := func(q *elicitation.Relayed, result *protocol.ElicitResult) {
		if r.session != nil { // the server enforces the time, which progress may have extended
			q.Expires = time.Time{}
		}
		if err := r.begun.CompleteRelayed(q, result); err != nil {
			late = err
		}
	}
	for _, a := range answers {
		q := left[a.Key]
		delete(left, a.Key)
		if result, err := protocol.DecodeElicitResult(a.Result); q != nil && err == nil {
			complete(q, result)
		}
	}
	for _, q := range left {
		complete(q, nil)
	}
	return late
}

// endQuestions ends the request. Only questions that the client is shown by its end stay open.
func (r *request) endQuestions(req *server.Request, result protocol.Result, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun == nil {
		return
	}
	if _, asks := result.(*protocol.InputRequiredResult); r.kept || asks && r.session == nil {
		req.OnWritten(func() {
			for _, q := range r.open {
				r.begun.DeliverRelayed(q)
			}
		})
	} else {
		for _, q := range r.open {
			r.begun.FailRelayed(q, err)
		}
	}
	r.end()
}
