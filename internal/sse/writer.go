package sse

import "bytes"

// AppendEvent appends one event with data, which may have several lines, to
// dst. Empty data makes no event: readers drop it.
func AppendEvent(dst, data []byte) []byte {
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 { // JSON on one line, nearly always
		return append(appendData(dst, data), '\n')
	}
	done := 0
	for i := 0; i < len(data); i++ {
		if c := data[i]; c == '\n' || c == '\r' {
			dst = appendData(dst, data[done:i])
			if c == '\r' && i+1 < len(data) && data[i+1] == '\n' {
				i++
			}
			done = i + 1
		}
	}
	return append(appendData(dst, data[done:]), '\n')
}

// AppendEventID is [AppendEvent] with an event id, from which a client may ask
// to resume. Characters that cannot stand in an id are left out.
func AppendEventID[T string | []byte](dst []byte, id T, data []byte) []byte {
	dst = append(dst, "id: "...)
	for i := range len(id) {
		if c := id[i]; c != '\n' && c != '\r' && c != 0 {
			dst = append(dst, c)
		}
	}
	return AppendEvent(append(dst, '\n'), data)
}

// AppendComment appends an empty comment, which keeps a quiet stream open.
func AppendComment(dst []byte) []byte { return append(dst, ":\n\n"...) }

func appendData(dst, line []byte) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, line...)
	return append(dst, '\n')
}
