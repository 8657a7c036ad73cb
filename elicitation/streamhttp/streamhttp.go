// Package streamhttp tells an [elicitation.Router] which call a question belongs to, where the
// calls of many clients share one HTTP connection to an upstream. An upstream writes a question on
// the response stream of the request that caused it, but an SDK hands it to a function for the
// whole connection, and so loses the call:
//
//	client := &http.Client{Transport: streamhttp.TagStreams(nil)}
//	// connect the SDK's client with it, once; then for each request of a client:
//	call, err := router.Begin(ctx, origin, via, "upstream-1")
//	defer call.End()
//	result, err := upstream.CallTool(streamhttp.WithCall(ctx, call), params)
//
// The SDK's function passes the parameters to [elicitation.Router.ElicitFrom], to find the call.
package streamhttp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

type callKey struct{}

// WithCall returns a context for the upstream requests of call. Do not connect with it, or a shared
// connection would belong to the first call.
func WithCall(ctx context.Context, call *elicitation.Call) context.Context {
	return context.WithValue(ctx, callKey{}, call.Origin().CallID)
}

// TagStreams returns a transport that sends requests through base; nil means
// [http.DefaultTransport]. In event streams that respond to a request whose context is from
// [WithCall] it adds the call's id to each question, as [elicitation.MetaCall]. Everything else
// passes unchanged: other messages, events over 256 KiB, which no router would accept as questions,
// and other streams, such as the session's. Requests may overlap, as base allows.
func TagStreams(base http.RoundTripper) http.RoundTripper {
	return tagger{cmp.Or(base, http.DefaultTransport)}
}

type tagger struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t tagger) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	id, ok := r.Context().Value(callKey{}).(string)
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if ok && kind == "text/event-stream" {
		response.Body = &taggedStream{Closer: response.Body, id: id,
			lines: bufio.NewReaderSize(response.Body, maxEvent)}
		response.ContentLength = -1
		response.Header.Del("Content-Length")
	}
	return response, nil
}

// CloseIdleConnections passes an [http.Client]'s call on.
func (t tagger) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

const maxEvent = 256 << 10 // bytes of an event that is parsed

type taggedStream struct {
	io.Closer
	lines *bufio.Reader
	id    string

	event  []byte // lines of the current event
	other  []byte // the event's lines other than data
	data   []byte // the event's data, joined by LF
	passes bool   // the rest of the event passes unchanged
	ready  []byte // output to be read
	err    error  // returned after ready
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

// readLine reads one line, or part of an oversized one, and readies its output.
func (s *taggedStream) readLine() {
	line, err := s.lines.ReadSlice('\n')
	isLong := errors.Is(err, bufio.ErrBufferFull)
	if err != nil && !isLong {
		s.err = err
	}
	isLast := len(bytes.TrimRight(line, "\r\n")) == 0 && !isLong
	switch {
	case s.passes:
		s.ready = append(s.ready, line...)
	case isLong || len(s.event)+len(line) > maxEvent:
		s.ready = append(append(s.ready, s.event...), line...)
		s.event, s.passes = nil, true
	default:
		s.addLine(line)
		if isLast || s.err != nil { // some clients accept an event ended by the stream's end
			s.endEvent()
		}
	}
	if isLast {
		s.event, s.other, s.data, s.passes = nil, nil, nil, false
	}
}

func (s *taggedStream) addLine(line []byte) {
	s.event = append(s.event, line...)
	name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
	if string(name) != "data" {
		s.other = append(s.other, line...)
		return
	}
	if s.data != nil {
		s.data = append(s.data, '\n')
	}
	s.data = append(s.data, bytes.TrimPrefix(value, []byte(" "))...)
}

// endEvent readies the event; the empty line that ends it is in other.
func (s *taggedStream) endEvent() {
	tagged := tagQuestion(s.data, s.id)
	if tagged == nil {
		s.ready = append(s.ready, s.event...)
		return
	}
	s.ready = append(s.ready, "data: "...)
	s.ready = append(s.ready, bytes.ReplaceAll(tagged, []byte("\n"), []byte("\ndata: "))...)
	s.ready = append(append(s.ready, '\n'), s.other...)
}

// tagQuestion returns a question with its call's id, or nil if message is no question.
func tagQuestion(message []byte, id string) []byte {
	if !bytes.Contains(message, []byte(`"method"`)) {
		return nil // a response, which may be large
	}
	isQuestion := false
	err := jsonx.CheckMembers(message, func(key, value []byte) error {
		if string(key) == "method" {
			method, err := jsonx.Text(value)
			isQuestion = method == protocol.MethodElicit
			return err
		}
		return nil
	})
	if err != nil || !isQuestion {
		return nil
	}
	tagged, err := setMember(message, "params", func(params []byte) ([]byte, error) {
		return setMember(params, "_meta", func(meta []byte) ([]byte, error) {
			return setMember(meta, elicitation.MetaCall, func([]byte) ([]byte, error) {
				return jsonx.AppendText(nil, id), nil
			})
		})
	})
	if err != nil {
		return nil
	}
	return tagged
}

// setMember returns a copy of object, or of {} if nil, whose member name is change(value). value is
// the old member, or nil.
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
