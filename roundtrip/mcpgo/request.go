package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// hostRequest is what the adapter needs of a request that mcp-go passes to a middleware.
type hostRequest struct {
	method    string
	target    string
	arguments any // the state is bound to their encoding
	header    http.Header
	retry     mcp.MultiRoundTripParams
	meta      *mcp.Meta
	isTask    bool // runs in the background, so that no response can ask
}

func readToolRequest(r mcp.CallToolRequest) hostRequest {
	return hostRequest{method: protocol.MethodCallTool, target: r.Params.Name,
		arguments: r.GetRawArguments(),
		header:    r.Header, retry: r.Params.MultiRoundTripParams, isTask: r.Params.Task != nil,
		meta: r.Params.Meta}
}

func readPromptRequest(r mcp.GetPromptRequest) hostRequest {
	in := hostRequest{method: protocol.MethodGetPrompt, target: r.Params.Name, header: r.Header,
		retry: r.Params.MultiRoundTripParams, meta: r.Params.Meta}
	if r.Params.Arguments != nil { // a nil map in an interface would be null
		in.arguments = r.Params.Arguments
	}
	return in
}

// readResourceRequest leaves the arguments out: mcp-go derives them from the URI, to which
// the state is bound anyway.
func readResourceRequest(r mcp.ReadResourceRequest) hostRequest {
	return hostRequest{method: protocol.MethodReadResource, target: r.Params.URI, header: r.Header,
		retry: r.Params.MultiRoundTripParams, meta: r.Params.Meta}
}

func progressToken(meta *mcp.Meta) any {
	if meta == nil {
		return nil
	}
	return meta.ProgressToken
}

// newCall converts the request for the funnel. Its errors are the client's mistakes.
func (a *Adapter) newCall(ctx context.Context, in hostRequest) (roundtrip.Call, error) {
	call := roundtrip.Call{
		Method: in.method, Target: in.target,
		// mcp-go decodes an absent state and an empty one alike.
		EmptyStateIsAbsent: true,
	}
	if in.retry.RequestState != "" {
		call.State = protocol.StateText(in.retry.RequestState)
	}
	var err error
	if call.Arguments, err = encodeArguments(in.arguments); err != nil {
		return call, err
	}
	if call.Responses, err = encodeResponses(in.retry.InputResponses); err != nil {
		return call, err
	}
	var declared mcp.ClientCapabilities
	call.Version, declared = readClient(ctx, in.header)
	if call.Capabilities, err = decodeCapabilities(declared); err != nil {
		return call, err
	}
	if in.meta != nil && len(in.meta.AdditionalFields) > 0 {
		encoded, _ := json.Marshal(in.meta.AdditionalFields)
		call.KeptBytes = int32(len(encoded))
	}
	call.Principal, call.Authenticates = a.principalOf(ctx, in.header), a.opts.Principal != nil
	call.Credential = in.header.Get("Authorization")
	if call.Version.Era() == protocol.Legacy {
		if p := newPusher(ctx, call.Version); p != nil {
			session := server.ClientSessionFromContext(ctx)
			call.Push, call.Session = p, roundtrip.SessionKeyOf(session.SessionID())
		}
	}
	return call, nil
}

// readClient returns the revision of a request and the capabilities of its client: from
// the request itself in modern revisions, from the session in others.
func readClient(ctx context.Context,
	header http.Header) (protocol.Version, mcp.ClientCapabilities) {
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.Modern {
		var declared mcp.ClientCapabilities
		if info.ClientCapabilities != nil {
			declared = *info.ClientCapabilities
		}
		return protocol.Version(info.ProtocolVersion), declared
	}
	var declared mcp.ClientCapabilities
	session := server.ClientSessionFromContext(ctx)
	if known, ok := session.(server.SessionWithClientInfo); ok {
		declared = known.GetClientCapabilities()
	}
	version := protocol.Version("")
	if known, ok := session.(server.SessionWithProtocolVersion); ok {
		version = protocol.Version(known.ProtocolVersion())
	}
	if version == "" { // sessions of other packages may not store it
		version = protocol.Version(header.Get(mcp.HeaderProtocolVersion))
	}
	switch {
	case !version.Known():
		// A request without a session. Clients of this revision cannot be asked.
		version = protocol.V20250326
	case version.Era() != protocol.Legacy:
		// The session stores the revision of its last modern request; this one is not.
		version = protocol.V20251125
	}
	return version, declared
}

// decodeCapabilities converts through JSON, which is what the two types have in common.
func decodeCapabilities(declared mcp.ClientCapabilities) (protocol.ClientCapabilities, error) {
	raw, err := json.Marshal(mcp.ClientCapabilities{
		Roots: declared.Roots, Sampling: declared.Sampling, Elicitation: declared.Elicitation,
	})
	if err != nil {
		return protocol.ClientCapabilities{}, fmt.Errorf("client capabilities: %w", err)
	}
	return protocol.DecodeClientCapabilities(raw)
}

// encodeArguments encodes the arguments, nil when there are none.
func encodeArguments(arguments any) (json.RawMessage, error) {
	switch args := arguments.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if string(args) == "null" {
			return nil, nil
		}
		return args, nil
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	return raw, nil
}

// encodeResponses returns the answers as the client encoded them, in the order of their
// keys: mcp-go keeps them in a map.
func encodeResponses(answers mcp.InputResponses) (protocol.InputResponses, error) {
	if answers == nil {
		return nil, nil
	}
	responses := make(protocol.InputResponses, 0, len(answers))
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		raw, err := answers[key].MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("inputResponses: %w", err)
		}
		responses = append(responses, protocol.KeyedResponse{Key: key, Result: raw})
	}
	return responses, nil
}

// principalOf returns the principal of a request. HTTP requests have headers, requests on
// other transports do not. Over HTTP the default is anonymous: a session id does not
// authenticate, since the client may choose it.
func (a *Adapter) principalOf(ctx context.Context, header http.Header) protocol.Principal {
	if len(header) == 0 {
		header = nil
	}
	if a.opts.Principal != nil {
		return a.opts.Principal(ctx, header)
	}
	if header != nil {
		return protocol.Principal{}
	}
	switch session := server.ClientSessionFromContext(ctx).(type) {
	case *server.InProcessSession:
		return protocol.LocalPrincipal()
	case server.ClientSession:
		if session.SessionID() == stdioSessionID {
			return protocol.LocalPrincipal()
		}
	}
	return protocol.Principal{}
}

// stdioSessionID is the id of the only session that mcp-go has on standard input and
// output.
const stdioSessionID = "stdio"
