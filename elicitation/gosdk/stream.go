package gosdk

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// metaCall is the member of _meta that carries the id of a call from the transport to the
// handler of a message. It is never sent. An upstream that sets it gains nothing: on the
// stream of a call it is replaced, and elsewhere the id would have to be guessed.
const metaCall = "rondo/call"

// metaQuestion carries the id of the question, as JSON in a string, in the same way.
const metaQuestion = "rondo/question"

// HTTPClient returns an HTTP client for a [mcp.StreamableClientTransport] on which any
// number of calls may share one connection. A question that comes on the response to the
// request of a call, made with the context of [WithCall], belongs to that call; the clients
// of [NewSharedClient] ask its client. So do progress and log messages for an [Upstream].
//
// base does the requests, nil: [http.DefaultClient]. It is not modified.
//
// Questions on the standing stream of a session belong to no request. For those the router
// knows the connection alone: see [elicitation.Router.ElicitFrom].
//
// The SDK ends a connection at the first response that it cannot use. Those to one request,
// such as a status of failure or an event that is too large, fail that request alone.
func HTTPClient(base *http.Client) *http.Client {
	return newHTTPClient(base, nil, 0)
}

// newHTTPClient is [HTTPClient] with the answers of the connection, nil: nobody asks what becomes
// of them, and the MaxEventSize of its transport.
func newHTTPClient(base *http.Client, answers *upstream.Book, maxEventSize int) *http.Client {
	if base == nil {
		base = http.DefaultClient
	}
	switch {
	case maxEventSize == 0:
		maxEventSize = mcp.DefaultMaxEventSize
	case maxEventSize < 0:
		maxEventSize = math.MaxInt
	}
	// The SDK counts the whole event, with what is added to it here.
	maxEventSize -= min(64<<10, maxEventSize/8)
	client := *base
	client.Transport = streamTagger{client.Transport, answers, maxEventSize}
	return &client
}

// A streamTagger marks what comes on the stream of a call with the call's id. A stream that
// is resumed is one of the call's, too: the SDK resumes it with the context of the request.
type streamTagger struct {
	base         http.RoundTripper // nil: http.DefaultTransport
	answers      *upstream.Book
	maxEventSize int
}

// RoundTrip implements [http.RoundTripper].
func (t streamTagger) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
	head := upstream.ReadHead(r.GetBody)
	response, err := base.RoundTrip(r)
	if head.IsResponse() {
		t.reportAnswer(head.ID, response, err)
	}
	if err != nil {
		return nil, err
	}
	isolate(head, response)
	tag := ""
	if call := CallFromContext(r.Context()); call != nil {
		tag = call.Origin().CallID
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == "text/event-stream" && (tag != "" || head.IsRequest()) {
		response.Body = &taggedStream{
			Closer: response.Body, lines: bufio.NewReader(response.Body),
			tag: tag, id: head.ID, limit: t.maxEventSize,
		}
		response.ContentLength = -1
		response.Header.Del("Content-Length")
	}
	return response, nil
}

var errBadEvent = errors.New("elicitation: an event of the upstream cannot be read")

// A taggedStream is a stream of server-sent events whose messages get a tag. All lines but
// those of data pass unchanged and at once. An event that the SDK would not take ends the
// stream, with an error as the response to the request whose stream it is.
type taggedStream struct {
	io.Closer
	lines *bufio.Reader
	tag   string // "": none
	id    []byte // of the request, nil: it is not known
	limit int    // of the bytes of an event

	size  int    // of the event that is being read
	named bool   // the event has a type that is not message
	data  []byte // of the event that is being read, its lines joined by LF
	some  bool   // the event has a data line
	ready []byte // to be read
	err   error  // after ready
}

