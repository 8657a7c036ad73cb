package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A leg is one request of a call.
type leg struct {
	method       string
	target       string // tool, prompt or resource URI, if any
	params       protocol.Params
	caps         *protocol.ClientCapabilities // declared capabilities; nil: the handlers'
	subscription *subscription                // set for subscriptions/listen only
}

// sendNegotiated sends one leg. If a lost session did not run it, a new connection repeats it.
func (c *Client) sendNegotiated(ctx context.Context, l leg,
	mirrored []protocol.MirroredParam) (protocol.Result, error) {
	conn, err := c.negotiator.connect(ctx)
	if err != nil {
		return nil, err
	}
	result, err := c.sendOrEmpty(ctx, conn, l, mirrored)
	if !errors.Is(err, protocol.ErrNotRun) || !errors.Is(err, protocol.ErrSessionGone) {
		return result, err
	}
	conn, failed := c.negotiator.connect(ctx)
	if failed != nil {
		err = errPrefix.Errorf("%w; no new one opens: %w; %w", protocol.ErrSessionGone, failed,
			protocol.ErrNotRun)
		return nil, &TransportError{l.method, err}
	}
	return c.sendOrEmpty(ctx, conn, l, mirrored)
}

func (c *Client) sendOrEmpty(ctx context.Context, conn *connection, l leg,
	mirrored []protocol.MirroredParam) (protocol.Result, error) {
	if empty := undeclaredList(conn, l.method); empty != nil {
		return empty, nil
	}
	result, err := c.sendOverConnection(ctx, conn, l, mirrored)
	if empty := c.unknownList(ctx, conn, l.method, err); empty != nil {
		return empty, nil
	}
	return result, err
}

// sendOverConnection sends one leg over conn. It sends it once more under a new id if the server
// refused it unprocessed, because of its version although the server names one that this client
// speaks (basic/versioning), or because the server speaks the other era.
func (c *Client) sendOverConnection(ctx context.Context, conn *connection, l leg,
	mirrored []protocol.MirroredParam) (protocol.Result, error) {
	result, err := c.sendOnce(ctx, conn, l, mirrored)
	said, ok := protocol.AsError(err)
	if ok && slices.Contains(said.SupportedVersions(), conn.version) {
		return c.sendOnce(ctx, conn, l, mirrored)
	}
	if other := c.negotiator.recheckEra(ctx, conn, err); other != nil && l.subscription == nil {
		if empty := undeclaredList(other, l.method); empty != nil {
			return empty, nil
		}
		return c.sendOnce(ctx, other, l, nil)
	}
	return result, err
}

// sendOnce sends one leg under a new id. It changes the parameters of l, which must be a copy.
func (c *Client) sendOnce(ctx context.Context, conn *connection, l leg,
	mirrored []protocol.MirroredParam) (protocol.Result, error) {
	if conn.isLegacy() {
		return c.sendInSession(ctx, conn, l)
	}
	id := c.nextID()
	meta := l.params.RequestMetadata()
	progress := progressHandler(ctx)
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
	result, err := c.decodeResponse(ctx, conn.version, req, resp)
	if err == nil {
		err = checkHandle(result, meta.Capabilities)
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

func (c *Client) fillMetadata(meta *protocol.RequestMeta, id protocol.ID, progress bool) {
	meta.Version = c.version
	meta.ClientInfo = &c.opts.Info
	meta.Capabilities = &c.caps
	meta.LogLevel = cmp.Or(meta.LogLevel, c.opts.LogLevel)
	if meta.ProgressToken.IsZero() && progress {
		meta.ProgressToken = id
	}
}

func (c *Client) decodeResponse(ctx context.Context, version protocol.Version,
	req *protocol.Request, resp *protocol.Response) (protocol.Result, error) {
	switch {
	case resp == nil:
		return nil, &TransportError{req.Method, fmt.Errorf("peer returned nil")}
	case resp.Error != nil && resp.ID.IsZero():
		// The server could not read the id. Only one request of this call is in flight.
		return nil, c.explainRefusal(resp.Error)
	case resp.ID != req.ID:
		err := fmt.Errorf("it has id %.64s, the request %s", resp.ID, req.ID)
		return nil, &ResponseError{req.Method, err}
	case resp.Error != nil:
		return nil, c.explainRefusal(resp.Error)
	}
	result, err := c.decodeResult(ctx, version, req.Method, resp.Result)
	if err != nil {
		if isComplete(version, resp.Result) {
			err = &resultError{err}
		}
		return nil, &ResponseError{req.Method, err}
	}
	return result, nil
}

// isComplete reports whether a result, even an invalid one, says that the request is done.
func isComplete(version protocol.Version, raw json.RawMessage) bool {
	done := true
	_ = jsonx.Members(raw, func(key, value []byte) error {
		done = done && (string(key) != "resultType" || string(value) == `"complete"`)
		return nil
	})
	return done || version.Era() == protocol.Legacy
}

func (c *Client) decodeResult(ctx context.Context, version protocol.Version, method string,
	raw json.RawMessage) (protocol.Result, error) {
	report := func(err error) { c.opts.warn(ctx, errPrefix.Errorf("%s: %w", method, err)) }
	// Two calls, because with a function variable report would be allocated for each request.
	if c.opts.RelayElicit != nil {
		return protocol.RelayResult(version, method, raw, report)
	}
	return protocol.DecodeResult(version, method, raw, report)
}
