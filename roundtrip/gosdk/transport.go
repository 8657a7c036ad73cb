package gosdk

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/revision"
	"github.com/rondo-mcp/rondo/protocol"
)

// Transport wraps a transport on which server is to be connected, decodes answers and
// states strictly, as [Adapter.Handler] does for HTTP, and installs the adapter on server.
// It is for connections of one user, such as standard input and output:
//
//	server.Run(ctx, a.Transport(server, &mcp.StdioTransport{}))
//
// In revision 2026-07-28, parameters of tools/call, prompts/get and resources/read that are
// not strict JSON, or not what the specification requires, are answered with -32602. What
// clients of older revisions send is passed on unread.
func (a *Adapter) Transport(server *mcp.Server, t mcp.Transport) mcp.Transport {
	strict := strictTransport{t, a, server}
	if v, ok := t.(mcp.ProtocolVersionSupporter); ok {
		return struct {
			mcp.Transport
			mcp.ProtocolVersionSupporter
		}{strict, v}
	}
	return strict
}

type strictTransport struct {
	mcp.Transport
	adapter *Adapter
	server  *mcp.Server
}

// Connect installs the adapter and connects the transport.
func (t strictTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	if err := t.adapter.Install(t.server); err != nil {
		return nil, err
	}
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	_, inMemory := t.Transport.(*mcp.InMemoryTransport)
	return strictConnection{c, inMemory}, nil
}

type strictConnection struct {
	mcp.Connection
	inMemory bool
}

// Read returns the next message, and answers requests that are refused.
func (c strictConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		message, err := c.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		req, ok := message.(*jsonrpc.Request)
		if !ok || !req.IsCall() || !protocol.MultiRoundTrip(req.Method) ||
			!c.inMemory && !mayNameRevision(req.Params) {
			return message, nil
		}
		local := http.Header{streamHeader: {""}}
		if c.inMemory {
			local[memoryHeader] = []string{""}
		}
		if !mayNameRevision(req.Params) {
			asItIs := *req
			asItIs.Extra = &mcp.RequestExtra{Header: local}
			return &asItIs, nil
		}
		params, text, refused := extractRetry(req.Method, req.Params)
		if refused == nil {
			strict := *req
			strict.Params = params
			local[retryHeader] = []string{text}
			strict.Extra = &mcp.RequestExtra{Header: local}
			return &strict, nil
		}
		no := &jsonrpc.Response{ID: req.ID, Error: encodeError(refused)}
		if err := c.Connection.Write(ctx, no); err != nil {
			return nil, err
		}
	}
}

// mayNameRevision reports whether the _meta of parameters names a revision, or may name one
// to the SDK, which reads more than strict JSON.
func mayNameRevision(params json.RawMessage) bool {
	return revision.IsNamedIn(params) || jsonx.Check(params) != nil &&
		bytes.Contains(params, []byte(protocol.MetaProtocolVersion))
}
