package gateway_test

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// Frames of an upstream that is made by hand: a form, a URL, and the result of its tool.
const (
	rawAsk = `{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":{"message":"%s",` +
		`"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}`
	rawVisit = `{"jsonrpc":"2.0","id":8,"method":"elicitation/create","params":{"mode":"url",` +
		`"message":"look","url":"%s","elicitationId":"x"}}`
	rawText = `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`
	rawDone = `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`
)

// A rawUpstream is a legacy server made by hand: call writes events of the stream of tools/call.
type rawUpstream struct {
	call    func(id json.RawMessage, event func(string), answers <-chan string)
	answers chan string
	calls   atomic.Int64

	tool        string      // "": x
	keepAnswers bool        // call takes them by itself
	pushed      chan string // events of the streams of sessions, each of one; nil: no streams
}

func startRaw(
	t *testing.T, call func(id json.RawMessage, event func(string), answers <-chan string),
) (*rawUpstream, string) {
	t.Helper()
	u := &rawUpstream{call: call, answers: make(chan string, 1000)}
	return u, serve(t, u).URL
}

// startTaking is startRaw with a call that takes its answers by itself, see takeAnswer, and is done
// then.
func startTaking(
	t *testing.T, call func(u *rawUpstream, id json.RawMessage, event func(string)),
) (*rawUpstream, string) {
	t.Helper()
	u, url := startRaw(t, nil)
	u.keepAnswers = true
	u.call = func(id json.RawMessage, event func(string), _ <-chan string) {
		if call != nil {
			call(u, id, event)
		}
		event(fmt.Sprintf(rawDone, id))
	}
	return u, url
}

// takeAnswer returns the next answer that an upstream gets.
func (u *rawUpstream) takeAnswer() string {
	select {
	case a := <-u.answers:
		return a
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
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.Unmarshal(body, &m)
	reply := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, result)
	}
	switch {
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", rand.Text())
		reply(`"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},` +
			`"serverInfo":{"name":"raw","version":"1"}}`)
	case m.Method == "tools/list":
		reply(fmt.Sprintf(`"result":{"tools":[{"name":%q,"inputSchema":{"type":"object"}}]}`,
			cmp.Or(u.tool, "x")))
	case m.Method == "tools/call":
		u.calls.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		u.call(m.ID, func(data string) {
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", data)
			w.(http.Flusher).Flush()
		}, u.awaitAnswers(r))
	case m.Method == "":
		u.answers <- string(body)
		w.WriteHeader(202)
	case m.ID == nil:
		w.WriteHeader(202)
	default:
		reply(`"error":{"code":-32601,"message":"no"}`)
	}
}

// push serves the stream of a session.
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

func (u *rawUpstream) awaitAnswers(r *http.Request) <-chan string {
	c := make(chan string, 1)
	if u.keepAnswers {
		return c
	}
	go func() {
		select {
		case a := <-u.answers:
			c <- a
		case <-r.Context().Done():
			close(c)
		}
	}()
	return c
}
