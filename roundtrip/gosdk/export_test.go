package gosdk

import (
	"context"
	"encoding/json"

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
	_, retry, ok := readParams(method,
		&mcp.RequestExtra{Header: map[string][]string{retryHeader: {text}}})
	if !ok {
		panic("what was handed over cannot be read")
	}
	return rest, *retry, nil
}

// CloseIdle closes the connections to other replicas.
func CloseIdle(a *Adapter) { a.forwarder.CloseIdle() }

// IsKnownOption reports whether Handler honors an option of the SDK.
func IsKnownOption(name string) bool { return isKnownOption(name) }

// CountInstalled returns how many servers the adapter keeps track of.
func CountInstalled(a *Adapter) (n int) {
	a.installed.Range(func(any, any) bool { n++; return true })
	return n
}
