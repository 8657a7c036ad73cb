package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
)

// pusher pushes questions to a client of a legacy revision with mcp-go's own calls. These
// report no progress and, when ctx ends, do not send a cancellation.
type pusher struct {
	server  *server.MCPServer
	session server.ClientSession // the client's own, never a shadow
	version protocol.Version
}

// newPusher returns nil where the session cannot carry a question, or there is none.
func newPusher(ctx context.Context, version protocol.Version) *pusher {
	s := server.ServerFromContext(ctx)
	if s == nil {
		return nil
	}
	session := server.ClientSessionFromContext(ctx)
	switch session.(type) {
	case server.SessionWithElicitation, server.SessionWithSampling, server.SessionWithRoots:
		return &pusher{s, session, version}
	}
	return nil
}

// Push implements [roundtrip.Pusher].
func (p *pusher) Push(ctx context.Context, question protocol.InputRequest,
	_ func()) (json.RawMessage, error) {
	request, err := encodeQuestion(question)
	if err != nil {
		return nil, err
	}
	ctx = p.server.WithContext(ctx, p.session)
	switch {
	case request.Elicitation != nil:
		if visit, ok := question.(*protocol.ElicitURL); ok {
			request.Elicitation.ElicitationID = visit.ElicitationID
		} else if p.version < protocol.V20251125 {
			request.Elicitation.Mode = "" // a member that earlier revisions lack
		}
		return encodeAnswer(p.server.RequestElicitation(ctx,
			mcp.ElicitationRequest{Params: *request.Elicitation}))
	case request.Sampling != nil:
		//lint:ignore SA1019 sampling is deprecated, and supported for as long as it exists
		return encodeAnswer(p.server.RequestSampling(ctx,
			mcp.CreateMessageRequest{CreateMessageParams: *request.Sampling}))
	case request.Roots != nil:
		return encodeAnswer(p.server.RequestRoots(ctx, mcp.ListRootsRequest{}))
	}
	return nil, fmt.Errorf("no way to ask a question of type %T", question)
}

// CompleteVisit implements [roundtrip.VisitCompleter].
func (p *pusher) CompleteVisit(ctx context.Context, elicitationID string) error {
	return p.server.SendElicitationComplete(ctx, p.session, elicitationID)
}

func encodeAnswer[R any](result *R, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	if result == nil {
		return nil, fmt.Errorf("the session returned neither an answer nor an error")
	}
	return json.Marshal(result)
}
