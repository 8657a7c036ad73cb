package gosdk

import (
	"encoding/json"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// The SDK decodes what a retry carries before middleware sees it: it takes the
// last of two members of one name whatever its case, guesses from its members
// what an answer answers, and refuses the request where it cannot. [Handler] and
// [Transport] see the text before that. They take answers and state out of the
// request and hand them to the middleware beside it.

// The keys of what is handed over, among the headers that the SDK shows to
// middleware. No header field of an HTTP request can have such a name, so that
// nobody can send one.
const (
	retryHeader  = "\x00rondo sent"
	streamHeader = "\x00rondo local"
)

// extractRetry returns the parameters of a request without answers and state, and
// the text to hand over. An error is what to answer the client.
func extractRetry(method string, params json.RawMessage) (rest json.RawMessage, text string, err *protocol.Error) {
	if err := jsonx.Check(params); err != nil {
		return nil, "", protocol.Errorf(protocol.CodeInvalidParams, "params: %v", err)
	}
	if _, err := protocol.DecodeParams(method, params); err != nil {
		e, ok := protocol.AsError(err)
		if !ok {
			e = protocol.Errorf(protocol.CodeInvalidParams, "params: %v", err)
		}
		return nil, "", e
	}
	rest = append(make(json.RawMessage, 0, len(params)), '{')
	_ = jsonx.Members(params, func(key, value []byte) error { // checked above
		if k := string(key); k == "inputResponses" || k == "requestState" {
			return nil
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(jsonx.AppendTextBytes(rest, key), ':')
		rest = append(rest, value...)
		return nil
	})
	return append(rest, '}'), string(params), nil
}

// readRetry returns what was handed over. It reports false for requests that
// neither a Handler nor a Transport has seen.
func readRetry(method string, extra *mcp.RequestExtra) (retry protocol.Retry, ok bool) {
	if extra == nil || len(extra.Header[retryHeader]) != 1 {
		return retry, false
	}
	params, err := protocol.DecodeParams(method, json.RawMessage(extra.Header[retryHeader][0]))
	if err != nil {
		return retry, false
	}
	switch p := params.(type) {
	case *protocol.CallToolParams:
		return p.Retry, true
	case *protocol.GetPromptParams:
		return p.Retry, true
	case *protocol.ReadResourceParams:
		return p.Retry, true
	}
	return retry, false
}

// hideRetry returns extra as handlers may see it.
func hideRetry(extra *mcp.RequestExtra) *mcp.RequestExtra {
	if extra == nil || len(extra.Header[retryHeader]) == 0 {
		return extra
	}
	if extra.Header[streamHeader] != nil {
		return nil // there was none
	}
	c := *extra
	c.Header = maps.Clone(extra.Header)
	delete(c.Header, retryHeader)
	return &c
}
