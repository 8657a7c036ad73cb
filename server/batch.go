package server

import "github.com/rondo-mcp/rondo/protocol"

// AppendBatch appends the JSON text of the answer to a batch (2025-03-26
// basic/index, "Batching") to dst: an array of the responses in the order
// given, which need not be that of the requests. Nil entries, for requests that
// are not answered, are left out. Without any response nothing is appended, for
// such a batch is not answered. A response that cannot be written is replaced
// by an internal error.
func AppendBatch(dst []byte, responses []*protocol.Response) []byte {
	some := false
	for _, r := range responses {
		if r == nil {
			continue
		}
		sep := byte(',')
		if !some {
			sep, some = '[', true
		}
		dst = append(dst, sep)
		data, err := protocol.AppendMessage(dst, r)
		if err != nil {
			data, err = protocol.AppendMessage(dst, &protocol.Response{ID: r.ID, Error: internalError()})
		}
		if err == nil {
			dst = data
		}
	}
	if some {
		dst = append(dst, ']')
	}
	return dst
}
