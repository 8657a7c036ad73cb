package gosdk

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// NewClient returns a client for an upstream connection that only call uses. It declares the
// elicitation capabilities of the call's client, and passes questions of the upstream to
// the router, also those that its capabilities do not allow. key is the key with which the
// call was begun. base has the host's own options; nil is none. Its Capabilities are kept,
// except for elicitation and the tasks extension; without them the client declares elicitation
// alone.
func NewClient(router *elicitation.Router, call *elicitation.Call, key elicitation.UpstreamKey,
	impl *mcp.Implementation, base *mcp.ClientOptions) *mcp.Client {
	return newClient(router, key, call.UpstreamCapabilities().Elicitation, impl, base, nil)
}

// NewSharedClient is [NewClient] for a connection that calls share: any number at once over
// an [HTTPClient], one after the other elsewhere. The capabilities of a connection are fixed
// when it opens, before the calls are known. It therefore declares both modes; questions
// that the client of a call cannot be asked are refused. Requests that serve a call are sent
// with the context of [WithCall].
func NewSharedClient(router *elicitation.Router, key elicitation.UpstreamKey,
	impl *mcp.Implementation, base *mcp.ClientOptions) *mcp.Client {
	return newClient(router, key, allModes(), impl, base, nil)
}

func allModes() *protocol.ElicitationCapability {
	return &protocol.ElicitationCapability{Form: true, URL: true}
}

func newClient(router *elicitation.Router, key elicitation.UpstreamKey,
	modes *protocol.ElicitationCapability, impl *mcp.Implementation,
	base *mcp.ClientOptions, answers *upstream.Book) *mcp.Client {
	client := mcp.NewClient(impl, newClientOptions(router, key, modes, base))
	client.AddReceivingMiddleware(receiveQuestions(router, key, answers))
	return client
}

func newClientOptions(router *elicitation.Router, key elicitation.UpstreamKey,
	modes *protocol.ElicitationCapability, base *mcp.ClientOptions) *mcp.ClientOptions {
	opts := mcp.ClientOptions{}
	if base != nil {
		opts = *base
	}
	caps := mcp.ClientCapabilities{}
	if opts.Capabilities != nil {
		caps = *opts.Capabilities
	}
	opts.Capabilities = &caps
	caps.Extensions = maps.Clone(caps.Extensions)
	delete(caps.Extensions, protocol.ExtensionTasks) // calls are passed on without tasks
	caps.Elicitation, opts.ElicitationHandler = nil, nil
	if modes == nil {
		return &opts
	}
	caps.Elicitation = &mcp.ElicitationCapabilities{}
	if modes.Form {
		caps.Elicitation.Form = &mcp.FormElicitationCapabilities{}
	}
	if modes.URL {
		caps.Elicitation.URL = &mcp.URLElicitationCapabilities{}
	}
	opts.ElicitationHandler = ElicitationHandler(router, key)
	host := opts.ElicitationCompleteHandler
	opts.ElicitationCompleteHandler = func(ctx context.Context,
		req *mcp.ElicitationCompleteNotificationRequest) {
		// The router counts and logs the outcome; a notification has no response.
		_, _ = router.HandleURLCompletion(ctx, key, req.Params.ElicitationID)
		if host != nil {
			host(ctx, req)
		}
	}
	return &opts
}

// receiveQuestions is the receiving middleware that passes questions which the upstream
// sends to the router. The SDK's own handling would refuse, without the router, questions
// that were not declared and schemas that it does not know, and answers that do not fit
// after the router has recorded them.
func receiveQuestions(router *elicitation.Router, key elicitation.UpstreamKey,
	answers *upstream.Book) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			question, ok := req.(*mcp.ElicitRequest)
			if !ok || question.Params == nil {
				return next(ctx, method, req)
			}
			callID, rawID := takeTag(question.Params.Meta)
			id := upstream.Key([]byte(rawID))
			opts := &elicitation.ElicitOptions{CallID: callID}
			if answers != nil && id != "" {
				opts.Receipt = &elicitation.Receipt{}
				answers.Add(callID, id, opts.Receipt)
			}
			result, err := elicit(ctx, question, opts, func(params json.RawMessage,
				opts *elicitation.ElicitOptions) (*protocol.ElicitResult, error) {
				return router.ElicitFrom(ctx, key, params, opts)
			})
			if err != nil {
				answers.Settle(id, err) // there may be an answer that could not be encoded
				return nil, err
			}
			return result, nil
		}
	}
}

// ElicitationHandler returns the handler for questions of the upstream on the connection
// named by key, for hosts that make their client themselves. The SDK checks questions before
// it calls the handler, and answers afterwards: the router does not know of what it refuses.
// Nor does the handler know the stream of a question; use [NewSharedClient] for that.
func ElicitationHandler(router *elicitation.Router,
	key elicitation.UpstreamKey) func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult,
	error) {
	return func(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		callID, _ := takeTag(req.Params.Meta)
		opts := &elicitation.ElicitOptions{CallID: callID}
		return elicit(ctx, req, opts, func(params json.RawMessage,
			opts *elicitation.ElicitOptions) (*protocol.ElicitResult, error) {
			// The SDK calls the handler with the context of a call whose result has the
			// question, as results of revision 2026-07-28 do.
			if call := CallFromContext(ctx); call != nil && opts.CallID == "" {
				return call.Elicit(ctx, params, opts)
			}
			return router.ElicitFrom(ctx, key, params, opts)
		})
	}
}

// elicit puts a question by ask, and converts what goes in and out.
func elicit(ctx context.Context, req *mcp.ElicitRequest, opts *elicitation.ElicitOptions,
	ask func(json.RawMessage, *elicitation.ElicitOptions) (*protocol.ElicitResult, error),
) (*mcp.ElicitResult, error) {
	question := *req.Params
	if question.Mode == "" {
		question.Mode = "form" // the SDK would write an empty one
	}
	params, err := json.Marshal(&question)
	if err != nil {
		return nil, encodeError(fmt.Errorf("elicitation: params: %w", err))
	}
	opts.Progress = newProgressReporter(ctx, req.Session)
	answer, err := ask(params, opts)
	if err != nil {
		return nil, encodeError(err)
	}
	result, err := upstream.Convert[mcp.ElicitResult](answer)
	if err != nil {
		return nil, encodeError(err)
	}
	return &result, nil
}
