package gosdk

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// Canaries are the trials, by name.
func Canaries() map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{}
	for _, c := range canaries() {
		all[c.name] = c.try
	}
	return all
}

// TryOne is what comes of a trial that fails.
func TryOne(name string, err error) error {
	return tryAll([]canary{{name, func(context.Context) error { return err }}})
}

// CalledByBridge is whether the caller is taken for the SDK's bridge.
func CalledByBridge() bool { return calledByBridge() }

// ExtractRetry takes answers and state out of parameters, and reads what was handed
// over.
func ExtractRetry(method string, params json.RawMessage) (json.RawMessage, protocol.Retry, *protocol.Error) {
	rest, text, err := extractRetry(method, params)
	if err != nil {
		return nil, protocol.Retry{}, err
	}
	retry, ok := readRetry(method, &mcp.RequestExtra{Header: map[string][]string{retryHeader: {text}}})
	if !ok {
		panic("what was handed over cannot be read")
	}
	return rest, retry, nil
}
