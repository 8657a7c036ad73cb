package protocol

import "github.com/rondo-mcp/rondo/internal/wire/jsonx"

// maxBatch limits the messages of a batch. Only revision 2025-03-26 has batches, of a few messages.
const maxBatch = 100

// DecodeBatch splits a batch of revision 2025-03-26 into unchecked slices of data for
// [DecodeMessage], which refuses an invalid message with its id. It reports false if data is not an
// array. A nested batch becomes an empty one. Empty batches, more than 100 messages and invalid
// JSON are an [*Error].
func DecodeBatch(data []byte) (messages [][]byte, batch bool, err error) {
	if jsonx.KindOf(data) != jsonx.Array {
		return nil, false, nil
	}
	err = jsonx.Elements(data, func(_ int, value []byte) error {
		if len(messages) == maxBatch {
			return Errorf(CodeInvalidRequest, "invalid request: a batch holds at most %d messages",
				maxBatch)
		}
		if jsonx.KindOf(value) == jsonx.Array { // bounds recursion in callers
			value = []byte("[]")
		}
		messages = append(messages, value)
		return nil
	})
	if _, ok := err.(*jsonx.SyntaxError); ok {
		err = Errorf(CodeParseError, "parse error: %v", err)
	}
	if err == nil && len(messages) == 0 {
		err = Errorf(CodeInvalidRequest, "invalid request: empty batch")
	}
	if err != nil {
		return nil, true, err
	}
	return messages, true, nil
}
