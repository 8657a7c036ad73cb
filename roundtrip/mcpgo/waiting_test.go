package mcpgo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// A message is what a server says.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Token    any     `json:"progressToken"`
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
		Message  string  `json:"message"`
		Mode     string  `json:"mode"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	raw   string
	event string // the id of its event, empty: none
}

// A session is one of an older revision, of a client that writes its own
// messages. What the server says comes in the order in which it was written.
type session struct {
	testing.TB
	say   func(text string)
	heard chan message
	said  func() []wiretest.Message
}

// openSession opens a session. Over "http, standing" it listens, too.
func openSession(t *testing.T, transport, revision string, a *mcpgo.Adapter,
	s *server.MCPServer) *session {
	t.Helper()
	c := &session{TB: t, heard: make(chan message, 1000)}
	if transport == "lines" {
		c.openLines(t, a, s)
		c.say(handshake(revision))
		c.response(`"hello"`)
	} else {
		var opts []server.StreamableHTTPOption
		if transport == "http, stored" {
			opts = append(opts, server.WithEventStore(server.NewInMemoryEventStore()))
		}
		c.openHTTP(t, revision, a, s, transport == "http, standing", opts...)
	}
	return c
}

func handshake(revision string) string {
	return `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{}},"clientInfo":{"name":"old","version":"1"}}}`
}

func (c *session) openLines(t *testing.T, a *mcpgo.Adapter, s *server.MCPServer) {
	r, w, said := serveLines(t, a, s)
	c.said = said
	c.say = func(text string) {
		if _, err := io.WriteString(w, text+"\n"); err != nil {
			t.Error(err)
		}
	}
	go c.hear(r)
}

func (c *session) openHTTP(t *testing.T, revision string, a *mcpgo.Adapter, s *server.MCPServer,
	standing bool, opts ...server.StreamableHTTPOption) {
	log := &wiretest.Log{}
	c.said = log.Messages
	http1 := pipehttp.Serve(t, recordExchanges(log, newHTTPHandler(a, s, opts...))).Client()
	id := ""
	send := func(method, text string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, pipehttp.URL,
			strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if id != "" {
			r.Header.Set("Mcp-Session-Id", id)
			r.Header.Set("Mcp-Protocol-Version", revision)
		}
		response, err := http1.Do(r)
		if err != nil {
			return nil // the test has ended, or will say what is missing
		}
		return response
	}
	hello := send(http.MethodPost, handshake(revision))
	id = hello.Header.Get("Mcp-Session-Id")
	_ = hello.Body.Close()
	c.say = func(text string) {
		go func() {
			if response := send(http.MethodPost, text); response != nil {
				c.hear(response.Body)
				_ = response.Body.Close()
			}
		}()
	}
	if standing {
		stream := send(http.MethodGet, "")
		t.Cleanup(func() { _ = stream.Body.Close() })
		go c.hear(stream.Body)
	}
}

func (c *session) hear(r io.Reader) {
	event := ""
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			event = id
			continue
		}
		text := strings.TrimPrefix(lines.Text(), "data: ")
		m := message{raw: text, event: event}
		if json.Unmarshal([]byte(text), &m) == nil {
			c.heard <- m
			event = ""
		}
	}
}

// next returns the next message that is one of those.
func (c *session) next(what string, is func(message) bool) message {
	c.Helper()
	enough := time.After(10 * time.Second)
	for {
		select {
		case m := <-c.heard:
			if is(m) {
				return m
			}
		case <-enough:
			c.Fatalf("no %s; said was %s", what, c.text())
		}
	}
}

func (c *session) text() (all string) {
	for _, m := range c.said() {
		all += fmt.Sprintf("\n%v %s", m.From, m.Body)
	}
	return all
}

func (c *session) question() message {
	return c.next("question", func(m message) bool { return m.Method == "elicitation/create" })
}

func (c *session) response(id string) message {
	return c.next("response", func(m message) bool { return m.Method == "" && string(m.ID) == id })
}

func isHeartbeat(m message) bool {
	return m.Method == "notifications/progress" && m.Params.Message == "waiting for an answer"
}

// progress returns what the server has said on a token so far, and whether the
// call with an id was answered before.
func (c *session) progress(token any, id string) (before, after []message) {
	answered := false
	for _, line := range c.said() {
		var m message
		if line.From != wiretest.Server || json.Unmarshal(line.Body, &m) != nil {
			continue
		}
		answered = answered || m.Method == "" && string(m.ID) == id
		switch {
		case m.Method != "notifications/progress" || m.Params.Token != token:
		case answered:
			after = append(after, m)
		default:
			before = append(before, m)
		}
	}
	return before, after
}

// until waits for something to be so.
func (c *session) until(so func() bool) {
	c.Helper()
	for range 500 {
		if so() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.Fatalf("said was %s", c.text())
}

// addReporter adds a tool that reports before it asks and after. It waits until
// what it reported is written: mcp-go loses some of what is reported just before
// the answer.
func addReporter(s *server.MCPServer, written func(text string), after ...float64) {
	report := func(ctx context.Context, r mcp.CallToolRequest, value float64) {
		if r.Params.Meta == nil {
			return
		}
		_ = server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress",
			map[string]any{
				"progressToken": r.Params.Meta.ProgressToken, "progress": value, "total": 3,
				"message": fmt.Sprint(value),
			})
		written(fmt.Sprintf(`"message":"%v"`, value))
	}
	s.AddTool(mcp.NewTool("report"),
		func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			report(ctx, r, 1)
			if _, err := mcpgo.Elicit(ctx, "sure",
				mcp.ElicitationRequest{Params: form("Sure?")}); err != nil {
				return nil, err
			}
			for _, value := range after {
				report(ctx, r, value)
			}
			return mcp.NewToolResultText("done"), nil
		})
}

const callReport = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"report","_meta":{"progressToken":%s}}}`

