package protocol

import "github.com/rondo-mcp/rondo/internal/wire/jsonx"

// maxBatch is how many messages one batch may hold. Revision 2025-03-26 is the only one that has
// batches; its clients send a few messages at a time.
const maxBatch = 100

// DecodeBatch splits a batch of revision 2025-03-26 into the JSON texts of its messages, to be read
// one by one with [DecodeMessage]. It reports false for data that is no array. The texts alias
// data. An empty batch, one of more than 100 messages, and one that is not strict JSON (but for
// text that is not well-formed Unicode) is an [*Error].
func DecodeBatch(data []byte) (messages [][]byte, batch bool, err error) {
	if jsonx.KindOf(data) != jsonx.Array {
		return nil, false, nil
	}
	err = jsonx.Check(data)
	if e, ok := err.(*jsonx.SyntaxError); ok && e.IsText() {
		err = nil // DecodeMessage repairs the one, or refuses it, with its id
	}
	if err != nil {
		return nil, true, &Error{Code: CodeParseError, Message: "parse error: " + err.Error()}
	}
	err = jsonx.Elements(data, func(_ int, value []byte) error {
		if len(messages) == maxBatch {
			return Errorf(CodeInvalidRequest, "invalid request: a batch holds at most %d messages",
				maxBatch)
		}
		messages = append(messages, value)
		return nil
	})
	if err != nil {
		return nil, true, err
	}
	if len(messages) == 0 {
		return nil, true, Errorf(CodeInvalidRequest, "invalid request: empty batch")
	}
	return messages, true, nil
}
