package gosdk

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// ClientOptions returns options for the client of an upstream connection that only call
// uses. The client declares the elicitation capabilities of the call's client, and passes
// questions of the upstream to it. key is the key with which the call was begun. base has
// the host's own options; nil is none. Its Capabilities are kept, except for elicitation;
// without them the client declares elicitation alone.
func ClientOptions(router *elicitation.Router, call *elicitation.Call, key elicitation.UpstreamKey,
	base *mcp.ClientOptions) *mcp.ClientOptions {
	return newClientOptions(router, key, call.UpstreamCapabilities().Elicitation, base)
}

// SharedClientOptions is [ClientOptions] for a connection that calls use one after the
// other; see [elicitation.Router.AcquireUpstream]. The capabilities of a connection are fixed
// when it opens, before the calls are known. It therefore declares both modes; questions
// that the client of the current call cannot be asked are refused.
func SharedClientOptions(router *elicitation.Router, key elicitation.UpstreamKey,
	base *mcp.ClientOptions) *mcp.ClientOptions {
	return newClientOptions(router, key, &protocol.ElicitationCapability{Form: true, URL: true},
		base)
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

// ElicitationHandler returns the handler for questions of the upstream on the connection
// named by key, for hosts that set their client's options themselves.
func ElicitationHandler(router *elicitation.Router,
	key elicitation.UpstreamKey) func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult,
	error) {
	return func(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		params, err := json.Marshal(req.Params)
		if err != nil {
			return nil, encodeError(fmt.Errorf("elicitation: params: %w", err))
		}
		answer, err := router.ElicitFrom(ctx, key, params,
			&elicitation.ElicitOptions{Progress: newProgressReporter(ctx, req.Session)})
		if err != nil {
			return nil, encodeError(err)
		}
		return encodeResult(answer)
	}
}

// encodeResult converts an answer to the SDK's type.
func encodeResult(answer *protocol.ElicitResult) (*mcp.ElicitResult, error) {
	data, err := json.Marshal(answer)
	if err != nil {
		return nil, encodeError(err)
	}
	var result mcp.ElicitResult
	if err := json.Unmarshal(data, &result); err != nil {
		return nil, encodeError(err)
	}
	return &result, nil
}
