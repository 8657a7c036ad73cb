package gateway_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// Hand-made frames of an upstream: a form, a URL, and its tool's result.
const (
	rawAsk = `{"jsonrpc":"2.0","id":%v,"method":"elicitation/create","params":{"message":"%v",` +
		`"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}`
	rawVisit = `{"jsonrpc":"2.0","id":8,"method":"elicitation/create","params":{"mode":"url",` +
		`"message":"look","url":"%s","elicitationId":"x"}}`
	rawText = `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`
)

type rawUpstream struct {
	call    func(c *rawCall) // handles calls of the tool; nil returns "done"
	answers chan string
	calls   atomic.Int64

	tool   string      // "" means x
	pushed chan string // events of the sessions' streams, one each; nil: no streams
}

// A rawCall writes a call's stream, which ends with "done" unless it wrote another result.
type rawCall struct {
	*rawUpstream
	ctx   context.Context
	id    json.RawMessage
	event func(data string)
	ended bool
}

func newRaw(call func(c *rawCall)) *rawUpstream {
	return &rawUpstream{call: call, answers: make(chan string, 1000)}
}

func startRaw(t *testing.T, call func(c *rawCall)) (url string) {
	t.Helper()
	return serve(t, newRaw(call)).URL
}

func (c *rawCall) ask(id, message any) { c.event(fmt.Sprintf(rawAsk, id, message)) }

func (c *rawCall) text(text string) {
	c.ended = true
	c.event(fmt.Sprintf(rawText, c.id, text))
}

// end ends the stream with something other than the tool's result.
func (c *rawCall) end(format string, more ...any) {
	c.ended = true
	c.event(fmt.Sprintf(format, append([]any{c.id}, more...)...))
}

func (c *rawCall) takeAnswer() string { return c.rawUpstream.takeAnswer(c.ctx) }

// takeAnswer returns the next answer that the upstream gets.
func (u *rawUpstream) takeAnswer(ctx context.Context) string {
	select {
	case a := <-u.answers:
		return a
	case <-ctx.Done():
		return ""
	case <-time.After(5 * time.Second):
		return "no answer"
	}
}

func (u *rawUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == "GET" && u.pushed != nil:
		u.push(w, r)
		return
	case r.Method == "GET":
		w.WriteHeader(405)
		return
	case r.Method == "DELETE":
		return
	}
	m := readMessage(r)
	switch {
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", rand.Text())
		writeResponse(w, m, `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},`+
			`"serverInfo":{"name":"raw","version":"1"}}`)
	case m.Method == "tools/list":
		writeResponse(w, m, fmt.Sprintf(
			`"result":{"tools":[{"name":%q,"inputSchema":{"type":"object"}}]}`, cmp.Or(u.tool, "x")))
	case m.Method == "tools/call":
		u.calls.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		c := &rawCall{rawUpstream: u, ctx: r.Context(), id: m.ID, event: func(data string) {
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", data)
			w.(http.Flusher).Flush()
		}}
		if u.call != nil {
			u.call(c)
		}
		if !c.ended {
			c.text("done")
		}
	case m.Method == "":
		body, _ := io.ReadAll(r.Body)
		u.answers <- string(body)
		w.WriteHeader(202)
	case m.ID == nil:
		w.WriteHeader(202)
	default:
		writeResponse(w, m, `"error":{"code":-32601,"message":"no"}`)
	}
}

func (u *rawUpstream) push(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.(http.Flusher).Flush()
	for {
		select {
		case data := <-u.pushed:
			fmt.Fprintf(w, "data: %s\n\n", data)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}