// Read implements [io.Reader].
func (s *taggedStream) Read(p []byte) (int, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.ready = s.ready[:0]
		s.readLine()
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// readLine reads one line and makes ready what follows from it.
func (s *taggedStream) readLine() {
	line, err := s.nextLine()
	if s.size += len(line); s.size > s.limit {
		s.refuseEvent()
		return
	}
	if err != nil {
		s.err = err
	}
	if len(line) > 0 {
		s.addLine(line)
	}
	if errors.Is(s.err, io.EOF) && s.some {
		s.endEvent(nil) // the SDK reads an event that the end of the stream ends
	}
}

// refuseEvent ends the stream in the place of the event that is being read.
func (s *taggedStream) refuseEvent() {
	s.some, s.err = false, errBadEvent
	if s.id != nil {
		// The empty line ends what has been passed on of the event.
		s.ready = append(append(append(s.ready, "\ndata: "...),
			encodeFailure(s.id, messageUnreadable)...), "\n\n"...)
		s.err = io.EOF
	}
}

func (s *taggedStream) addLine(line []byte) {
	text := bytes.TrimRight(line, "\r\n")
	name, value, found := bytes.Cut(text, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case len(text) == 0:
		s.endEvent(line)
	case !found: // has no meaning, and the SDK does not take it
	case string(name) == "data":
		if s.some {
			s.data = append(s.data, '\n')
		}
		s.data, s.some = append(s.data, value...), true
	case string(name) == "event":
		s.named = len(value) > 0 && string(value) != "message"
		s.ready = append(s.ready, line...)
	default:
		s.ready = append(s.ready, line...)
	}
}

// nextLine returns the next line with its end, or as much of it as exceeds the limit. It is
// valid until the next call.
func (s *taggedStream) nextLine() ([]byte, error) {
	line, err := s.lines.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) && s.size+len(long) <= s.limit {
		line, err = s.lines.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}

// endEvent makes the data of the event ready, and the empty line that ends it.
func (s *taggedStream) endEvent(line []byte) {
	if s.some {
		data := s.data
		if !s.named && len(data) > 0 {
			if s.tag != "" {
				data = addTag(data, s.tag)
			}
			if _, err := jsonrpc.DecodeMessage(data); err != nil {
				s.refuseEvent()
				return
			}
		}
		for part := range bytes.SplitSeq(data, []byte("\n")) {
			s.ready = append(append(append(s.ready, "data: "...), part...), '\n')
		}
	}
	s.ready = append(s.ready, line...)
	s.data, s.some, s.named, s.size = nil, false, false, 0
}

// addTag returns a message with the tag in its _meta. What is not a question, progress or a
// log message, or cannot be read, is returned as it is.
func addTag(message []byte, tag string) []byte {
	if !bytes.Contains(message, []byte(`"method"`)) {
		return message // a response, which may be large
	}
	method, id, params := "", []byte(nil), []byte(nil)
	err := jsonx.CheckMembers(message, func(key, value []byte) error {
		switch string(key) {
		case "method":
			method = string(value)
		case "id":
			id = value
		case "params":
			params = value
		}
		return nil
	})
	if err != nil || jsonx.KindOf(params) != jsonx.Object {
		return message
	}
	switch method {
	case `"` + protocol.MethodElicit + `"`, `"` + protocol.NotifyProgress + `"`,
		`"` + protocol.NotifyMessage + `"`:
	default:
		return message
	}
	tagged, err := setMember(message, "params", func(params []byte) ([]byte, error) {
		return setMember(params, "_meta", func(meta []byte) ([]byte, error) {
			meta, err := setMember(meta, metaCall, func([]byte) ([]byte, error) {
				return jsonx.AppendText(nil, tag), nil
			})
			if err != nil || id == nil {
				return meta, err
			}
			return setMember(meta, metaQuestion, func([]byte) ([]byte, error) {
				return jsonx.AppendTextBytes(nil, id), nil
			})
		})
	})
	if err != nil {
		return message
	}
	return tagged
}

// setMember returns a copy of object in which the member name has what change makes of its
// value, nil if there is none. object, which is nil or has passed jsonx.Check, must be one.
func setMember(object []byte, name string,
	change func(value []byte) ([]byte, error)) ([]byte, error) {
	if object == nil {
		object = []byte("{}")
	}
	out := append(make([]byte, 0, len(object)+64), '{')
	var value []byte
	err := jsonx.Members(object, func(key, old []byte) error {
		if string(key) == name {
			value = old
			return nil
		}
		out = append(jsonx.AppendName(out, string(key)), old...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if value, err = change(value); err != nil {
		return nil, err
	}
	return append(append(jsonx.AppendName(out, name), value...), '}'), nil
}

// takeTag removes the marks from _meta and returns the ids of the call and of the question.
func takeTag(meta mcp.Meta) (call, question string) {
	call, _ = meta[metaCall].(string)
	question, _ = meta[metaQuestion].(string)
	delete(meta, metaCall)
	delete(meta, metaQuestion)
	if call == "" {
		question = "" // not marked here
	}
	return call, question
}
