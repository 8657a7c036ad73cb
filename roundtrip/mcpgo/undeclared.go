package mcpgo

import (
	"context"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// pushFailures reports the questions of an unmodified handler that were not asked or got
// no answer. Where the client has not declared that it can be asked, the handler gets the
// error that mcp-go returns without the adapter.
type pushFailures struct {
	adapter *Adapter
	call    roundtrip.Call
}

var errNoSampling = errors.New("session does not support sampling") // mcp-go has no name for it

// checkDeclared returns mcp-go's own error for a question that the client has not declared
// it can answer, nil if the question is to be asked.
func (u *pushFailures) checkDeclared(ctx context.Context, q mcp.InputRequest) error {
	if u == nil || u.adapter.opts.MustAsk {
		return nil
	}
	asked, err := decodeQuestion(q)
	if err != nil || roundtrip.CanAsk(ctx, asked.Kind()) {
		return nil // asking returns the error
	}
	switch asked.Kind() {
	case protocol.KindCreateMessage:
		err = errNoSampling
	case protocol.KindListRoots:
		err = server.ErrRootsNotSupported
	default:
		err = server.ErrElicitationNotSupported
	}
	u.adapter.funnel.NoteFailedPush(ctx, u.call, asked.Kind(), err, true)
	return err
}

// reportFailedPush reports to the funnel that a question failed which mcp-go sent to the
// client's session. The handler may ignore the error; the funnel does not.
func (u *pushFailures) reportFailedPush(ctx context.Context, q mcp.InputRequest, err error) {
	if err == nil {
		return
	}
	if asked, unreadable := decodeQuestion(q); unreadable == nil {
		tolerated := !u.adapter.opts.MustAsk && !roundtrip.CanAsk(ctx, asked.Kind())
		u.adapter.funnel.NoteFailedPush(ctx, u.call, asked.Kind(), readClientError(err),
			tolerated)
	}
}

// relayAsker relays mcp-go's calls to the client's own session.
type relayAsker struct {
	*pushFailures
	server *server.MCPServer
	real   server.ClientSession
}

// Elicit asks the person.
func (r *relayAsker) Elicit(ctx context.Context,
	request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return relayQuestion(ctx, r, elicitInput(request), r.server.RequestElicitation, request)
}

// CreateMessage asks the client's model.
func (r *relayAsker) CreateMessage(ctx context.Context,
	request mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	return relayQuestion(ctx, r, mcp.NewSamplingInputRequest(request.CreateMessageParams),
		//lint:ignore SA1019 sampling is deprecated, and supported for as long as it exists
		r.server.RequestSampling, request)
}

// ListRoots asks for directories.
func (r *relayAsker) ListRoots(ctx context.Context,
	request mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return relayQuestion(ctx, r, mcp.NewRootsInputRequest(), r.server.RequestRoots, request)
}

// relayQuestion relays a call, q to the funnel. Where no question can go out it does not.
func relayQuestion[Q, R any](ctx context.Context, r *relayAsker, q mcp.InputRequest,
	request func(context.Context, Q) (*R, error), question Q) (*R, error) {
	if p, ok := r.call.Push.(*pusher); ok && p.CannotPush() != "" {
		err := errors.New(p.CannotPush())
		r.reportFailedPush(ctx, q, err)
		return nil, err
	}
	result, err := requestWhenQueued(r.server.WithContext(ctx, r.real), func() {}, request,
		question)
	r.reportFailedPush(ctx, q, err)
	return result, err
}
