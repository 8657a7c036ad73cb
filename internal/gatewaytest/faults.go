package gatewaytest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
)

// ToolFault is a tool whose calls an upstream serves as a fault says.
const ToolFault = "fault"

// A fault is what becomes of one user's call over HTTP, by an upstream that serves all others.
type fault struct {
	name  string
	serve func(w http.ResponseWriter, r *http.Request, m *Message)
	// impatient has the client give its call up, once serve has closed began.
	impatient bool
	// refused is a notification that the upstream refuses afterwards, "": none.
	refused string
}

func faults(began chan<- struct{}) []fault {
	status := func(code int, kind, body string) func(http.ResponseWriter, *http.Request, *Message) {
		return func(w http.ResponseWriter, _ *http.Request, _ *Message) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	const plain, page, stream = "text/plain", "text/html", "text/event-stream"
	const asJSON = "application/json"
	return []fault{
		{name: "it is too large for a proxy",
			serve: status(http.StatusRequestEntityTooLarge, page, "<html>too large</html>")},
		{name: "the upstream fails", serve: status(http.StatusInternalServerError, plain, "oops")},
		{name: "its user is not known", serve: status(http.StatusUnauthorized, plain, "")},
		{name: "its user may not", serve: status(http.StatusForbidden, plain, "no")},
		{name: "the upstream is busy", serve: status(http.StatusServiceUnavailable, plain, "")},
		{name: "a page says so", serve: status(http.StatusOK, page, "<html>hello</html>")},
		{name: "nothing is said", serve: status(http.StatusAccepted, "", "")},
		{name: "the result is not JSON", serve: status(http.StatusOK, asJSON, "{")},
		{name: "the result is no message", serve: status(http.StatusOK, asJSON, `{"a":1}`)},
		{name: "an event is not JSON", serve: status(http.StatusOK, stream, "data: {\n\n")},
		{name: "an event is no message", serve: status(http.StatusOK, stream, "data: [1]\n\n")},
		{name: "a line of a stream is malformed", serve: status(http.StatusOK, stream, "what\n\n")},
		{name: "the stream ends", serve: status(http.StatusOK, stream, "")},
		{name: "a line of an event is too large", serve: largeEvent("")},
		{name: ManyLines, serve: largeEvent("\ndata: ")},
		{name: "the result breaks off",
			serve: func(w http.ResponseWriter, _ *http.Request, _ *Message) {
				w.Header().Set("Content-Type", asJSON)
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0",`)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}},
		{name: "the stream breaks off in the middle of a question",
			serve: func(w http.ResponseWriter, _ *http.Request, _ *Message) {
				w.Header().Set("Content-Type", stream)
				_, _ = io.WriteString(w, elicit(`"lost"`))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}},
		{name: "the stream ends in the middle of a question",
			serve: status(http.StatusOK, stream, elicit(`"lost"`))},
		{name: "it fails in the middle of a question",
			serve: func(w http.ResponseWriter, _ *http.Request, m *Message) {
				w.Header().Set("Content-Type", stream)
				fmt.Fprintf(w, `%sdata: {"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no"}}`+
					"\n\n", elicit(`"lost"`), m.ID)
			}},
		{name: "it asks without an end",
			serve: func(w http.ResponseWriter, _ *http.Request, m *Message) {
				w.Header().Set("Content-Type", stream)
				for n := range 200 {
					_, _ = io.WriteString(w, elicit(fmt.Sprint(1000+n)))
				}
				fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no"}}`+
					"\n\n", m.ID)
			}},
		{name: "it is cancelled before there is a response", impatient: true,
			serve: func(_ http.ResponseWriter, r *http.Request, _ *Message) {
				close(began)
				<-r.Context().Done()
			}},
		{name: "it is cancelled while the result comes", impatient: true,
			serve: func(w http.ResponseWriter, r *http.Request, _ *Message) {
				w.Header().Set("Content-Type", asJSON)
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0",`)
				w.(http.Flusher).Flush()
				close(began)
				<-r.Context().Done()
			}},
		{name: "its cancellation is refused", impatient: true, refused: "notifications/cancelled",
			serve: func(w http.ResponseWriter, r *http.Request, _ *Message) {
				w.Header().Set("Content-Type", stream)
				w.(http.Flusher).Flush()
				close(began)
				<-r.Context().Done()
			}},
	}
}

// elicit returns an event that is a question.
func elicit(id string) string {
	return `data: {"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":` +
		plain + "}\n\n"
}

// ManyLines is the fault that an event of many lines is too large.
const ManyLines = "an event has too many lines"

// largeEvent writes an event of more data than any client needs to read, with a separator after
// each KiB.
func largeEvent(separator string) func(http.ResponseWriter, *http.Request, *Message) {
	return func(w http.ResponseWriter, _ *http.Request, m *Message) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":`, m.ID)
		part := separator + strings.Repeat(" ", 1<<10)
		for range 20 << 10 { // 20 MiB
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, "{}}\n\n")
	}
}

// AcceptFaults holds that what becomes of one user's call does not concern another's on the
// same connection. build serves ToolFault as it serves ToolAsk. Faults that are named in except
// are left out.
func AcceptFaults(t *testing.T, build Gateway, except ...string) {
	for i := range faults(nil) {
		began := make(chan struct{})
		f := faults(began)[i]
		if !slices.Contains(except, f.name) {
			t.Run(f.name, func(t *testing.T) { f.check(t, build, began) })
		}
	}
}

func (f *fault) check(t *testing.T, build Gateway, began <-chan struct{}) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	up := NewUpstream(t)
	refused := make(chan struct{}, 8)
	up.Intercept = func(w http.ResponseWriter, r *http.Request, m *Message) bool {
		switch {
		case m.Method == "tools/call" && strings.Contains(string(m.Params), `"`+ToolFault+`"`):
			f.serve(w, r, m)
			return true
		case f.refused != "" && m.Method == f.refused:
			http.Error(w, "I do not know that", http.StatusBadRequest)
			refused <- struct{}{}
			return true
		}
		return false
	}
	url := build(t, router, up, SharedHTTP)
	const answer = `{"action":"accept","content":{"why":"because"}}`
	bob := Connect(t, url, forms, `"result":`+answer, nil)
	pending := bob.StartCall(t, ToolAsk, plain)
	defer pending.Close()
	question := pending.WaitForQuestion(t)

	alice := Connect(t, url, forms, "", nil)
	if !f.impatient {
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
	bob.answer(t, question)
	if m, ok := pending.next(); !ok || resultText(m) != answer {
		t.Errorf("the upstream reads %s for the question that was open, want %s", resultText(m), answer)
	}
	for range 3 {
		if got := bob.Call(t, ToolAsk, plain); got != answer {
			t.Errorf("the upstream reads %s afterwards, want %s", got, answer)
		}
	}
	if n := router.Pending(); n != 0 {
		t.Errorf("%d questions are pending", n)
	}
	alice.Delete(t)
	bob.Delete(t)
}
