package protocol

import "github.com/rondo-mcp/rondo/internal/wire/jsonx"

// maxBatch is how many messages one batch may hold. Revision 2025-03-26 is the only one that has
// batches; its clients send a few messages at a time.
const maxBatch = 100

// DecodeBatch splits a batch of revision 2025-03-26 into the texts of its messages, which alias
// data. It reports false for data that is no array. The texts are unchecked: [DecodeMessage] reads
// each, and refuses a bad one with its id. A batch within the batch comes as an empty one. An empty
// batch, one of more than 100 messages, and one that cannot be split is an [*Error].
func DecodeBatch(data []byte) (messages [][]byte, batch bool, err error) {
	if jsonx.KindOf(data) != jsonx.Array {
		return nil, false, nil
	}
	err = jsonx.Elements(data, func(_ int, value []byte) error {
		if len(messages) == maxBatch {
			return Errorf(CodeInvalidRequest, "invalid request: a batch holds at most %d messages",
				maxBatch)
		}
		if jsonx.KindOf(value) == jsonx.Array { // who splits it as well must not do so for ever
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
