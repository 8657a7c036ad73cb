package client

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Client calls a server and answers its questions. All methods may be called concurrently.
type Client struct {
	peer       protocol.Peer
	opts       Options
	caps       protocol.ClientCapabilities
	version    protocol.Version // the modern revision that the client speaks
	lastID     atomic.Int64
	negotiator negotiator
	questions  questionHandlers
	humanClock waiting.Clock // time spent waiting for users
	mirrors    mirrors
	// Close cancels the context life, and with it every call and negotiation.
	life    context.Context
	endLife context.CancelCauseFunc
}

// New returns a client of the server behind peer; [Client.Close] closes it. opts may be nil.
// Nothing is sent before a call. If peer is nil or an option invalid, New fails; peer stays open.
func New(peer protocol.Peer, opts *Options) (*Client, error) {
	if peer == nil {
		return nil, errors.New("client: New: peer is nil")
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	legacy, ok := peer.(protocol.LegacyPeer)
	if !ok && o.Era == protocol.Legacy {
		return nil, errors.New("client: options: Era is Legacy, and a server that is called in " +
			"process serves modern revisions only: reach it over HTTP or a stream (NewStream)")
	}
	c := &Client{peer: peer, opts: o, version: protocol.Latest}
	c.caps = c.opts.declaredCapabilities()
	c.questions = questionHandlers{&c.opts, &c.caps}
	c.life, c.endLife = context.WithCancelCause(context.Background())
	c.negotiator.client = c
	if !ok || o.Era == protocol.Modern {
		c.negotiator.current.Store(&connection{version: c.version, peer: peer})
	} else {
		c.negotiator.peer = legacy
	}
	return c, nil
}

// Close fails running calls with [ErrClosed], without waiting for handlers, and closes the peer.
func (c *Client) Close() error {
	c.negotiator.close()
	if conn := c.negotiator.current.Load(); conn.isLegacy() {
		_ = conn.session.peer.Close() // best effort: the server may be gone
	}
	return c.peer.Close()
}

func (c *Client) nextID() protocol.ID { return protocol.IntID(c.lastID.Add(1)) }

// beginCall derives a context that Close cancels too. The caller must call the returned function.
func (c *Client) beginCall(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if c.life.Err() != nil {
		cancel(ErrClosed) // at once: AfterFunc would cancel on another goroutine
	}
	stop := context.AfterFunc(c.life, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// preferClosed returns [ErrClosed] if Close cancelled ctx, because transports word cancellations
// differently, and else err.
func preferClosed(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) == ErrClosed {
		return ErrClosed
	}
	return err
}
