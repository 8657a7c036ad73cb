package wiretest

import (
	"bytes"
	"cmp"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Recorder is an [http.RoundTripper] that records exchanges by start. Calls may overlap.
type Recorder struct {
	Base http.RoundTripper // nil: [http.DefaultTransport]

	mu        sync.Mutex
	exchanges []*exchange
}

// An exchange is one request and its response so far. The recorder's lock guards it.
type exchange struct {
	request     Message
	response    *Message // the head only; nil until it arrives
	contentType string
	body        bytes.Buffer
}

// RoundTrip implements [http.RoundTripper]. It records the response while the caller reads it.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context()) // a RoundTripper must not modify the request
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	ex := &exchange{request: Message{
		From: Client, HTTP: req.Method + " " + req.URL.RequestURI(), Header: kept(req.Header),
		Body: body,
	}}
	r.mu.Lock()
	r.exchanges = append(r.exchanges, ex)
	r.mu.Unlock()

	resp, err := cmp.Or(r.Base, http.DefaultTransport).RoundTrip(req)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ex.response = &Message{From: Server, Header: kept(resp.Header),
		HTTP: strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode)}
	ex.contentType = resp.Header.Get("Content-Type")
	resp.Body = &tee{ReadCloser: resp.Body, recorder: r, exchange: ex}
	return resp, nil
}

// Messages returns every request and its responses. Each event with data is one message.
func (r *Recorder) Messages() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Message
	for _, ex := range r.exchanges {
		all = append(all, ex.request)
		if ex.response == nil {
			continue
		}
		head := *ex.response
		if media, _, _ := mime.ParseMediaType(ex.contentType); media != "text/event-stream" {
			head.Body = bytes.Clone(ex.body.Bytes())
			all = append(all, head)
			continue
		}
		events := eventData(ex.body.String())
		if len(events) == 0 {
			all = append(all, head)
		}
		for _, data := range events {
			head.Body = []byte(data)
			all = append(all, head)
			head = Message{From: Server} // only the first has the head
		}
	}
	return all
}

// A tee is a response body that records what is read.
type tee struct {
	io.ReadCloser
	recorder *Recorder
	exchange *exchange
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	t.exchange.body.Write(p[:n])
	return n, err
}

// The function kept returns the protocol's header lines, without credentials and varying lines.
func kept(header http.Header) []string {
	var lines []string
	for name, values := range header {
		name = http.CanonicalHeaderKey(name)
		if !strings.HasPrefix(name, "Mcp-") && !slices.Contains([]string{"Accept", "Allow",
			"Content-Type", "Last-Event-Id", "Retry-After", "Www-Authenticate"}, name) {
			continue
		}
		for _, value := range values {
			lines = append(lines, name+": "+value)
		}
	}
	slices.Sort(lines)
	return lines
}

// eventData returns the data of every complete event. The reader under test is not used here.
func eventData(stream string) []string {
	stream = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream)
	var all, data []string
	lines := strings.Split(stream, "\n")
	for _, line := range lines[:len(lines)-1] { // the last part is not a complete line yet
		switch field, value, _ := strings.Cut(line, ":"); {
		case line == "":
			if text := strings.Join(data, "\n"); text != "" {
				all = append(all, text)
			}
			data = nil
		case field == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return all
}
