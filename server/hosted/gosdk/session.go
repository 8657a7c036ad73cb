package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// A session holds up to two sessions of the SDK's server: one of an older revision, in which
// handlers may push questions, and one of revision 2026-07-28, in which they may return them.
type session struct {
	*peer
	back      protocol.BackCaller
	caller    *hosted.Caller
	opening   json.RawMessage // the client's initialize parameters
	life      context.Context // ends with the session
	end       context.CancelFunc
	pushing   *connection
	abandoned atomic.Bool // a handler goes on after its call

	mu        sync.Mutex
	returning *connection // nil: not needed yet
	lastID    float64
	waiting   map[any]*run // requests without a response yet, by id
}

func newSession(p *peer, caller *hosted.Caller, opening json.RawMessage,
	back protocol.BackCaller) (*session, error) {
	if caller == nil {
		caller = &hosted.Caller{}
	}
	x := &session{peer: p, back: back, caller: caller, opening: opening,
		waiting: map[any]*run{}}
	x.life, x.end = context.WithCancel(context.Background())
	var err error
	if x.pushing, err = x.connect(&mcp.ServerSessionState{LogLevel: "debug"}); err != nil {
		x.end()
		return nil, fmt.Errorf("gosdk: %w", err)
	}
	return x, nil
}

// connectReturning returns the connection for handlers that return questions. To the SDK, the
// client has revision 2026-07-28 and true capabilities: handlers return supported questions.
func (x *session) connectReturning() (*connection, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.life.Err() != nil {
		return nil, errGone
	}
	if x.returning == nil {
		var opened mcp.InitializeParams
		if err := json.Unmarshal(x.opening, &opened); err != nil {
			return nil, fmt.Errorf("gosdk: %w", err)
		}
		opened.ProtocolVersion = string(protocol.V20260728)
		c, err := x.connect(&mcp.ServerSessionState{InitializeParams: &opened,
			InitializedParams: &mcp.InitializedParams{}, LogLevel: "debug"})
		if err != nil {
			return nil, fmt.Errorf("gosdk: %w", err)
		}
		x.returning = c
	}
	return x.returning, nil
}

var errGone = fmt.Errorf("gosdk: %w", protocol.ErrSessionGone)

func (x *session) Done() <-chan struct{} { return x.life.Done() }

func (x *session) Err() error {
	if x.life.Err() != nil {
		return errGone
	}
	return nil
}

// Close waits for handlers, unless one was already abandoned.
func (x *session) Close() error {
	x.end()
	x.forget(x)
	x.mu.Lock()
	open := [...]*connection{x.pushing, x.returning}
	x.mu.Unlock()
	timeout := time.NewTimer(leaveTimeout)
	defer timeout.Stop()
	for _, c := range open {
		if c == nil {
			continue
		}
		ended := c.shut()
		if x.abandoned.Load() {
			continue
		}
		select {
		case <-ended:
		case <-timeout.C:
			x.abandoned.Store(true)
		}
	}
	return nil
}

const notifyRootsChanged = "notifications/roots/list_changed"

