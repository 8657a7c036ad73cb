package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// Peer returns a server of the SDK as the peer of a hosted server: for a [hosted.Source] of one's
// own. Call it once for each server: it adds middleware to the server. opts may be nil.
func Peer(s *mcp.Server, opts *Options) protocol.LegacyPeer {
	p := &peer{server: s, opts: orDefault(opts), sessions: map[*session]struct{}{}}
	s.AddReceivingMiddleware(p.runHandlers)
	return p
}

type peer struct {
	server *mcp.Server
	opts   *Options
	runs   sync.Map // *run by the *mcp.RequestExtra of its request

	mu       sync.Mutex
	sessions map[*session]struct{}
	closed   bool
	styles   map[string]style // of handlers, by method and name
}

// A style is how a handler asks.
type style int

const (
	pushes     style = iota // on its own goroutine, as far as is known
	pushesElse              // on other goroutines
	returns                 // its questions, in the result
)

// maxStyles bounds what is remembered of handlers: the names of resources come from clients.
const maxStyles = 10_000

func (p *peer) styleOf(name string) style {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.styles[name]
}

func (p *peer) noteStyle(name string, s style) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.styles == nil || len(p.styles) >= maxStyles {
		p.styles = map[string]style{}
	}
	p.styles[name] = s
}

var errOutside = errors.New("gosdk: hosted servers have sessions only")

// Handle implements [protocol.Peer].
func (p *peer) Handle(context.Context, *protocol.Request, protocol.Back) (
	*protocol.Response, error) {
	return nil, errOutside
}

// Notify implements [protocol.Peer].
func (p *peer) Notify(context.Context, *protocol.Notification) error { return errOutside }

// Probe implements [protocol.LegacyPeer].
func (p *peer) Probe(context.Context, *protocol.Request) (*protocol.Response, bool, error) {
	return nil, true, nil
}

// OpenSession implements [protocol.LegacyPeer].
func (p *peer) OpenSession(ctx context.Context, initialize *protocol.Request,
	back protocol.BackCaller) (protocol.LegacySession, *protocol.Response, error) {
	x := &session{peer: p, back: back, caller: hosted.CallerFrom(ctx)}
	if x.caller == nil {
		x.caller = &hosted.Caller{}
	}
	x.life, x.end = context.WithCancel(context.Background())
	p.mu.Lock()
	closed := p.closed
	p.sessions[x] = struct{}{}
	p.mu.Unlock()
	if closed {
		_ = x.Close()
		return nil, nil, protocol.ErrSessionGone
	}
	var err error
	if x.pushing, err = x.connect(ctx, &mcp.ServerSessionState{LogLevel: "debug"}); err != nil {
		_ = x.Close()
		return nil, nil, err
	}
	request := *initialize
	if !p.opts.TrueElicitation {
		if request.Params, err = declareElicitation(initialize.Params); err != nil {
			_ = x.Close()
			return nil, nil, err
		}
	}
	response, err := x.pushing.send(ctx, &request, nil)
	if err != nil || response.Error != nil {
		_ = x.Close()
	}
	return x, response, err
}

