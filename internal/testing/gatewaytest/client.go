package gatewaytest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// A Client is a client of revision 2025-11-25 that writes each message itself.
type Client struct {
	asked        atomic.Int32 // how many questions it got
	lastCall     atomic.Int64 // its id
	url, session string
	header       http.Header
	reply        string
	http         *http.Client
	deleted      bool

	// Over lines: where to write and to read, nil: the client is over HTTP.
	out io.WriteCloser
	in  *bufio.Reader
}

// UserHeader names the user of a request, in the place of authentication.
const UserHeader = "X-User"

// As returns the header of the requests of a user.
func As(user string) http.Header { return http.Header{UserHeader: {user}} }

// initialize is the first message of a client, without its capabilities.
const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{` +
	`"protocolVersion":"2025-11-25","capabilities":%s,` +
	`"clientInfo":{"name":"raw","version":"1"}}}`

// Connect opens a session with the gateway at url, which lasts until the test ends. declared are
// its capabilities. reply are the members of its response to each question, such as
// `"result":{"action":"decline"}`, in which MESSAGE stands for the message of the question; ""
// leaves questions open.
func Connect(t testing.TB, url, declared, reply string, header http.Header) *Client {
	t.Helper()
	return connect(t, &Client{url: url, header: header, reply: reply, http: http.DefaultClient},
		declared)
}

func connect(t testing.TB, c *Client, declared string) *Client {
	t.Helper()
	if c.out != nil {
		c.post(t, initialize, declared)
		(&Stream{lines: c.in}).Next()
	} else {
		response := c.send(t, http.MethodPost, initialize, declared)
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		c.session = response.Header.Get("Mcp-Session-Id")
		t.Cleanup(func() {
			if r := c.newRequest(context.Background(), http.MethodDelete, ""); !c.deleted {
				if response, err := c.http.Do(r); err == nil { // the gateway may have been killed
					response.Body.Close()
				}
			}
		})
	}
	c.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// Call calls a tool whose argument "question" is the given JSON, and returns the text of the
// result, or the error as JSON.
func (c *Client) Call(t testing.TB, tool, question string) string {
	t.Helper()
	return ResultText(c.finish(t, c.StartCall(t, tool, question)))
}

// Request sends a request, answers the questions on the way, and returns the text of the result,
// or the error as JSON.
func (c *Client) Request(t testing.TB, method, params string) string {
	t.Helper()
	return ResultText(c.request(t, method, params))
}

// request is Request with the whole response.
func (c *Client) request(t testing.TB, method, params string) Envelope {
	t.Helper()
	return c.finish(t, c.start(t, c.lastCall.Add(1), method, params))
}

func (c *Client) finish(t testing.TB, s *Stream) Envelope {
	t.Helper()
	defer s.Close()
	for {
		m, ok := s.Next()
		switch {
		case !ok:
			t.Error("the stream ended without a result")
			return m
		case m.Method == "elicitation/create":
			c.Send(t, m)
		case m.Method == "":
			return m
		}
	}
}

// Send sends the client's reply to a question of [Stream.WaitForQuestion], if it has one.
func (c *Client) Send(t testing.TB, question Envelope) {
	t.Helper()
	c.asked.Add(1)
	var params struct{ Message string }
	_ = json.Unmarshal(question.Params, &params)
	if c.reply != "" {
		c.post(t, `{"jsonrpc":"2.0","id":%s,%s}`, question.ID,
			strings.ReplaceAll(c.reply, "MESSAGE", params.Message))
	}
}

// Answer waits for the question of a call and answers it.
func (c *Client) Answer(t testing.TB, s *Stream) {
	t.Helper()
	c.Send(t, s.WaitForQuestion(t))
}

// A Stream is the response to a call.
type Stream struct {
	id       int64          // of the call
	response *http.Response // nil: over lines
	lines    *bufio.Reader
}

// StartCall sends a call and returns the stream on which questions and the result come.
func (c *Client) StartCall(t testing.TB, tool, question string) *Stream {
	t.Helper()
	return c.startCall(t, c.lastCall.Add(1), tool, question)
}

func (c *Client) startCall(t testing.TB, id int64, tool, question string) *Stream {
	t.Helper()
	return c.start(t, id, "tools/call",
		fmt.Sprintf(`{"name":%q,"arguments":{"question":%s}}`, tool, question))
}

func (c *Client) start(t testing.TB, id int64, method, params string) *Stream {
	t.Helper()
	const request = `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`
	if c.out != nil {
		c.post(t, request, id, method, params)
		return &Stream{id: id, lines: c.in}
	}
	response := c.send(t, http.MethodPost, request, id, method, params)
	return &Stream{id, response, bufio.NewReader(response.Body)}
}

// startGivingUp sends a call and returns a function that cancels it and waits for its end.
func (c *Client) startGivingUp(t testing.TB, tool, question string) (giveUp func()) {
	t.Helper()
	ended, id := make(chan struct{}), c.lastCall.Add(1)
	go func() {
		defer close(ended)
		s := c.startCall(t, id, tool, question)
		defer s.Close()
		_, _ = io.Copy(io.Discard, s.lines)
	}()
	return func() {
		t.Helper()
		c.cancel(t, id)
		<-ended
	}
}

// cancel cancels a call that is in flight.
func (c *Client) cancel(t testing.TB, id int64) {
	t.Helper()
	c.post(t, `{"jsonrpc":"2.0","method":"notifications/cancelled",`+
		`"params":{"requestId":%d,"reason":"too slow"}}`, id)
}

// Close gives the call up, if it has not ended.
func (s *Stream) Close() {
	if s.response != nil {
		s.response.Body.Close()
	}
}

// WaitForQuestion reads until the client is asked.
func (s *Stream) WaitForQuestion(t testing.TB) (question Envelope) {
	t.Helper()
	for {
		m, ok := s.Next()
		if !ok || m.Method == "" {
			t.Fatal("the client was not asked")
		}
		if m.Method == "elicitation/create" {
			return m
		}
	}
}

// Result reads the result of the call, of which no question may be left.
func (s *Stream) Result(t testing.TB) string {
	t.Helper()
	m, ok := s.Next()
	for ok && m.ID == nil { // a notification
		m, ok = s.Next()
	}
	if !ok || m.Method != "" {
		t.Error("the call has no result")
	}
	return ResultText(m)
}

// Next returns the next message, which may be the only one.
func (s *Stream) Next() (m Envelope, ok bool) {
	for {
		line, err := s.lines.ReadString('\n')
		m = Envelope{}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &m) == nil {
			return m, true
		}
		if err != nil {
			return m, false
		}
	}
}

// ResultText returns the text of a response, or its error or result as JSON.
func ResultText(m Envelope) string {
	var result struct {
		Content, Contents []struct{ Text string } // of a tool and of a resource
		Messages          []struct{ Content struct{ Text string } }
	}
	if m.Error == nil && json.Unmarshal(m.Result, &result) == nil {
		for _, content := range slices.Concat(result.Content, result.Contents) {
			return content.Text
		}
		for _, message := range result.Messages {
			return message.Content.Text
		}
	}
	return m.outcome()
}

// As returns a client that uses the same session with other headers.
func (c *Client) As(header http.Header) *Client {
	return &Client{url: c.url, session: c.session, header: header, reply: c.reply, http: c.http}
}

// At returns a client that uses the same session at another URL.
func (c *Client) At(url string) *Client {
	return &Client{url: url, session: c.session, header: c.header, reply: c.reply, http: c.http}
}

// Post sends a message and returns the status of the response.
func (c *Client) Post(t testing.TB, message string) (status int) {
	t.Helper()
	response := c.send(t, http.MethodPost, "%s", message)
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// Delete ends the session.
func (c *Client) Delete(t testing.TB) (status int) {
	t.Helper()
	c.deleted = true
	response := c.send(t, http.MethodDelete, "")
	response.Body.Close()
	return response.StatusCode
}

// post sends a message to which there is no response.
func (c *Client) post(t testing.TB, format string, args ...any) {
	t.Helper()
	if c.out == nil {
		c.send(t, http.MethodPost, format, args...).Body.Close()
	} else if _, err := fmt.Fprintf(c.out, format+"\n", args...); err != nil {
		t.Fatal(err)
	}
}

func (c *Client) send(t testing.TB, method, format string, args ...any) *http.Response {
	t.Helper()
	response, err := c.http.Do(c.newRequest(t.Context(), method, fmt.Sprintf(format, args...)))
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func (c *Client) newRequest(ctx context.Context, method, body string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for key, values := range c.header {
		r.Header[key] = values
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	return r
}
