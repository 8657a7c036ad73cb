package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// A rawClient writes its own messages, and has a session in revisions that have them. It ends with
// the test. Its connections are made in memory, so that it works in fake time, too.
type rawClient struct {
	*testing.T
	say   func(text string)
	heard chan rawMessage // what the server says, in its order
	// deleteSession is nil where the session ends with the stream.
	deleteSession func()
	// settle waits until all that was said has its response.
	settle func()
}

// A rawMessage is what the server says.
type rawMessage struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params protocol.Progress `json:"-"` // of a notification of progress
	raw    string
}

// rawTransports open a client of a server.
var rawTransports = map[string]func(*testing.T, *server.Server, string) *rawClient{
	"http": rawOverHTTP, "lines": rawOverLines,
}

func (c *rawClient) hear(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		text := strings.TrimPrefix(lines.Text(), "data: ")
		m := rawMessage{raw: text}
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

// next returns the next message, which must come within an hour of fake time. In real time the
// watch for hangs of package testkit ends the wait.
func (c *rawClient) next() rawMessage {
	c.Helper()
	select {
	case m := <-c.heard:
		return m
	case <-time.After(time.Hour):
		c.Fatal("the server says nothing")
	}
	return rawMessage{}
}

// rawHandshake opens a session in which forms can be asked and, where the revision has them,
// visits.
func rawHandshake(revision string) string {
	elicitation := `{}`
	if revision >= string(protocol.V20251125) {
		elicitation = `{"form":{},"url":{}}`
	}
	return `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{"elicitation":` + elicitation + `},"clientInfo":{"name":"old","version":"1"}}}`
}

func rawOverLines(t *testing.T, srv *server.Server, revision string) *rawClient {
	t.Helper()
	c := &rawClient{T: t, heard: make(chan rawMessage, 1000), settle: func() {}}
	var hearing sync.WaitGroup
	t.Cleanup(func() { hearing.Wait() })
	fromServer, toServer := pipehttp.ServeLines(t,
		func(ctx context.Context, in io.Reader, out io.Writer) {
			_ = srv.ServeStream(ctx, in, out, nil)
		})
	hearing.Go(func() { c.hear(fromServer) })
	c.say = func(text string) { _, _ = io.WriteString(toServer, text+"\n") }
	if protocol.Version(revision).Era() == protocol.Legacy {
		c.say(rawHandshake(revision))
		c.next()
	}
	return c
}

func rawOverHTTP(t *testing.T, srv *server.Server, revision string) *rawClient {
	t.Helper()
	c := &rawClient{T: t, heard: make(chan rawMessage, 1000)}
	handler := servertest.NewHandler(t, srv, nil)
	http1, session := pipehttp.Serve(t, handler).Client(), ""
	send := func(method, text string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, pipehttp.URL,
			strings.NewReader(text))
		if err != nil {
			t.Error(err)
			return nil
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
		hello := send(http.MethodPost, rawHandshake(revision))
		if hello == nil {
			t.FailNow()
		}
		session = hello.Header.Get("Mcp-Session-Id")
		_, _ = io.Copy(io.Discard, hello.Body)
		_ = hello.Body.Close()
	}
	c.deleteSession = func() {
		if response := send(http.MethodDelete, ""); response != nil {
			_ = response.Body.Close()
			if response.StatusCode != http.StatusNoContent {
				t.Errorf("the session is deleted with status %d", response.StatusCode)
			}
		}
	}
	var posts sync.WaitGroup
	c.settle = posts.Wait
	c.say = func(text string) {
		posts.Go(func() {
			if response := send(http.MethodPost, text); response != nil {
				c.hear(response.Body)
				_ = response.Body.Close()
			}
		})
	}
	t.Cleanup(func() {
		posts.Wait()
		_ = handler.Shutdown(context.Background())
	})
	return c
}
