package bridge

// ReencodeState decodes the plaintext of a state and encodes it again.
func ReencodeState(plain []byte) ([]byte, error) {
	s, err := decodeState(plain)
	if err != nil {
		return nil, err
	}
	return s.encode(), nil
}
