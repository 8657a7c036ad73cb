package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/rondo-mcp/rondo/internal/attachment"
	"github.com/rondo-mcp/rondo/protocol"
)

// infoMeta writes the server's name into the _meta of results, as every result
// should have it (basic/index, "_meta"). It is encoded once.
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

// splice puts the name into an encoded result without _meta. The result has
// other members: resultType at least.
func (m *infoMeta) splice(encoded json.RawMessage) json.RawMessage {
	return append(bytes.TrimSuffix(encoded, []byte("}")), m.member...)
}

// resultBytes is room for most results, so that encoding them allocates once.
const resultBytes = 1 << 10

// encode returns the JSON text of the result, the server's name added.
func (s *Server) encode(in *Incoming, result protocol.Result) (json.RawMessage, error) {
	if p := in.encoded; p != nil && in.session == nil && p.result == result {
		if _, ok := in.Back.(BufferLender); ok {
			return p.encoded, p.err
		}
		// What a client in process does with its copy must not reach others.
		return bytes.Clone(p.encoded), p.err
	}
	if asks, ok := result.(*protocol.InputRequiredResult); ok && asks != nil {
		if err := askable(in, asks); err != nil {
			return nil, err
		}
	}
	nameless := in.session == nil // sessions have been told who the server is
	if meta := metaOf(result); nameless && meta != nil && *meta != nil {
		var err error
		if result, err = s.info.merge(result, *meta); err != nil {
			return nil, err
		}
		nameless = false
	}
	lender, lent := in.Back.(BufferLender)
	var dst []byte
	if lent {
		dst = lender.Lend()
	} else {
		dst = make([]byte, 0, resultBytes)
	}
	data, err := protocol.AppendResult(dst, in.Version, in.Request.Method, result)
	if err != nil {
		return nil, err
	}
	if nameless {
		data = s.info.splice(data)
	}
	if lent {
		lender.Return(data)
	}
	return data[len(dst):], nil
}

// askable refuses questions that did not come by way of the funnel, where they
// are gated and get the state without which their answers count for nothing. A
// middleware may pass on what a handler asks; it cannot ask by itself.
func askable(in *Incoming, asks *protocol.InputRequiredResult) error {
	if attachment.Of(asks) != nil {
		return errors.New("questions must be returned by a handler, not by middleware")
	}
	var declared protocol.ClientCapabilities
	if in.Meta.Capabilities != nil {
		declared = *in.Meta.Capabilities
	}
	for _, q := range asks.InputRequests {
		if missing := declared.Missing(q.Request); !missing.IsZero() {
			return fmt.Errorf("question %q of a middleware: the client does not support: %s", clip(q.Key), missing)
		}
	}
	return nil
}

// merge returns a copy of result, whose _meta is meta, with the server's name
// in it, unless the author put one there. The original belongs to the author
// and may be shared between requests.
func (m *infoMeta) merge(result protocol.Result, meta protocol.Meta) (protocol.Result, error) {
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

// metaOf returns where a result keeps its _meta. For nil, typed or not, and for
// unknown types it returns nil: encoding refuses those.
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
	}
	return nil
}
