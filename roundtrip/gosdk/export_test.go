package gosdk

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// Checks returns the checks of the self-test by name.
func Checks() map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{}
	for _, c := range checks() {
		all[c.Name] = c.Run
	}
	return all
}

// CalledByBridge is whether the caller is taken for the SDK's bridge.
func CalledByBridge() bool { return calledByBridge() }

// ExtractRetry takes answers and state out of parameters, and reads what was handed
// over.
func ExtractRetry(method string,
	params json.RawMessage) (json.RawMessage, protocol.Retry, *protocol.Error) {
	rest, text, err := extractRetry(method, params)
	if err != nil {
		return nil, protocol.Retry{}, err
	}
	retry, ok := readRetry(method,
		&mcp.RequestExtra{Header: map[string][]string{retryHeader: {text}}})
	if !ok {
		panic("what was handed over cannot be read")
	}
	return rest, retry, nil
}

// HandlerOf returns the handler of the adapter of server, for tests that have the server
// alone.
func HandlerOf(server *mcp.Server, opts *mcp.StreamableHTTPOptions) http.Handler {
	return (&Adapter{server: server}).Handler(opts)
}

// WrapTransport wraps a transport as the adapter of any server does.
func WrapTransport(t mcp.Transport) mcp.Transport { return new(Adapter).Transport(t) }

// CloseIdle closes the connections to other replicas.
func CloseIdle(a *Adapter) { a.forwarder.CloseIdle() }
