package gatewaytest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
)

// ManyLines is the fault that an event of many lines is too large.
const ManyLines = "an event has too many lines"

// A fault is what becomes of one user's call over HTTP, by an upstream that serves all others.
type fault struct {
	name    string
	status  int    // zero: 200
	kind    string // of the content
	body    string // with ID for the id of the call
	padding string // of a body that is larger than any client needs to read: comes for each KiB
	end     ending
	refused string // a notification that the upstream refuses afterwards, "": none
}

// An ending is what comes after the body.
type ending int

const (
	ends     ending = iota // nothing
	breaksUp               // the connection is closed in the middle
	hangs                  // until the client gives its call up
	mute                   // the same, before there is a response at all
)

const (
	text, page, asJSON, stream = "text/plain", "text/html", "application/json", "text/event-stream"

	failure = `data: {"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"no"}}` + "\n\n"
	halfOf  = `{"jsonrpc":"2.0",`
	large   = `data: {"jsonrpc":"2.0","id":ID,"result":`
)

func faults() []fault {
	many := ""
	for n := range 200 {
		many += elicit(fmt.Sprint(1000 + n))
	}
	lost, kib := elicit(`"lost"`), strings.Repeat(" ", 1<<10)
	return []fault{
		{name: "it is too large for a proxy", status: http.StatusRequestEntityTooLarge, kind: page,
			body: "<html>too large</html>"},
		{name: "the upstream fails", status: http.StatusInternalServerError, kind: text},
		{name: "its user is not known", status: http.StatusUnauthorized, kind: text},
		{name: "its user may not", status: http.StatusForbidden, kind: text, body: "no"},
		{name: "the upstream is busy", status: http.StatusServiceUnavailable, kind: text},
		{name: "a page says so", kind: page, body: "<html>hello</html>"},
		{name: "nothing is said", status: http.StatusAccepted},
		{name: "the result is not JSON", kind: asJSON, body: "{"},
		{name: "the result is no message", kind: asJSON, body: `{"a":1}`},
		{name: "an event is not JSON", kind: stream, body: "data: {\n\n"},
		{name: "an event is no message", kind: stream, body: "data: [1]\n\n"},
		{name: "a line of a stream is malformed", kind: stream, body: "what\n\n"},
		{name: "the stream ends", kind: stream},
		{name: "a line of an event is too large", kind: stream, body: large, padding: kib},
		{name: ManyLines, kind: stream, body: large, padding: "\ndata: " + kib},
		{name: "the result breaks off", kind: asJSON, body: halfOf, end: breaksUp},
		{name: "the stream breaks off in the middle of a question", kind: stream, body: lost,
			end: breaksUp},
		{name: "the stream ends in the middle of a question", kind: stream, body: lost},
		{name: "it fails in the middle of a question", kind: stream, body: lost + failure},
		{name: "it asks without an end", kind: stream, body: many + failure},
		{name: "it is cancelled before there is a response", end: mute},
		{name: "it is cancelled while the result comes", kind: asJSON, body: halfOf, end: hangs},
		{name: "its cancellation is refused", kind: stream, end: hangs,
			refused: "notifications/cancelled"},
	}
}

// elicit returns an event that is a question.
func elicit(id string) string {
	return `data: {"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":` +
		plain + "}\n\n"
}

// serve answers a call, and closes began when it waits for the client.
func (f *fault) serve(w http.ResponseWriter, r *http.Request, m *Message, began chan<- struct{}) {
	if f.end != mute {
		w.Header().Set("Content-Type", f.kind)
		w.WriteHeader(cmp.Or(f.status, http.StatusOK))
		_, _ = io.WriteString(w, strings.ReplaceAll(f.body, "ID", string(m.ID)))
	}
	if f.padding != "" {
		for range 20 << 10 { // 20 MiB
			if _, err := io.WriteString(w, f.padding); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, "{}}\n\n")
	}
	switch f.end {
	case breaksUp:
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case hangs:
		w.(http.Flusher).Flush()
		fallthrough
	case mute:
		close(began)
		<-r.Context().Done()
	}
}

// AcceptFaults holds that what becomes of one user's call does not concern another's on the
// same connection. build serves ToolFault as it serves ToolAsk. Faults that are named in except
// are left out.
func AcceptFaults(t *testing.T, build Gateway, except ...string) {
	for _, f := range faults() {
		if !slices.Contains(except, f.name) {
			t.Run(f.name, func(t *testing.T) { f.check(t, build) })
		}
	}
}

func (f *fault) check(t *testing.T, build Gateway) {
	router, up := newRouter(t, nil), NewUpstream(t)
	began, refused := make(chan struct{}), make(chan struct{}, 8)
	up.Intercept = func(w http.ResponseWriter, r *http.Request, m *Message) bool {
		switch {
		case m.Method == "tools/call" && strings.Contains(string(m.Params), `"`+ToolFault+`"`):
			f.serve(w, r, m, began)
			return true
		case f.refused != "" && m.Method == f.refused:
			http.Error(w, "I do not know that", http.StatusBadRequest)
			refused <- struct{}{}
			return true
		}
		return false
	}
	url := build(t, router, up, SharedHTTP)
	bob := Connect(t, url, forms, `"result":`+because, nil)
	pending := bob.StartCall(t, ToolAsk, plain)
	defer pending.Close()
	question := pending.WaitForQuestion(t)

	alice := Connect(t, url, forms, "", nil)
	if f.end < hangs {
		if got := alice.Call(t, ToolFault, plain); !strings.Contains(got, `"code":`) {
			t.Errorf("alice gets %s, want an error", got)
		}
	} else {
		giveUp := alice.startGivingUp(t, ToolFault, plain)
		<-began
		giveUp()
	}
	if f.refused != "" {
		select {
		case <-refused:
		case <-time.After(10 * time.Second):
			t.Fatal("the upstream was not told")
		}
	}
	bob.Send(t, question)
	if got := pending.Result(t); got != because {
		t.Errorf("the upstream reads %s for the question that was open, want %s", got, because)
	}
	for range 3 {
		if got := bob.Call(t, ToolAsk, plain); got != because {
			t.Errorf("the upstream reads %s afterwards, want %s", got, because)
		}
	}
	expectPending(t, router, 0)
}

func expectPending(t *testing.T, router *elicitation.Router, want int) {
	t.Helper()
	if n := router.Pending(); n != want {
		t.Errorf("%d questions are pending, want %d", n, want)
	}
}
