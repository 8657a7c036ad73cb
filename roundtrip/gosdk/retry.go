package gosdk

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// The SDK decodes the answers and the state of a retry before middleware sees them. It
// ignores the case of member names and takes the last of repeated members, guesses the
// kind of an answer from its members, and refuses the request where it cannot. [Adapter.Handler]
// and [Adapter.Transport] read the message before that: they remove answers and state from the
// parameters, and pass the original parameters to the middleware in a header.

// The names of headers in which [Adapter.Handler] and [Adapter.Transport] pass data to the
// middleware. A header of an HTTP request cannot have such a name, so that no client can send one.
const (
	retryHeader  = "\x00rondo sent"   // the parameters as the client sent them
	streamHeader = "\x00rondo local"  // set where the request did not come over HTTP
	memoryHeader = "\x00rondo memory" // set where it did not leave the process, either
	// statelessHeader is set where the handler serves older revisions without sessions.
	statelessHeader = "\x00rondo stateless"
)

// extractRetry returns the parameters of a request without answers and state, and the
// value of the header retryHeader. The error is sent to the client.
func extractRetry(method string,
	params json.RawMessage) (rest json.RawMessage, text string, err *protocol.Error) {
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

// readParams returns the _meta, the answers and the state of the parameters from which
// extractRetry removed these. It reports false for requests that neither a
// [Adapter.Handler] nor a [Adapter.Transport] has read.
func readParams(method string, extra *mcp.RequestExtra) (meta *protocol.RequestMeta,
	retry *protocol.Retry, ok bool) {
	if extra == nil || len(extra.Header[retryHeader]) != 1 {
		return nil, nil, false
	}
	params, err := protocol.DecodeParams(method, json.RawMessage(extra.Header[retryHeader][0]))
	if err != nil {
		return nil, nil, false
	}
	switch p := params.(type) {
	case *protocol.CallToolParams:
		return &p.RequestMeta, &p.Retry, true
	case *protocol.GetPromptParams:
		return &p.RequestMeta, &p.Retry, true
	case *protocol.ReadResourceParams:
		return &p.RequestMeta, &p.Retry, true
	}
	return nil, nil, false
}

// hideRetry returns extra without what was added for the middleware.
func hideRetry(extra *mcp.RequestExtra) *mcp.RequestExtra {
	switch {
	case extra == nil:
		return nil
	case extra.Header[streamHeader] != nil:
		return nil // a stream has no headers, and the SDK sets no extra
	case extra.Header[retryHeader] == nil && extra.Header[statelessHeader] == nil:
		return extra
	}
	c := *extra
	c.Header = maps.Clone(extra.Header)
	hideHeaders(c.Header)
	return &c
}

// hideHeaders removes what was added for the middleware.
func hideHeaders(h http.Header) {
	delete(h, retryHeader)
	delete(h, streamHeader)
	delete(h, statelessHeader)
}
