package client

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Client calls a server, answering its questions on the way. All methods may
// be called concurrently.
type Client struct {
	peer       protocol.Peer
	opts       Options
	caps       protocol.ClientCapabilities
	version    protocol.Version // the modern one
	lastID     atomic.Int64
	negotiator negotiator
	questions  questionHandlers
	humanClock humanClock
	mirrors    mirrors
	cache      *cache // nil: nothing is reused
	// life ends when the client is closed, and every call with it. It belongs
	// to the client and to no call, which is why it is kept here.
	life    context.Context
	endLife context.CancelCauseFunc
}

// New returns a client of the server behind peer, which it owns from then on:
// [Client.Close] closes it. Nil options mean defaults. Nothing is sent before
// the first call. New panics if peer is nil.
func New(peer protocol.Peer, opts *Options) *Client {
	if peer == nil {
		panic("client: New with a nil peer")
	}
	c := &Client{peer: peer, opts: opts.withDefaults(), version: protocol.Latest}
	c.caps = c.opts.capabilities()
	c.questions = questionHandlers{&c.opts, &c.caps}
	varied, ok := peer.(interface{ CredentialsVary() bool })
	c.cache = newCache(c.opts.Cache, ok && varied.CredentialsVary())
	c.life, c.endLife = context.WithCancelCause(context.Background())
	c.negotiator.client = c
	c.negotiator.presetConnection()
	return c
}

// Capabilities returns what the client declares with every request.
func (c *Client) Capabilities() protocol.ClientCapabilities { return c.caps }

// Close ends every call that is running, with [ErrClosed], and the session if
// there is one, and closes the peer. It does not wait for handlers.
func (c *Client) Close() error {
	c.endLife(ErrClosed)
	c.negotiator.awaitEnd()
	if conn := c.negotiator.current.Load(); conn.isLegacy() {
		_ = conn.session.peer.Close() // best effort: the server may be gone
	}
	return c.peer.Close()
}

func (c *Client) nextID() protocol.ID { return protocol.IntID(c.lastID.Add(1)) }

// A leg is one request as it goes out, of a call that may take several.
type leg struct {
	method       string
	target       string // tool, prompt or URI; empty where the method has none
	params       protocol.Params
	caps         *protocol.ClientCapabilities // nil: those of the handlers
	subscription *subscription                // of subscriptions/listen only
}

// send sends one leg under a new id and returns the decoded result. It fills
// in the metadata of l's parameters, which must not be the caller's.
func (c *Client) sendOnce(ctx context.Context, conn *connection, l leg, mirrored []protocol.MirroredParam) (protocol.Result, error) {
	if conn.isLegacy() {
		return c.sendInSession(ctx, conn, l)
	}
	id := c.nextID()
	meta := l.params.RequestMetadata()
	progress := c.progressHandler(ctx)
	c.fillMetadata(meta, id, progress != nil)
	if l.caps != nil {
		meta.Capabilities = l.caps
	}
	params, err := protocol.EncodeParams(l.params)
	if err != nil {
		return nil, errPrefix.Errorf("%s: %w", l.method, err)
	}
	req := &protocol.Request{
		ID:     id,
		Method: l.method,
		Params: params,
		Mirror: protocol.Mirror{Version: c.version, Name: l.target, Params: mirrored},
	}
	if l.subscription != nil {
		l.subscription.startRequest(id)
	}
	back := c.newReceiver(meta.ProgressToken, progress, l.subscription)
	defer back.stopReceiving()
	resp, err := conn.peer.Handle(ctx, req, back.asBack())
	if failed := back.firstError(); failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, &TransportError{l.method, err}
	}
	return c.decodeResponse(conn.version, req, resp)
}

// open checks that a response answers the request and returns its result.
func (c *Client) decodeResponse(version protocol.Version, req *protocol.Request, resp *protocol.Response) (protocol.Result, error) {
	switch {
	case resp == nil:
		return nil, &TransportError{req.Method, fmt.Errorf("peer returned nil")}
	case resp.Error != nil && resp.ID.IsZero():
		// The server could not read the id; there is no other request on the
		// way that it could mean.
		return nil, c.explainRefusal(resp.Error)
	case resp.ID != req.ID:
		return nil, &ResponseError{req.Method, fmt.Errorf("it has id %.64s, the request %s", resp.ID, req.ID)}
	case resp.Error != nil:
		return nil, c.explainRefusal(resp.Error)
	}
	result, err := protocol.DecodeResult(version, req.Method, resp.Result)
	if err != nil {
		return nil, &ResponseError{req.Method, err}
	}
	return result, nil
}

// fillMeta declares version, name and capabilities, whatever the caller put
// there: the client answers for what it declares.
func (c *Client) fillMetadata(meta *protocol.RequestMeta, id protocol.ID, progress bool) {
	meta.Version = c.version
	meta.ClientInfo = &c.opts.Info
	meta.Capabilities = &c.caps
	if meta.LogLevel == "" {
		meta.LogLevel = c.opts.LogLevel
	}
	if meta.ProgressToken.IsZero() && progress {
		meta.ProgressToken = id
	}
}

// begin derives the context of a call: it also ends when the client is closed.
func (c *Client) beginCall(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if c.life.Err() != nil {
		cancel(ErrClosed) // at once: AfterFunc would take its time
	}
	stop := context.AfterFunc(c.life, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// A budget is the time that the server may still take over a call.
type budget struct {
	isLimited bool
	remaining time.Duration
}

// spend runs f with a context that ends when the budget is used up, and takes
// the time that f took from it. When the budget, and not ctx, is what ended f,
// the error is a [*TimeoutError].
func (b *budget) runLimited(ctx context.Context, c *Client, method string, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if !b.isLimited {
		return preferClosed(ctx, f(ctx))
	}
	limited, used, cancel := c.humanClock.withTimeout(ctx, b.remaining)
	defer cancel()
	err := f(limited)
	b.remaining -= used()
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return &TimeoutError{method, c.opts.Timeout}
	}
	return preferClosed(ctx, err)
}

// endedBy returns the error of something that ran under ctx. A closed client
// says so, whatever the transport made of the cancellation.
func preferClosed(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) == ErrClosed {
		return ErrClosed
	}
	return err
}
