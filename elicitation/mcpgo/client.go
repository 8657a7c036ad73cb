package mcpgo

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// completionTimeout bounds the notification of another replica that a visit is finished:
// mcp-go reads nothing else of the connection meanwhile.
const completionTimeout = 2 * time.Second

type callKey struct{}

// UpstreamContext returns a context for requests upstream: it ends when that of the client's
// request ends, and has none of its values, such as the session and the revision of the
// client.
func UpstreamContext(ctx context.Context) context.Context { return upstream.NewContext(ctx) }

// WithCall returns a context for calls of the upstream client that serve call. Where
// mcp-go derives the context of a question from that of the call which caused it, the
// question belongs to call.
func WithCall(ctx context.Context, call *elicitation.Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// NewClient returns a client of mcp-go, not yet started, on an upstream connection that
// only call uses. key is the key with which the call was begun. The client declares the
// elicitation capabilities of the call's client, and passes questions of the upstream to
// the router, also those that its capabilities do not allow. opts are the host's own, and
// may declare other capabilities, except for the tasks extension.
func NewClient(
	router *elicitation.Router, call *elicitation.Call, key elicitation.UpstreamKey,
	over transport.Interface, opts ...client.ClientOption,
) *client.Client {
	return newClient(router, key, over, call.UpstreamCapabilities().Elicitation, opts)
}

// NewSharedClient is [NewClient] for a connection that calls share. The capabilities of a
// connection are fixed when it opens, before the calls are known. It therefore declares
// both modes; questions that the client of a call cannot be asked are refused.
func NewSharedClient(
	router *elicitation.Router, key elicitation.UpstreamKey,
	over transport.Interface, opts ...client.ClientOption,
) *client.Client {
	modes := &protocol.ElicitationCapability{Form: true, URL: true}
	return newClient(router, key, over, modes, opts)
}

// withoutTasks leaves the tasks extension out: calls are passed on without tasks.
func withoutTasks(c mcp.ClientCapabilities) mcp.ClientCapabilities {
	c.Extensions = maps.Clone(c.Extensions)
	delete(c.Extensions, protocol.ExtensionTasks)
	return c
}

func newClient(router *elicitation.Router, key elicitation.UpstreamKey, over transport.Interface,
	modes *protocol.ElicitationCapability, opts []client.ClientOption) *client.Client {
	questions := &elicitationHandler{router, key}
	if modes != nil {
		declared := &mcp.ElicitationCapability{}
		if modes.Form {
			declared.Form = &struct{}{}
		}
		if modes.URL {
			declared.URL = &struct{}{}
		}
		opts = append([]client.ClientOption{
			client.WithClientCapabilities(mcp.ClientCapabilities{Elicitation: declared}),
			client.WithElicitationHandler(questions),
		}, opts...)
	}
	c := client.NewClient(wrapTransport(over, questions), opts...)
	client.WithClientCapabilities(withoutTasks(c.GetClientCapabilities()))(c)
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		if id, ok := n.Params.AdditionalFields["elicitationId"].(string); ok &&
			n.Method == protocol.NotifyElicitationCompleted {
			// Without a goroutine, since the stream of the call may end with the next
			// message. The router counts and logs the outcome; a notification has no
			// response.
			ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
			defer cancel()
			_, _ = router.HandleURLCompletion(ctx, key, id)
		}
	})
	return c
}

// ElicitationHandler returns the handler for questions of the upstream on the connection
// named by key, for hosts that make their client themselves. Over [Transport] its errors
// have their codes, and the upstream gets the client's progress if it gave a token.
func ElicitationHandler(router *elicitation.Router,
	key elicitation.UpstreamKey) client.ElicitationHandler {
	return &elicitationHandler{router, key}
}

type elicitationHandler struct {
	router *elicitation.Router
	key    elicitation.UpstreamKey
}

// Elicit asks the client of the call in the context, or of the only call on the
// connection. Its errors are for the upstream.
func (h *elicitationHandler) Elicit(ctx context.Context,
	request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	answer, err := h.ask(ctx, request.Params, nil)
	if err != nil {
		return nil, err
	}
	result, err := upstream.Convert[mcp.ElicitationResult](answer)
	if err != nil {
		return nil, errInternal()
	}
	return &result, nil
}

// handleRequest is Elicit for a question that the upstream sends. The client of mcp-go would
// refuse, without the router, questions that were not declared or that it cannot read.
func (h *elicitationHandler) handleRequest(ctx context.Context,
	r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	receipt, forget := expectAnswer(ctx, r.ID)
	answer, err := h.ask(ctx, r.Params, receipt)
	if err != nil {
		forget(err)
		return nil, err
	}
	result, err := json.Marshal(answer)
	if err != nil {
		forget(err)
		return nil, errInternal()
	}
	return transport.NewJSONRPCResultResponse(r.ID, result), nil
}

// ask asks the client. receipt is that of the answer, nil: there is none.
func (h *elicitationHandler) ask(ctx context.Context, question any,
	receipt *elicitation.Receipt) (*protocol.ElicitResult, error) {
	params, err := json.Marshal(question)
	if err != nil {
		return nil, errInternal()
	}
	progress := newProgressReporter(ctx)
	defer progress.stopReporting()
	opts := &elicitation.ElicitOptions{Receipt: receipt}
	if progress != nil {
		opts.Progress = progress.reportProgress
	}
	if call, ok := ctx.Value(callKey{}).(*elicitation.Call); ok && call != nil {
		return call.Elicit(ctx, params, opts)
	}
	return h.router.ElicitFrom(ctx, h.key, params, opts)
}

// errInternal returns the error for an upstream that does not name the cause.
func errInternal() error {
	return protocol.Errorf(protocol.CodeInternalError, "internal error")
}
