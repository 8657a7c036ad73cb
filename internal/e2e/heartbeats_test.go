package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// An oldClient is one of a revision with sessions, which writes its own messages. What the server
// says to it comes in order.
type oldClient struct {
	say   func(text string)
	heard chan oldMessage
	end   func() // deletes the session; nil where it ends with the stream
	// settle waits until all that was said has its response.
	settle func()
}

type oldMessage struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params protocol.Progress `json:"-"`
	raw    string
}

func (c *oldClient) hear(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		text := strings.TrimPrefix(lines.Text(), "data: ")
		m := oldMessage{raw: text}
		if json.Unmarshal([]byte(text), &m) != nil {
			continue
		}
		var n struct{ Params protocol.Progress }
		if m.Method == protocol.NotifyProgress && json.Unmarshal([]byte(text), &n) == nil {
			m.Params = n.Params
		}
		c.heard <- m
	}
}

func (c *oldClient) next(t *testing.T) oldMessage {
	t.Helper()
	select {
	case m := <-c.heard:
		return m
	case <-time.After(patience):
		t.Fatal("the server says nothing")
	}
	return oldMessage{}
}

func oldHandshake(revision string) string {
	return `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{"elicitation":{}},"clientInfo":{"name":"old","version":"1"}}}`
}

func oldOverLines(t *testing.T, srv *server.Server, revision string) *oldClient {
	t.Helper()
	c := &oldClient{heard: make(chan oldMessage, 1000), settle: func() {}}
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.ServeStream(t.Context(), fromClient, toClient, nil)
	}()
	t.Cleanup(func() { _ = toServer.Close(); _ = fromServer.Close(); <-ended })
	go c.hear(fromServer)
	c.say = func(text string) { _, _ = io.WriteString(toServer, text+"\n") }
	c.say(oldHandshake(revision))
	c.next(t)
	return c
}

func oldOverHTTP(t *testing.T, srv *server.Server, revision string) *oldClient {
	t.Helper()
	c := &oldClient{heard: make(chan oldMessage, 1000)}
	url, http1, id := listen(t, servertest.NewHandler(t, srv, nil)),
		&http.Client{Transport: transport(t)}, ""
	post := func(text string) *http.Response {
		r, err := http.NewRequestWithContext(within(t, patience), http.MethodPost, url,
			strings.NewReader(text))
		if err != nil {
			t.Error(err)
			return nil
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if id != "" {
			r.Header.Set("Mcp-Session-Id", id)
			r.Header.Set("Mcp-Protocol-Version", revision)
		}
		response, err := http1.Do(r)
		if err != nil {
			t.Error(err)
			return nil
		}
		return response
	}
	hello := post(oldHandshake(revision))
	id = hello.Header.Get("Mcp-Session-Id")
	_ = hello.Body.Close()
	c.end = func() {
		r, err := http.NewRequestWithContext(within(t, patience), http.MethodDelete, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Mcp-Session-Id", id)
		response, err := http1.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusNoContent {
			t.Errorf("the session is deleted with status %d", response.StatusCode)
		}
	}
	var posts sync.WaitGroup
	c.settle = posts.Wait
	c.say = func(text string) {
		posts.Go(func() {
			if response := post(text); response != nil {
				c.hear(response.Body)
				_ = response.Body.Close()
			}
		})
	}
	return c
}

// addHeartbeatHosts adds a tool of each kind that waits for a person: one that asks itself, and one
// of a gateway, whose router asks by the call of our server.
func addHeartbeatHosts(t *testing.T, srv *server.Server) []string {
	t.Helper()
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	server.AddRawTool(srv, server.Tool{Name: "author"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			_ = call.Progress(ctx, 1, 3, "one")
			_, err := roundtrip.Ask[confirmation](ctx, "sure", "Sure?")
			_ = call.Progress(ctx, 2, 3, "two")
			return server.Text("done"), err
		})
	server.AddRawTool(srv, server.Tool{Name: "gateway"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			session, err := router.Attach(elicitation.SessionInfo{Capabilities: call.Capabilities(),
				Version: call.Version})
			if err != nil {
				return nil, err
			}
			defer session.Detach()
			routed, err := router.Begin(ctx, elicitation.Origin{Session: session},
				elicitation.ViaAsker(elicitation.AskFunc(func(ctx context.Context, q elicitation.Question,
					_ func()) (json.RawMessage, error) {
					answer, err := call.Elicit(ctx, q.Request.(*protocol.ElicitForm))
					if err != nil {
						return nil, err
					}
					return json.Marshal(answer)
				})), "")
			if err != nil {
				return nil, err
			}
			defer routed.End()
			// What the upstream reports is relayed as the handler's own: here that it has begun,
			// and that it waits for a person, too.
			_ = call.Progress(ctx, 1, 3, "one")
			_ = call.Progress(ctx, 1.00048828125, 3, "the upstream waits")
			_, err = routed.Elicit(context.Background(), json.RawMessage(`{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`), nil)
			_ = call.Progress(ctx, 2, 3, "two")
			return server.Text("done"), err
		})
	return []string{"author", "gateway"}
}

// TestClientsOfOlderRevisionsHearThatACallWaits: while a person thinks, progress rises on the token
// of the call, up to what is reported afterwards; nothing follows the result.
func TestClientsOfOlderRevisionsHearThatACallWaits(t *testing.T) {
	for over, open := range map[string]func(*testing.T, *server.Server,
		string) *oldClient{"http": oldOverHTTP, "lines": oldOverLines} {
		for _, revision := range []string{"2025-06-18", "2025-11-25"} {
			srv, _ := mustServe(t, &server.Options{Roundtrip: roundtrip.Options{Heartbeat: 5 * time.Millisecond}})
			for _, tool := range addHeartbeatHosts(t, srv) {
				t.Run(fmt.Sprint(tool, "/", over, "/", revision), func(t *testing.T) {
					c := open(t, srv, revision)
					c.say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","_meta":{"progressToken":"p"}}}`)
					question, beats, last, texts := oldMessage{}, 0, 0.0, ""
					for answered := false; ; {
						m := c.next(t)
						switch {
						case m.Method == protocol.MethodElicit:
							question = m
						case m.Params.Message == "waiting for an answer":
							beats++
						case m.Method == protocol.NotifyProgress:
							texts += m.Params.Message + ", "
						}
						if m.Method == protocol.NotifyProgress {
							if m.Params.Progress <= last {
								t.Errorf("%v follows %v", m.Params.Progress, last)
							}
							last = m.Params.Progress
						}
						if beats == 3 && !answered {
							answered = true
							c.say(`{"jsonrpc":"2.0","id":` + string(question.ID) + `,"result":{"action":"accept","content":{"reason":"why not"}}}`)
						}
						if m.Method == "" && string(m.ID) == "7" {
							if !strings.Contains(m.raw, "done") {
								t.Errorf("got %s", m.raw)
							}
							break
						}
					}
					if !strings.HasPrefix(texts, "one, ") || !strings.HasSuffix(texts, "two, ") ||
						last != 2 {
						t.Errorf("reported was %sup to %v", texts, last)
					}
					time.Sleep(20 * time.Millisecond) // four heartbeats
					if n := len(c.heard); n > 0 {
						t.Errorf("%d messages after the result, the first is %s", n,
							(<-c.heard).raw)
					}
				})
			}
		}
	}
}
