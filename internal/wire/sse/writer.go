package sse

import (
	"bytes"
	"strconv"
	"time"
)

// AppendEvent appends one event with data of any number of lines. Readers drop events without data.
func AppendEvent(dst, data []byte) []byte {
	// Fast path: most messages are JSON on one line.
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
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

// AppendEventID is [AppendEvent] with an id to resume after. It omits forbidden characters.
func AppendEventID[T string | []byte](dst []byte, id T, data []byte) []byte {
	dst = append(dst, "id: "...)
	for i := range len(id) {
		if c := id[i]; c != '\n' && c != '\r' && c != 0 {
			dst = append(dst, c)
		}
	}
	return AppendEvent(append(dst, '\n'), data)
}

// AppendRetry appends a retry field without an event: the reconnection delay in milliseconds.
func AppendRetry(dst []byte, d time.Duration) []byte {
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, max(d, 0).Milliseconds(), 10)
	return append(dst, '\n')
}

// AppendComment appends an empty comment, which keeps an idle connection open.
func AppendComment(dst []byte) []byte { return append(dst, ":\n\n"...) }

func appendData(dst, line []byte) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, line...)
	return append(dst, '\n')
}
