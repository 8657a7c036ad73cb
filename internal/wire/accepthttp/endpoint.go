package accepthttp

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"sync"

	"github.com/rondo-mcp/rondo/internal/wire/sse"
)

// CannotAsk is the text for a client that no question can reach, see [Endpoint.CannotAsk].
const CannotAsk = "nobody could be asked: the Accept header of the call admits application/json " +
	"alone, and the client has no GET stream open; send Accept: application/json, " +
	"text/event-stream, or open a GET stream"

// An Endpoint knows which sessions of an endpoint have a GET stream open. Its zero value is
// ready, and its methods may be called concurrently.
type Endpoint struct {
	mu   sync.Mutex
	open map[string]int // GET streams by the id of the session
}

// AdmitsEvents reports whether the client of a request takes a stream. To one that does not,
// nothing but the response can be sent in response to a POST.
func AdmitsEvents(header http.Header) bool {
	_, events := Forms(header["Accept"])
	return events
}

// CannotAsk returns why no question of a request with header reaches the client of a session,
// empty where one does: its response admits no stream, and no GET stream is open.
func (e *Endpoint) CannotAsk(header http.Header, session string) string {
	if AdmitsEvents(header) {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if session != "" && e.open[session] > 0 {
		return ""
	}
	return CannotAsk
}

// Wrap returns a handler before next, which serves MCP and makes the ids of its sessions. A
// client that accepts one of the two types, or sends no Accept header, is served as if it had
// listed both, and gets the response to a POST in a form that it admits; JSON where prefersJSON
// is set, it admits both, and there is nothing but the response. As JSON, nothing else is sent
// to a client that admits no stream. As a stream, a response of JSON with the status 200 becomes
// an event; other statuses keep their body. Next does not see an [http.Flusher] where a response
// is JSON. Clients that accept neither type are left to next.
func (e *Endpoint) Wrap(next http.Handler, prefersJSON bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json, events := Forms(r.Header["Accept"])
		isPost := r.Method == http.MethodPost
		if !events && !(json && isPost) {
			next.ServeHTTP(w, r)
			return
		}
		r = listBoth(r, json, events)
		switch {
		case r.Method == http.MethodGet:
			out := &listener{passing{w}, e, r.Header.Get("Mcp-Session-Id"), false}
			defer out.endStream()
			next.ServeHTTP(out, r)
		case isPost && !json:
			out := &eventWriter{passing: passing{w}}
			next.ServeHTTP(out, r)
			out.finishResponse()
		case isPost && (!events || prefersJSON):
			serveJSON(next, w, r, !events)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// listBoth returns r with both types in its Accept header. An SDK that wants both, and does not
// read weights, finds them; who reads weights still knows which of them is admitted.
func listBoth(r *http.Request, json, events bool) *http.Request {
	if json && events && len(r.Header["Accept"]) > 0 {
		return r
	}
	weight := map[bool]string{false: ";q=0"}
	r = r.Clone(r.Context())
	r.Header["Accept"] = []string{JSON + weight[json] + ", " + Events + weight[events]}
	return r
}

// serveJSON serves a client that prefers JSON, or, alone, takes no stream. A subscription, which
// is a stream, is refused then.
func serveJSON(next http.Handler, w http.ResponseWriter, r *http.Request, alone bool) {
	if alone && r.Header.Get("Mcp-Method") == "subscriptions/listen" {
		http.Error(w, "Accept header must admit "+Events, http.StatusNotAcceptable)
		return
	}
	out := &jsonWriter{ResponseWriter: w, alone: alone}
	if r.Body != nil {
		body := bufio.NewReader(r.Body)
		first, _ := body.Peek(64) // an error comes again when next reads
		out.batch = bytes.HasPrefix(bytes.TrimSpace(first), []byte("["))
		r.Body = struct {
			io.Reader
			io.Closer
		}{body, r.Body}
	}
	next.ServeHTTP(out, r)
	out.finishResponse()
}

// passing passes a response on.
type passing struct{ http.ResponseWriter }

// Flush implements [http.Flusher]. The end of a connection is reported to the request itself.
func (w passing) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap serves [http.ResponseController].
func (w passing) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A listener is the response to a GET.
type listener struct {
	passing
	endpoint *Endpoint
	session  string
	open     bool
}

// WriteHeader sends the status. With 200 the stream is open.
func (l *listener) WriteHeader(status int) {
	if status == http.StatusOK && !l.open {
		l.open = true
		l.endpoint.countStream(l.session, 1)
	}
	l.ResponseWriter.WriteHeader(status)
}

func (l *listener) endStream() {
	if l.open {
		l.endpoint.countStream(l.session, -1)
	}
}

func (e *Endpoint) countStream(session string, change int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		e.open = make(map[string]int)
	}
	if e.open[session] += change; e.open[session] == 0 {
		delete(e.open, session)
	}
}

// An eventWriter makes an event of a response of JSON with the status 200. Everything else
// passes.
type eventWriter struct {
	passing
	status int          // 0 until it is known
	event  bytes.Buffer // the response that becomes an event
}

func (w *eventWriter) isHeld() bool {
	return w.status == http.StatusOK && w.Header().Get("Content-Type") == JSON
}

// WriteHeader sends the status of what passes.
func (w *eventWriter) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	if w.status = status; !w.isHeld() {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write sends what passes.
func (w *eventWriter) Write(p []byte) (int, error) {
	if w.WriteHeader(http.StatusOK); w.isHeld() {
		return w.event.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher].
func (w *eventWriter) Flush() {
	if !w.isHeld() {
		w.passing.Flush()
	}
}

// finishResponse sends the event, once the handler has returned.
func (w *eventWriter) finishResponse() {
	if !w.isHeld() {
		return
	}
	w.Header().Set("Content-Type", Events)
	w.Header().Del("Content-Length")
	_, _ = w.ResponseWriter.Write(sse.AppendEvent([]byte("event: message\n"),
		bytes.TrimSpace(w.event.Bytes())))
}
