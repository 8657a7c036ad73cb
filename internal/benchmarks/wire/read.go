package wire

import "bytes"

// State finds the state in a response, still escaped as it came. It returns
// nil if there is none.
func State(response []byte) []byte {
	_, rest, found := bytes.Cut(response, []byte(`"requestState":"`))
	if !found {
		return nil
	}
	state, _, found := bytes.Cut(rest, []byte(`"`)) // states of all peers are base64
	if !found || len(state) == 0 {
		return nil
	}
	return state
}

// Complete is a cheap test, for loops that are timed, of what [Check] has
// looked at closely.
func Complete(response []byte) bool {
	return bytes.Contains(response, []byte(`"resultType":"complete"`))
}

// Asks is the same for responses that ask.
func Asks(response []byte) bool {
	return bytes.Contains(response, []byte(`"resultType":"input_required"`))
}

// Message returns the last message of a response that is JSON or a stream of
// events.
func Message(response []byte) []byte {
	if bytes.HasPrefix(response, []byte("{")) {
		return response
	}
	var last []byte
	for line := range bytes.Lines(response) {
		if data, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:")); ok {
			last = bytes.TrimSpace(data)
		}
	}
	return last
}
