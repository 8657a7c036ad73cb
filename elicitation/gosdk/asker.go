package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/internal/wire/accepthttp"
	"github.com/rondo-mcp/rondo/protocol"
)

// An asker asks the client of a session, and delivers progress to it, on the stream of the
// request that its context comes from.
type asker struct {
	session  *mcp.ServerSession
	header   http.Header // of the request, nil: there is none, or it did not come over HTTP
	endpoint *accepthttp.Endpoint
}

var _ elicitation.ProgressDeliverer = asker{}

// garbledResult stands for a result that the SDK cannot decode: the router counts it as one
// that is not valid.
var garbledResult = json.RawMessage("null")

// Ask implements [elicitation.Asker].
func (a asker) Ask(ctx context.Context, q elicitation.Question, _ func()) (json.RawMessage, error) {
	params, err := encodeQuestion(q.Request)
	if err != nil {
		return nil, err
	}
	if !accepthttp.AdmitsEvents(a.header) {
		if text := a.endpoint.CannotAsk(a.header, a.session.ID()); text != "" {
			return nil, protocol.Errorf(protocol.CodeCannotAsk, "%s", text)
		}
		ctx = accepthttp.WithoutStream(ctx)
	}
	var kept clientReply
	_, err = a.session.Elicit(context.WithValue(ctx, clientReplyKey{}, &kept), params)
	if _, garbled := errors.AsType[*json.UnmarshalTypeError](kept.err); garbled {
		return garbledResult, nil
	}
	if kept.err != nil {
		return nil, decodeError(kept.err)
	}
	if kept.result != nil {
		return json.Marshal(kept.result)
	}
	if err == nil {
		err = errors.New("the SDK returned no answer") // its middleware was not called
	}
	return nil, fmt.Errorf("elicitation: asking the client: %w", err)
}

// encodeQuestion converts a question to the SDK's type.
func encodeQuestion(question protocol.InputRequest) (*mcp.ElicitParams, error) {
	switch q := question.(type) {
	case *protocol.ElicitForm:
		meta, err := encodeMeta(q.Meta)
		return &mcp.ElicitParams{Meta: meta, Mode: "form", Message: q.Message,
			RequestedSchema: q.Schema}, err
	case *protocol.ElicitURL:
		meta, err := encodeMeta(q.Meta)
		return &mcp.ElicitParams{Meta: meta, Mode: "url", Message: q.Message, URL: q.URL,
			ElicitationID: q.ElicitationID}, err
	}
	return nil, fmt.Errorf("elicitation: a %T cannot be asked", question)
}

func encodeMeta(meta protocol.Meta) (mcp.Meta, error) {
	if len(meta) == 0 {
		return nil, nil
	}
	return upstream.Convert[mcp.Meta](meta)
}

// clientReply is what a client answered, before the SDK validates it. The router
// validates answers itself: one that is not valid is no failure to ask.
type clientReply struct {
	result *mcp.ElicitResult
	err    error
}

type clientReplyKey struct{}

// keepClientReply is the sending middleware that fills the clientReply of a context.
func keepClientReply(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if kept, ok := ctx.Value(clientReplyKey{}).(*clientReply); ok {
			kept.err = err
			if answer, ok := result.(*mcp.ElicitResult); ok && answer != nil {
				copied := *answer // the SDK fills in defaults
				kept.result = &copied
			}
		}
		return result, err
	}
}

// notifyClient sends a notification of the router to the client of ss.
func notifyClient(ctx context.Context, ss *mcp.ServerSession, m protocol.Message) error {
	id, err := upstream.DecodeCompletion(m)
	if err != nil {
		return err
	}
	return ss.NotifyElicitationComplete(ctx, &mcp.ElicitationCompleteParams{ElicitationID: id})
}
