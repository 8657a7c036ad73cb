package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// A wire is an HTTP transport. show prints traffic. tamper changes a byte of sent requestStates.
type wire struct{ show, tamper bool }

var state = regexp.MustCompile(`("requestState":")([^"]*)"`)

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil { // opens or ends a session's stream
		return http.DefaultTransport.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if w.tamper {
		body = state.ReplaceAllFunc(body, flip)
	}
	w.print("->", body)
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))

	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &stream{resp.Body, w, nil} // must not be read to its end first
		return resp, nil
	}
	answer, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	if len(answer) > 0 { // 202 has none
		w.print("<- "+strconv.Itoa(resp.StatusCode), answer)
	}
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	return resp, nil
}

// A stream prints the messages of an event stream while they are read.
type stream struct {
	io.ReadCloser
	wire *wire
	line []byte // that has not ended yet
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	for line := range bytes.Lines(p[:n]) {
		s.line = append(s.line, line...)
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		if data, ok := bytes.CutPrefix(s.line, []byte("data: ")); ok && data[0] == '{' {
			s.wire.print("<- event", data)
		}
		s.line = nil
	}
	return n, err
}

func (w *wire) print(direction string, body []byte) {
	if w.show {
		fmt.Printf("%s %s\n", direction, shorten(body))
	}
}

func flip(member []byte) []byte {
	changed := bytes.Clone(member)
	at := len(changed) - len(changed)/3
	if changed[at] == 'A' {
		changed[at] = 'B'
	} else {
		changed[at] = 'A'
	}
	return changed
}

func shorten(body []byte) []byte {
	return state.ReplaceAllFunc(bytes.TrimSpace(body), func(member []byte) []byte {
		parts := state.FindSubmatch(member)
		return fmt.Appendf(nil, `%s%.12s… %d bytes"`, parts[1], parts[2], len(parts[2]))
	})
}
