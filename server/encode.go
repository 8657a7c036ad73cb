package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
)

const resultBytes = 1 << 10 // fits most results, so that encoding allocates once

// encodeResult returns the result as JSON, with the server's name.
func (s *Server) encodeResult(request *Request, result protocol.Result) (json.RawMessage, error) {
	if p := request.encodedPage; p != nil && request.era.namesServer() && p.result == result {
		if _, ok := request.back.(rpc.BufferLender); ok {
			return p.encoded, p.err
		}
		// In-process clients may modify their copy.
		return bytes.Clone(p.encoded), p.err
	}
	if asks, ok := result.(*protocol.InputRequiredResult); ok && asks != nil {
		if err := checkQuestionsOfMiddleware(request, asks); err != nil {
			return nil, err
		}
	}
	if _, handle := result.(*protocol.CreateTaskResult); handle {
		if err := refuseUndeclaredTask(request); err != nil {
			return nil, err
		}
	}
	var name protocol.Meta
	if request.era.namesServer() {
		name = s.name
	}
	lender, lent := request.back.(rpc.BufferLender)
	var dst []byte
	if lent {
		dst = lender.Lend()
	} else {
		dst = make([]byte, 0, resultBytes)
	}
	data, err := protocol.AppendResult(dst, request.Version, request.Message.Method, result, name)
	if err != nil {
		return nil, err
	}
	if lent {
		lender.Return(data)
	}
	return data[len(dst):], nil
}

// checkQuestionsOfMiddleware refuses questions that bypassed the funnel, which checks capabilities
// and seals the state. Middleware may pass on a handler's questions but not ask itself.
func checkQuestionsOfMiddleware(request *Request, asks *protocol.InputRequiredResult) error {
	if rpc.Attached(asks) != nil {
		return errors.New("questions must be returned by a handler, not by middleware")
	}
	declared := declaredBy(request.Meta)
	for _, q := range asks.InputRequests {
		if missing := declared.Missing(q.Request); !missing.IsZero() {
			return fmt.Errorf("question %q of a middleware: the client does not support: %s",
				clipQuoted(q.Key), missing)
		}
	}
	return nil
}
