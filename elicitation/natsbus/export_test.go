package natsbus

// What tests of the frames need to see.

// MaxPartial is how many messages in parts may be incomplete.
const MaxPartial = maxPartial

// NewQuestion makes a frame.
func NewQuestion(part, parts uint16, revision uint64, key string, chunk []byte) []byte {
	q := question{span{part, parts}, revision, key, chunk}
	return q.append(nil)
}

// NewAnswer makes a frame.
func NewAnswer(s byte, part, parts uint16, chunk []byte) []byte {
	a := answer{span{part, parts}, status(s), chunk}
	return a.append(nil)
}

// DecodeQuestion decodes a frame and encodes it again.
func DecodeQuestion(b []byte) ([]byte, error) {
	q, err := decodeQuestion(b)
	if err != nil {
		return nil, err
	}
	return q.append(nil), nil
}

// DecodeAnswer decodes a frame and encodes it again.
func DecodeAnswer(b []byte) ([]byte, error) {
	a, err := decodeAnswer(b)
	if err != nil {
		return nil, err
	}
	return a.append(nil), nil
}
