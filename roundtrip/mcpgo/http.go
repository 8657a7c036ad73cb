package mcpgo

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Handler wraps the HTTP handler that serves the server, usually a
// *server.StreamableHTTPServer, and whatever authenticates outside of it may
// wrap the result. It gives errors the code and, outside of event streams, the
// status that the protocol demands, lets resources ask, sends questions in the
// order in which they were put, and reads requests strictly. Requests of older
// revisions pass unchanged, but for the limit on their length. Nothing is done
// to a *server.SSEServer: it speaks older revisions only, and its responses do
// not answer the requests they belong to.
func (a *Adapter) Handler(next http.Handler) http.Handler {
	if _, ok := next.(*server.SSEServer); ok {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Body == nil {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(a.opts.MaxMessageBytes)))
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			a.writeRefusal(w, r, refusal{http.StatusRequestEntityTooLarge, roundtrip.RefusedTooLarge, []byte("null"), tooLong(a.opts.MaxMessageBytes)})
			return
		}
		if err != nil {
			a.writeRefusal(w, r, refusal{http.StatusBadRequest, roundtrip.RefusedMalformed, []byte("null"),
				protocol.Errorf(protocol.CodeParseError, "the body could not be read")})
			return
		}
		header := r.Header.Get(mcp.HeaderProtocolVersion)
		clean, id, refused := strict(body, header)
		if refused != nil {
			a.writeRefusal(w, r, refusal{http.StatusBadRequest, roundtrip.RefusedMalformed, id, refused})
			return
		}
		wire := &wire{}
		leg := r.WithContext(withWire(r.Context(), wire))
		leg.Body, leg.ContentLength = io.NopCloser(bytes.NewReader(clean)), int64(len(clean))
		out := &response{ResponseWriter: w, wire: wire, modern: mcp.IsModernProtocol(header)}
		next.ServeHTTP(out.writer(), leg)
		out.finish()
	})
}

// response passes a response on, and holds one back that has to be changed.
// Like any ResponseWriter it is for one goroutine at a time.
type response struct {
	http.ResponseWriter
	wire   *wire
	modern bool
	status int          // 0 until the head is written
	sent   bool         // the head has gone out
	body   bytes.Buffer // a JSON body that is held back
}

// writer returns the response with exactly the abilities of what it wraps:
// mcp-go streams only where it can flush.
func (w *response) writer() http.ResponseWriter {
	if _, ok := w.ResponseWriter.(http.Flusher); ok {
		return flushing{w}
	}
	return w
}

type flushing struct{ *response }

// Flush sends what is not held back.
func (w flushing) Flush() {
	if w.sent {
		w.ResponseWriter.(http.Flusher).Flush()
	}
}

// Unwrap serves http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) stream() bool {
	return w.Header().Get("Content-Type") == "text/event-stream"
}

// WriteHeader keeps the head back where the body may still change it.
func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	if w.wire.idle() || w.stream() {
		w.send(status)
	}
}

func (w *response) send(status int) {
	w.sent = true
	w.ResponseWriter.WriteHeader(status)
}

// Write passes events on as they are complete, and collects any other body.
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.sent && (!w.stream() || w.wire.idle() && w.body.Len() == 0) {
		return w.ResponseWriter.Write(p)
	}
	w.body.Write(p)
	if !w.sent {
		return len(p), nil
	}
	end := bytes.LastIndex(w.body.Bytes(), []byte("\n\n"))
	if end < 0 {
		return len(p), nil
	}
	if _, err := w.ResponseWriter.Write(w.events(w.body.Next(end + 2))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// events changes the data of events. mcp-go keeps it on one line.
func (w *response) events(stream []byte) []byte {
	var out []byte
	for line := range bytes.Lines(stream) {
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			out = append(out, line...)
			continue
		}
		data, _ = w.wire.rewrite(bytes.TrimRight(data, "\n"))
		out = append(append(append(out, "data: "...), data...), '\n')
	}
	return out
}

// finish sends what was held back.
func (w *response) finish() {
	if w.status == 0 {
		return
	}
	if w.sent {
		_, _ = w.ResponseWriter.Write(w.body.Bytes())
		return
	}
	message := bytes.TrimRight(w.body.Bytes(), "\n")
	message, said := w.wire.rewrite(message)
	if said != nil && w.modern && said.Code == protocol.CodeMissingRequiredClientCapability {
		w.status = http.StatusBadRequest
	}
	w.Header().Del("Content-Length")
	w.send(w.status)
	_, _ = w.ResponseWriter.Write(append(append([]byte(nil), message...), '\n'))
}