// declareElicitation adds forms and URLs to the capabilities in the parameters of an initialize.
func declareElicitation(params json.RawMessage) (json.RawMessage, error) {
	var members, declared map[string]json.RawMessage
	err := json.Unmarshal(params, &members)
	if err == nil && members["capabilities"] != nil {
		err = json.Unmarshal(members["capabilities"], &declared)
	}
	if err != nil {
		return nil, fmt.Errorf("gosdk: initialize: %w", err)
	}
	if declared == nil {
		declared = map[string]json.RawMessage{}
	}
	declared["elicitation"] = json.RawMessage(`{"form":{},"url":{}}`)
	if members["capabilities"], err = json.Marshal(declared); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// Close implements [protocol.Peer]: it closes all sessions.
func (p *peer) Close() error {
	p.mu.Lock()
	p.closed = true
	open := maps.Clone(p.sessions)
	p.mu.Unlock()
	for x := range open {
		_ = x.Close()
	}
	return nil
}

// A session is one that the SDK's server has in two forms, as far as they are needed: one of an
// older revision, in which handlers may push questions, and one of revision 2026-07-28, in which
// the SDK lets them return questions.
type session struct {
	peer    *peer
	back    protocol.BackCaller
	caller  *hosted.Caller
	life    context.Context
	end     context.CancelFunc
	pushing *connection

	mu        sync.Mutex
	returning *connection // nil: not needed yet
}

// connect opens a connection of the SDK's server.
func (x *session) connect(ctx context.Context, state *mcp.ServerSessionState) (
	*connection, error) {
	c := newConnection(x)
	var err error
	c.session, err = x.peer.server.Connect(context.Background(), c,
		&mcp.ServerSessionOptions{State: state})
	return c, err
}

// connectReturning returns the connection for handlers that return their questions.
func (x *session) connectReturning() (*connection, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.life.Err() != nil {
		return nil, protocol.ErrSessionGone
	}
	if x.returning == nil {
		c, err := x.connect(hosted.WithCaller(context.Background(), x.caller), nil)
		if err != nil {
			return nil, err
		}
		x.returning = c
	}
	return x.returning, nil
}

// Notify implements [protocol.LegacySession].
func (x *session) Notify(ctx context.Context, n *protocol.Notification) error {
	return x.pushing.notify(ctx, n)
}

// Done implements [protocol.LegacySession].
func (x *session) Done() <-chan struct{} { return x.life.Done() }

// Err implements [protocol.LegacySession].
func (x *session) Err() error {
	if x.life.Err() != nil {
		return protocol.ErrSessionGone
	}
	return nil
}

// Close implements [protocol.LegacySession].
func (x *session) Close() error {
	x.end()
	x.peer.mu.Lock()
	delete(x.peer.sessions, x)
	x.peer.mu.Unlock()
	x.mu.Lock()
	returning := x.returning
	x.mu.Unlock()
	for _, c := range []*connection{x.pushing, returning} {
		if c != nil {
			c.shut()
		}
	}
	return nil
}

// Handle implements [protocol.LegacySession].
func (x *session) Handle(ctx context.Context, req *protocol.Request, back protocol.Back) (
	*protocol.Response, error) {
	caller, ok := back.(protocol.BackCaller)
	if !ok {
		return nil, errors.New("gosdk: the way back takes no questions")
	}
	name, retried := describeRequest(req)
	if retried || x.peer.styleOf(name) == returns {
		return x.handleReturning(ctx, req, caller)
	}
	r := newRun(ctx, x, caller)
	// Whoever returns questions is asked them by the SDK, on goroutines of its own. What is asked
	// there waits for the end of the handler, which tells whether the SDK did it.
	modern := r.caller.Version.Era() == protocol.Modern
	r.holdsBack = modern && x.peer.styleOf(name) == pushes
	response, err := x.pushing.send(ctx, req, r)
	switch {
	case err != nil:
		return nil, err
	case asksByResult(response.Error, r.heldBack.Load()):
		x.peer.noteStyle(name, returns)
		return x.handleReturning(ctx, req, caller)
	case r.heldBack.Load():
		x.peer.noteStyle(name, pushesElse)
		return x.pushing.send(ctx, req, newRun(ctx, x, caller))
	}
	if asks := questionsIn(response.Result); asks != nil {
		x.peer.noteStyle(name, returns)
		response.Result = asks
	}
	return response, nil
}

// asksByResult reports whether an error is the SDK's for a handler that has returned questions: it
// pushes those of tools and prompts, and takes a resource that only asks for a mistake. The texts
// are not documented: a test holds the SDK to them.
func asksByResult(e *protocol.Error, heldBack bool) bool {
	return e != nil && (heldBack && strings.HasPrefix(e.Message, "multi-round-trip:") ||
		strings.HasSuffix(e.Message, "read handler returned nil information"))
}

// questionsIn returns the questions, or the state alone, that a result has in a session of an older
// revision, as a result of revision 2026-07-28: where the SDK has pushed those of the first round
// the handler may have more. It returns nil where there are none.
func questionsIn(result json.RawMessage) json.RawMessage {
	var asks struct {
		ResultType string          `json:"resultType"`
		Requests   json.RawMessage `json:"inputRequests,omitempty"`
		State      *string         `json:"requestState,omitempty"`
	}
	if json.Unmarshal(result, &asks) != nil || asks.Requests == nil && asks.State == nil {
		return nil
	}
	asks.ResultType = "input_required"
	text, err := json.Marshal(asks)
	if err != nil {
		return nil
	}
	return text
}

// describeRequest returns what tells handlers apart, and whether the request brings answers.
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
	if err := json.Unmarshal(req.Params, &p); err != nil {
		slog.Debug("gosdk: parameters cannot be read", "error", err)
	}
	return req.Method + " " + p.Name + p.URI, p.Given != nil || p.State != nil
}

// handleReturning runs a handler that returns its questions.
func (x *session) handleReturning(ctx context.Context, req *protocol.Request,
	back protocol.BackCaller) (*protocol.Response, error) {
	c, err := x.connectReturning()
	if err != nil {
		return nil, err
	}
	own := *req
	if own.Params, err = x.declareRevision(req.Params); err != nil {
		return nil, err
	}
	response, err := c.send(ctx, &own, newRun(ctx, x, back))
	if err != nil {
		return nil, err
	}
	if asks := questionsIn(response.Result); asks != nil { // the SDK takes a state alone for an end
		response.Result = asks
	}
	return response, nil
}

// declareRevision adds what each request of revision 2026-07-28 declares.
func (x *session) declareRevision(params json.RawMessage) (json.RawMessage, error) {
	var members, meta map[string]json.RawMessage
	err := json.Unmarshal(params, &members)
	if err == nil && members["_meta"] != nil {
		err = json.Unmarshal(members["_meta"], &meta)
	}
	if err != nil {
		return nil, fmt.Errorf("gosdk: parameters: %w", err)
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	for key, value := range map[string]any{
		protocol.MetaProtocolVersion:    protocol.V20260728,
		protocol.MetaClientInfo:         x.caller.Client,
		protocol.MetaClientCapabilities: x.caller.Capabilities,
		protocol.MetaLogLevel:           protocol.LevelDebug,
	} {
		if meta[key], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	if members["_meta"], err = json.Marshal(meta); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}
