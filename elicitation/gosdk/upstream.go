package gosdk

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// ClientOptions returns options for the client of an upstream connection of the
// call's own: what the call's client can be asked is declared to the upstream,
// and what the upstream asks on the connection goes to that client. key is the
// one that the call was begun with. base holds the host's own options; nil is
// none. Its Capabilities, where it has some, are kept but for elicitation;
// without them nothing is declared that the host did not ask for.
func ClientOptions(router *elicitation.Router, call *elicitation.Call, key elicitation.UpstreamKey, base *mcp.ClientOptions) *mcp.ClientOptions {
	return newClientOptions(router, key, call.UpstreamCapabilities().Elicitation, base)
}

// SharedClientOptions is [ClientOptions] for a connection that calls share, one
// after the other: see [elicitation.Router.Exclusive]. The capabilities of a
// connection are fixed when it opens, before it is known who will be asked, so
// that both modes are declared; a question that the client of the moment cannot
// be asked is refused when it comes.
func SharedClientOptions(router *elicitation.Router, key elicitation.UpstreamKey, base *mcp.ClientOptions) *mcp.ClientOptions {
	return newClientOptions(router, key, &protocol.ElicitationCapability{Form: true, URL: true}, base)
}

func newClientOptions(router *elicitation.Router, key elicitation.UpstreamKey, modes *protocol.ElicitationCapability, base *mcp.ClientOptions) *mcp.ClientOptions {
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
	opts.ElicitationCompleteHandler = func(ctx context.Context, req *mcp.ElicitationCompleteNotificationRequest) {
		// The router has counted and logged what became of it; a notification has nobody to tell.
		_, _ = router.ElicitationCompleted(ctx, key, req.Params.ElicitationID)
		if host != nil {
			host(ctx, req)
		}
	}
	return &opts
}

// ElicitationHandler returns the handler for what the upstream asks on the
// connection named by key, for hosts that put their client's options together
// themselves.
func ElicitationHandler(router *elicitation.Router, key elicitation.UpstreamKey) func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	return func(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		params, err := json.Marshal(req.Params)
		if err != nil {
			return nil, encodeError(fmt.Errorf("elicitation: params: %w", err))
		}
		answer, err := router.ElicitFrom(ctx, key, params, &elicitation.ElicitOptions{Progress: newProgressReporter(ctx, req.Session)})
		if err != nil {
			return nil, encodeError(err)
		}
		return encodeResult(answer)
	}
}

// encodeResult spells an answer for the SDK.
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
