package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
)

// infoMeta adds the server's name to the _meta of results (basic/index, "_meta"). It is encoded
// once.
type infoMeta struct {
	info   protocol.Implementation
	member []byte // ,"_meta":{…}}
}

func newInfoMeta(info protocol.Implementation) (infoMeta, error) {
	meta, err := protocol.Meta(nil).With(protocol.MetaServerInfo, info)
	if err != nil {
		return infoMeta{}, err
	}
	member := append([]byte(`,"_meta":`), meta...)
	return infoMeta{info, append(member, '}')}, nil
}

// appendMeta adds the name to an encoded result without _meta but with another member, such as
// resultType.
func (m *infoMeta) appendMeta(encoded json.RawMessage) json.RawMessage {
	return append(bytes.TrimSuffix(encoded, []byte("}")), m.member...)
}

// resultBytes fits most results, so that encoding them allocates once.
const resultBytes = 1 << 10

// encodeResult returns the JSON text of the result, the server's name added.
func (s *Server) encodeResult(request *Request, result protocol.Result) (json.RawMessage, error) {
	if p := request.encodedPage; p != nil && request.era.namesServer() && p.result == result {
		if _, ok := request.back.(rpc.BufferLender); ok {
			return p.encoded, p.err
		}
		// A client in process may change its copy.
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
	nameless := request.era.namesServer()
	if meta := metaOf(result); nameless && meta != nil && *meta != nil {
		var err error
		if result, err = s.info.mergeMeta(result, *meta); err != nil {
			return nil, err
		}
		nameless = false
	}
	lender, lent := request.back.(rpc.BufferLender)
	var dst []byte
	if lent {
		dst = lender.Lend()
	} else {
		dst = make([]byte, 0, resultBytes)
	}
	data, err := protocol.AppendResult(dst, request.Version, request.Message.Method, result)
	if err != nil {
		return nil, err
	}
	if nameless {
		data = s.info.appendMeta(data)
	}
	if lent {
		lender.Return(data)
	}
	return data[len(dst):], nil
}

// checkQuestionsOfMiddleware refuses questions that did not pass the funnel, which checks
// capabilities and seals the state without which answers are not accepted. Middleware may pass on
// the questions of a handler but not ask by itself.
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

// mergeMeta returns a copy of result, whose _meta is meta, with the server's name in it, unless the
// author put one there. The original may be shared between requests.
func (m *infoMeta) mergeMeta(result protocol.Result, meta protocol.Meta) (protocol.Result, error) {
	if _, ok := meta.Get(protocol.MetaServerInfo); ok {
		return result, nil
	}
	merged, err := meta.With(protocol.MetaServerInfo, m.info)
	if err != nil {
		return nil, err
	}
	c := reflect.New(reflect.TypeOf(result).Elem())
	c.Elem().Set(reflect.ValueOf(result).Elem())
	result = c.Interface().(protocol.Result)
	*metaOf(result) = merged
	return result, nil
}

// metaOf returns the _meta field of a result, nil for typed and untyped nil and for unknown types,
// which cannot be encoded.
func metaOf(result protocol.Result) *protocol.Meta {
	if v := reflect.ValueOf(result); v.Kind() != reflect.Pointer || v.IsNil() {
		return nil
	}
	switch r := result.(type) {
	case *protocol.CallToolResult:
		return &r.Meta
	case *protocol.InputRequiredResult:
		return &r.Meta
	case *protocol.GetPromptResult:
		return &r.Meta
	case *protocol.ReadResourceResult:
		return &r.Meta
	case *protocol.ListToolsResult:
		return &r.Meta
	case *protocol.ListPromptsResult:
		return &r.Meta
	case *protocol.ListResourcesResult:
		return &r.Meta
	case *protocol.ListResourceTemplatesResult:
		return &r.Meta
	case *protocol.DiscoverResult:
		return &r.Meta
	case *protocol.CompleteResult:
		return &r.Meta
	case *protocol.ListenResult:
		return &r.Meta
	case *protocol.EmptyResult:
		return &r.Meta
	case *protocol.CreateTaskResult:
		return &r.Meta
	case *protocol.GetTaskResult:
		return &r.Meta
	case *protocol.ExtensionResult:
		return &r.Meta
	}
	return nil
}
