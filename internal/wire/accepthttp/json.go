package accepthttp

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/rondo-mcp/rondo/protocol"
)

// A jsonWriter makes one JSON object of the stream with which the official SDK answers a
// request, as long as the stream has nothing but the response. The SDK alone would send
// questions of a call that is answered with JSON on the stream that belongs to no call,
// which the client may not have opened.
//
// The SDK writes one whole event at a time, and never two at once.
type jsonWriter struct {
	http.ResponseWriter
	alone    bool   // the client takes no stream: what is no response is dropped
	batch    bool   // the request is a batch, and so is the response
	held     []byte // events that are not sent yet
	response []byte // the response within held, or several that are separated by commas
	passing  bool   // all else is sent as it comes
}

// Write writes one event of a stream, or a part of another response.
func (w *jsonWriter) Write(p []byte) (int, error) {
	if w.passing || w.batch && !w.alone || w.Header().Get("Content-Type") != Events {
		w.passing = true
		return w.ResponseWriter.Write(p)
	}
	data := eventData(p)
	switch {
	case len(data) > 0 && isResponse(data) && (w.response == nil || w.alone):
		if w.response != nil {
			w.response = append(w.response, ',')
		}
		w.response = append(w.response, data...)
	case len(data) > 0 && !w.alone:
		w.held = append(w.held, p...)
		return len(p), w.sendHeld()
	}
	if !w.alone {
		w.held = append(w.held, p...) // such as the first event of a stream that can be resumed
	}
	return len(p), nil
}

// sendHeld sends what was held back as a stream, and passes on all that follows.
func (w *jsonWriter) sendHeld() error {
	w.passing = true
	_, err := w.ResponseWriter.Write(w.held)
	w.held = nil
	return err
}

// WriteHeader sends the status of a response that is no stream.
func (w *jsonWriter) WriteHeader(status int) {
	w.passing = true
	w.ResponseWriter.WriteHeader(status)
}

// FlushError flushes a stream.
func (w *jsonWriter) FlushError() error {
	if !w.passing {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap returns the writer of the request, for http.ResponseController.
func (w *jsonWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// finishResponse sends what is held back, once the SDK's handler has returned.
func (w *jsonWriter) finishResponse() {
	switch {
	case w.passing:
	case w.response != nil:
		w.Header().Set("Content-Type", JSON)
		w.Header().Del("Connection")
		if w.batch {
			w.response = append(append([]byte("["), w.response...), ']')
		}
		_, _ = w.ResponseWriter.Write(w.response)
	case w.alone && w.Header().Get("Content-Type") == Events: // such as one of an ended session
		http.Error(w.ResponseWriter, "the response was lost", http.StatusInternalServerError)
	case w.held != nil:
		_ = w.sendHeld()
	}
}

// eventData returns the data of an event that the SDK wrote: one line.
func eventData(event []byte) []byte {
	for line := range bytes.Lines(event) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			return bytes.TrimSuffix(data, []byte("\n"))
		}
	}
	return nil
}

// isResponse reports whether a message is a response, also one whose result is null, which the
// SDK sends for a nil completion and the specification does not have.
func isResponse(text []byte) bool {
	if message, err := protocol.DecodeMessage(text); err == nil {
		_, ok := message.(*protocol.Response)
		return ok
	}
	var null struct {
		ID     json.RawMessage `json:"id"`
		Method *string         `json:"method"`
		Result json.RawMessage `json:"result"`
	}
	return json.Unmarshal(text, &null) == nil && null.ID != nil && null.Method == nil &&
		string(null.Result) == "null"
}
