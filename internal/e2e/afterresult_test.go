package e2e_test

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

	"github.com/rondo-mcp/rondo/internal/heartbeat"
	"github.com/rondo-mcp/rondo/internal/pipehttp"
	"github.com/rondo-mcp/rondo/internal/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// A calling is a client in fake time that writes its own messages. heard is what the server says,
// in its order.
type calling struct {
	*testing.T
	say   func(text string)
	heard chan string
	close func()
}

func (c *calling) hear(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if text := strings.TrimPrefix(lines.Text(), "data: "); strings.HasPrefix(text, "{") {
			c.heard <- text
		}
	}
}

// next returns the next message, which must come within an hour.
func (c *calling) next() string {
	c.Helper()
	select {
	case text := <-c.heard:
		return text
	case <-time.After(time.Hour):
		c.Fatal("the server says nothing")
	}
	return ""
}

// visitorsHandshake opens the session of a client that visits URLs, too.
func visitorsHandshake(revision string) string {
	return strings.Replace(oldHandshake(revision), `"elicitation":{}`, `"elicitation":{"form":{},"url":{}}`, 1)
}

func callingOverLines(t *testing.T, srv *server.Server, revision string) *calling {
	c := &calling{T: t, heard: make(chan string, 1000)}
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.ServeStream(t.Context(), fromClient, toClient, nil)
		_ = toClient.Close()
	}()
	go c.hear(fromServer)
	c.say = func(text string) { _, _ = io.WriteString(toServer, text+"\n") }
	c.close = func() { _ = toServer.Close(); <-ended }
	if protocol.Version(revision).Era() == protocol.Legacy {
		c.say(visitorsHandshake(revision))
		c.next()
	}
	return c
}

func callingOverHTTP(t *testing.T, srv *server.Server, revision string) *calling {
	c := &calling{T: t, heard: make(chan string, 1000)}
	handler := servertest.NewHandler(t, srv, nil)
	web := pipehttp.Serve(t, handler)
	http1 := web.Client()
	session := ""
	post := func(text string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, pipehttp.URL,
			strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", revision)
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		} else if revision == string(protocol.V20260728) {
			r.Header.Set("Mcp-Method", protocol.MethodCallTool)
			r.Header.Set("Mcp-Name", "t")
		}
		response, err := http1.Do(r)
		if err != nil {
			t.Error(err)
			return nil
		}
		return response
	}
	if protocol.Version(revision).Era() == protocol.Legacy {
		hello := post(visitorsHandshake(revision))
		session = hello.Header.Get("Mcp-Session-Id")
		_, _ = io.Copy(io.Discard, hello.Body)
		_ = hello.Body.Close()
	}
	c.say = func(text string) {
		go func() {
			if response := post(text); response != nil {
				c.hear(response.Body)
				_ = response.Body.Close()
			}
		}()
	}
	c.close = func() {
		_ = handler.Shutdown(context.Background())
		web.Close()
	}
	return c
}

// A callResult is what came of one call.
type callResult struct {
	beats int
	text  string // of the response, empty: there is none yet
	state string
}

// wait makes a call for each of retries, which are further parameters, and returns what comes of
// them when all have their result. What the calls ask is answered after the time given, all at
// once.
func (c *calling) wait(revision, answer string, after time.Duration,
	retries []string) []callResult {
	c.Helper()
	results, questions := make([]callResult, len(retries)), make(chan json.RawMessage, len(retries))
	for id, more := range retries {
		meta := fmt.Sprintf(`"progressToken":%d`, id)
		if revision == string(protocol.V20260728) {
			meta += `,"` + protocol.MetaProtocolVersion + `":"` + revision + `","` + protocol.MetaClientCapabilities + `":` + every
		}
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{},%s"_meta":{%s}}}`, id, more, meta))
	}
	go func() {
		for range retries {
			id, ok := <-questions
			if !ok {
				return
			}
			go func() {
				time.Sleep(after)
				c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, answer))
			}()
		}
	}()
	for open := len(retries); open > 0; {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Token int `json:"progressToken"`
			}
			Result struct {
				State string `json:"requestState"`
			}
		}
		text := c.next()
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			c.Fatal(err)
		}
		switch m.Method {
		case protocol.MethodElicit:
			questions <- m.ID
		case protocol.NotifyProgress:
			if results[m.Params.Token].beats++; results[m.Params.Token].text != "" {
				c.Errorf("after the result of call %d the server says %s", m.Params.Token, text)
			}
		case "":
			var id int
			if err := json.Unmarshal(m.ID, &id); err != nil || results[id].text != "" ||
				strings.Contains(text, "rror") {
				c.Fatalf("got %s", text)
			}
			results[id].text, results[id].state = text, m.Result.State
			open--
		}
	}
	close(questions)
	synctest.Wait()
	for len(c.heard) > 0 {
		c.Errorf("after all results the server says %s", <-c.heard)
	}
	return results
}

// TestNoHeartbeatFollowsTheResult, also if people answer, or visits end, at the very instant at
// which heartbeats are due: which of the two comes first is left to chance, so there are many of
// them at once.
func TestNoHeartbeatFollowsTheResult(t *testing.T) {
	hosts := map[string]func(*testing.T, *server.Server, string) *calling{"lines": callingOverLines,
		"http": callingOverHTTP}
	for over, open := range hosts {
		for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
			for _, visit := range []bool{false, true} {
				if visit != (revision == "2026-07-28") && revision != "2025-11-25" {
					continue // what waits in the modern revision is the end of a visit
				}
				t.Run(fmt.Sprint(over, "/", revision, "/visit ", visit), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						answerWhenBeatsAreDue(t, open, revision,
							visit)
					})
				})
			}
		}
	}
}

func answerWhenBeatsAreDue(t *testing.T, open func(*testing.T, *server.Server, string) *calling,
	revision string, visit bool) {
	const rounds, calls = 20, 50
	srv, err := server.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close() }()
	var finished time.Time
	server.AddRawTool(srv, server.Tool{Name: "t"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			if !visit {
				_, err := roundtrip.Ask[confirmation](ctx, "sure", "Sure?")
				return server.Text("done"), err
			}
			if err := roundtrip.AskURL(ctx, "login", "Sign in", "https://id.example/"); err != nil {
				return nil, err
			}
			err := roundtrip.Await(ctx, "login",
				func(context.Context) (bool, error) { return !time.Now().Before(finished), nil })
			return server.Text("done"), err
		})
	c, beats := open(t, srv, revision), 0
	defer c.close()
	for i := range rounds {
		// no visit is held for much longer
		due := heartbeat.Delay + time.Duration(i%2)*heartbeat.DefaultInterval
		finished = time.Now().Add(due)
		answer, after, retries := `{"action":"accept","content":{"reason":"why not"}}`, due, make([]string, calls)
		if visit {
			answer, after = `{"action":"accept"}`, 0
		}
		results := c.wait(revision, answer, after, retries)
		if revision == string(protocol.V20260728) {
			for i := range retries {
				retries[i] = `"inputResponses":{"login":` + answer + `},"requestState":` + quote(results[i].state) + `,`
			}
			results = c.wait(revision, "", 0, retries)
		}
		for _, r := range results {
			if beats += r.beats; !strings.Contains(r.text, "done") {
				t.Fatalf("got %s", r.text)
			}
		}
	}
	time.Sleep(time.Hour)
	if beats < rounds*calls/2 {
		t.Errorf("%d calls that wait have %d heartbeats", rounds*calls, beats)
	}
}