// Notify returns when the server has handled the notification.
func (x *session) Notify(ctx context.Context, n *protocol.Notification) error {
	own := &jsonrpc.Request{Method: n.Method, Params: n.Params}
	switch n.Method {
	case protocol.NotifyInitialized, notifyRootsChanged:
	default: // the SDK drops some methods
		return x.deliver(ctx, x.pushing, own)
	}
	r := newRun(ctx, x, x.back)
	own.Extra = r.extra
	defer r.begin()()
	if err := x.deliver(ctx, x.pushing, own); err != nil {
		return err
	}
	select {
	case <-r.left:
	case <-x.life.Done():
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.panicAgain()
	return nil
}

func (x *session) deliver(ctx context.Context, c *connection, m jsonrpc.Message) error {
	select {
	case c.in <- m:
		return nil
	case <-x.life.Done():
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (x *session) send(ctx context.Context, c *connection, req *protocol.Request, r *run) (
	*protocol.Response, error) {
	r.params = req.Params
	own := &jsonrpc.Request{Method: req.Method, Params: req.Params, Extra: r.extra}
	defer r.begin()()
	x.mu.Lock()
	x.lastID++
	own.ID, _ = jsonrpc.MakeID(x.lastID) // never fails for a number
	x.waiting[own.ID.Raw()] = r
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.waiting, own.ID.Raw())
	}()
	if err := x.deliver(ctx, c, own); err != nil {
		return nil, err
	}
	response, err := x.await(ctx, r)
	r.panicAgain()
	if response != nil {
		response.ID = req.ID
	}
	return response, err
}

// leaveTimeout is how long an abandoned handler that ignores its context may run.
const leaveTimeout = 5 * time.Second

func (x *session) await(ctx context.Context, r *run) (*protocol.Response, error) {
	var tooLong <-chan time.Time
	done := ctx.Done()
	for {
		select {
		case response := <-r.answered:
			return response, nil
		case <-x.life.Done():
			select {
			case response := <-r.answered: // it came before the end
				return response, nil
			default:
				return nil, errGone
			}
		case <-done:
			done, tooLong = nil, time.After(leaveTimeout)
		case <-tooLong:
			x.abandoned.Store(true)
			return nil, fmt.Errorf("gosdk: the handler goes on after its call: %w",
				context.Cause(ctx))
		}
	}
}

func (x *session) Handle(ctx context.Context, req *protocol.Request, back protocol.Back) (
	*protocol.Response, error) {
	caller, ok := back.(protocol.BackCaller)
	if !ok {
		return nil, errors.New("gosdk: the way back takes no questions")
	}
	name, retried := describeRequest(req)
	response, err := x.runHandler(ctx, req, caller, name, retried)
	if err == nil && publishQuestions(req.Method, response) {
		x.noteStyle(name, returns)
	}
	return response, err
}

func (x *session) runHandler(ctx context.Context, req *protocol.Request, back protocol.BackCaller,
	name string, retried bool) (*protocol.Response, error) {
	known := x.styleOf(name)
	r := newRun(ctx, x, back)
	modern := r.caller.Version.Era() == protocol.Modern
	// In sessions of older revisions the SDK sends returned questions, and handlers may push.
	if retried || modern && (known == returns || x.opts.TrueRevision) {
		return x.runReturning(ctx, req, r)
	}
	// The SDK sends returned questions itself, on its own goroutines. Questions from other
	// goroutines are held back until the handler ends, which tells whether it returned them.
	// Handlers known to push need not run again for that.
	r.holdsBack = known == pushes && modern
	response, err := x.send(ctx, x.pushing, req, r)
	heldBack := r.hasHeldBack()
	switch {
	case err != nil:
		return nil, err
	case hasReturnedQuestions(response.Error, heldBack):
		x.noteStyle(name, returns)
		return x.runReturning(ctx, req, newRun(ctx, x, back))
	case mayReturnQuestions(req.Method, response.Error):
		return x.runReturning(ctx, req, newRun(ctx, x, back))
	case heldBack:
		x.noteStyle(name, pushesElse)
		return x.send(ctx, x.pushing, req, newRun(ctx, x, back))
	}
	return response, nil
}

func (x *session) runReturning(ctx context.Context, req *protocol.Request, r *run) (
	*protocol.Response, error) {
	c, err := x.connectReturning()
	if err != nil {
		r.cancel(err)
		return nil, err
	}
	return x.send(ctx, c, req, r)
}

// describeRequest returns the handler's name, and whether the request brings answers.
func describeRequest(req *protocol.Request) (name string, retried bool) {
	if !protocol.MultiRoundTrip(req.Method) {
		return req.Method, false
	}
	var p struct {
		Name  string          `json:"name"`
		URI   string          `json:"uri"`
		Given json.RawMessage `json:"inputResponses"`
		State *string         `json:"requestState"`
	}
	_ = json.Unmarshal(req.Params, &p) // the SDK refuses unreadable messages
	return req.Method + " " + p.Name + p.URI, p.Given != nil || p.State != nil
}