// While a call of an older revision waits for a person, its client hears that it
// is alive, on the token that its handler reports on: values rise whoever reports.
func TestHeartbeatsOfACallThatWaits(t *testing.T) {
	for _, transport := range []string{"http", "http, standing", "lines"} {
		for _, revision := range []string{"2025-06-18", v20251125} {
			t.Run(transport+"/"+revision, func(t *testing.T) {
				inFakeTime(t, transport, func(t *testing.T, interval time.Duration) {
					checkHeartbeats(t, transport, revision, interval)
				})
			})
		}
	}
}

// inFakeTime runs a test with heartbeats at an interval, in fake time over HTTP. Over lines that
// is not possible: mcp-go has one session for lines, whose channels are made when the process
// starts, outside of any bubble. There the interval is short, so that waits for some are, too.
func inFakeTime(t *testing.T, transport string, test func(*testing.T, time.Duration)) {
	if transport == "lines" {
		test(t, 5*time.Millisecond)
		return
	}
	synctest.Test(t, func(t *testing.T) { test(t, time.Second) })
}

// checkHeartbeats calls a tool that reports, and answers its question after three heartbeats.
func checkHeartbeats(t *testing.T, transport, revision string, interval time.Duration) {
	s := newHostServer()
	var c *session
	addReporter(s, func(text string) {
		c.until(func() bool { return strings.Contains(c.text(), text) })
	}, 1.00001, 2)
	c = openSession(t, transport, revision,
		install(t, s, &mcpgo.Options{Options: roundtrip.Options{Heartbeat: interval}}), s)
	c.say(fmt.Sprintf(callReport, `"p"`))
	question := c.question()
	for range 3 {
		c.next("heartbeat", isHeartbeat)
	}
	c.say(`{"jsonrpc":"2.0","id":` + string(question.ID) + `,"result":{"action":"accept","content":{"zeal":"much"}}}`)
	if got := c.response("7"); !strings.Contains(got.raw, "done") {
		t.Fatalf("got %s", got.raw)
	}
	time.Sleep(4 * interval)
	before, after := c.progress("p", "7")
	if len(after) > 0 {
		t.Errorf("after the answer: %+v", after)
	}
	last, texts, beats := 0.0, []string(nil), 0
	for _, m := range before {
		if m.Params.Progress <= last {
			t.Errorf("%v follows %v", m.Params.Progress, last)
		}
		if last = m.Params.Progress; m.Params.Total != 3 {
			t.Errorf("total %v, want 3", m.Params.Total)
		}
		if isHeartbeat(m) {
			beats++
			continue
		}
		texts = append(texts, m.Params.Message)
	}
	if strings.Join(texts, " ") != "1 1.00001 2" || beats < 3 || last != 2 {
		t.Errorf("the handler's own are %v, with %d heartbeats, up to %v; said was %s",
			texts, beats, last, c.text())
	}
}

// A visit that is finished is announced to the client of a session under the id
// under which it was asked for, if the revision has such a notification.
func TestFinishedVisitsAreAnnounced(t *testing.T) {
	for _, transport := range []string{"http", "http, standing", "http, stored", "lines"} {
		t.Run(transport, func(t *testing.T) {
			s := newHostServer()
			s.AddTool(mcp.NewTool("visit"),
				func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					if err := roundtrip.AskURL(ctx, "login", "Sign in", visitURL); err != nil {
						return nil, err
					}
					err := roundtrip.Await(ctx, "login",
						func(context.Context) (bool, error) { return true, nil })
					return mcp.NewToolResultText("signed in"), err
				})
			c := openSession(t, transport, v20251125, install(t, s, nil), s)
			c.say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"visit"}}`)
			question := c.question()
			c.say(`{"jsonrpc":"2.0","id":` + string(question.ID) + `,"result":{"action":"accept"}}`)
			var asked struct {
				Params struct {
					ID string `json:"elicitationId"`
				} `json:"params"`
			}
			if err := json.Unmarshal([]byte(question.raw), &asked); err != nil ||
				asked.Params.ID == "" {
				t.Fatalf("asked %s, %v", question.raw, err)
			}
			end := c.next("the announcement", func(m message) bool {
				return m.Method == "notifications/elicitation/complete"
			})
			if stored := transport == "http, stored"; stored != (end.event != "") {
				t.Errorf("the announcement has the event id %q; stored for redelivery: %v",
					end.event, stored)
			}
			c.until(func() bool { return strings.Contains(c.text(), "signed in") })
			if n := strings.Count(c.text(), asked.Params.ID); n != 2 {
				t.Errorf("the id comes %d times, want that of the question and of its end; said "+
					"was %s", n, c.text())
			}
		})
	}
}

// Heartbeats can be turned off, and no token is repeated that a client made too long.
func TestNoHeartbeats(t *testing.T) {
	for token, interval := range map[string]time.Duration{
		`"p"`: -1, `"` + strings.Repeat("x", 300) + `"`: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newHostServer()
			addReporter(s, func(string) {})
			c := openSession(t, "http", v20251125, install(t, s,
				&mcpgo.Options{Options: roundtrip.Options{Heartbeat: interval}}), s)
			c.say(fmt.Sprintf(callReport, token))
			question := c.question()
			time.Sleep(4 * time.Second) // in which some would go out
			c.say(`{"jsonrpc":"2.0","id":` + string(question.ID) +
				`,"result":{"action":"accept","content":{"zeal":"much"}}}`)
			c.response("7")
			if strings.Contains(c.text(), "waiting for an answer") {
				t.Errorf("said was %s", c.text())
			}
		})
	}
}
