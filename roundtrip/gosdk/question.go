//lint:file-ignore SA1019 sampling, roots and logging are deprecated, but supported

package gosdk

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// decodeQuestion converts a question from the SDK's types.
func decodeQuestion(asked mcp.InputRequest) (protocol.InputRequest, error) {
	method := protocol.MethodListRoots
	switch q := asked.(type) {
	case *mcp.ElicitParams:
		if q == nil {
			return nil, fmt.Errorf("the question is nil")
		}
		if q.Mode == "" && (q.URL != "" || q.ElicitationID != "") {
			c := *q
			c.Mode = "url"
			asked = &c
		}
		method = protocol.MethodElicit
	case *mcp.CreateMessageParams:
		if q == nil {
			return nil, fmt.Errorf("the question is nil")
		}
		method = protocol.MethodCreateMessage
	case *mcp.CreateMessageWithToolsParams:
		if q == nil {
			return nil, fmt.Errorf("the question is nil")
		}
		method = protocol.MethodCreateMessage
	case *mcp.ListRootsParams:
		if q == nil {
			return &protocol.ListRoots{}, nil
		}
	default:
		return nil, fmt.Errorf("the question is a %T", asked)
	}
	params, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	return protocol.DecodeInputRequest(method, params)
}

// decodeQuestions converts a map of questions, in the order of their keys.
func decodeQuestions(asked mcp.InputRequestMap) (protocol.InputRequests, error) {
	all := make(protocol.InputRequests, 0, len(asked))
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		q, err := decodeQuestion(asked[key])
		if err != nil {
			return nil, fmt.Errorf("question %q: %w", key, err)
		}
		all = append(all, protocol.KeyedRequest{Key: key, Request: q})
	}
	return all, nil
}

// encodeQuestion converts a question to the SDK's types.
func encodeQuestion(v protocol.Version, q protocol.InputRequest) (mcp.InputRequest, error) {
	text, err := protocol.AppendInputRequest(nil, v, q)
	if err != nil {
		return nil, err
	}
	var parts struct {
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(text, &parts); err != nil {
		return nil, err
	}
	switch q := q.(type) {
	case *protocol.ElicitForm:
		p := &mcp.ElicitParams{Mode: "form", Message: q.Message, RequestedSchema: q.Schema}
		return p, decodeMeta(&p.Meta, q.Meta)
	case *protocol.ElicitURL:
		p := &mcp.ElicitParams{Mode: "url", Message: q.Message, URL: q.URL}
		if v.Era() == protocol.Legacy {
			p.ElicitationID = q.ElicitationID
		}
		return p, decodeMeta(&p.Meta, q.Meta)
	case *protocol.ListRoots:
		p := &mcp.ListRootsParams{}
		return p, decodeMeta(&p.Meta, q.Meta)
	}
	p := &mcp.CreateMessageWithToolsParams{}
	return p, json.Unmarshal(parts.Params, p)
}

func decodeMeta(dst *mcp.Meta, meta protocol.Meta) error {
	if meta == nil {
		return nil
	}
	return json.Unmarshal(meta, dst)
}

// encodeQuestions converts questions to the map that the SDK's results have.
func encodeQuestions(v protocol.Version, all protocol.InputRequests) (mcp.InputRequestMap, error) {
	if len(all) == 0 {
		return nil, nil
	}
	asked := make(mcp.InputRequestMap, len(all))
	for _, q := range all {
		p, err := encodeQuestion(v, q.Request)
		if err != nil {
			return nil, fmt.Errorf("question %q: %w", q.Key, err)
		}
		asked[q.Key] = p
	}
	return asked, nil
}
