package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/internal/leaktest"
	"github.com/rondo-mcp/rondo/internal/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Confirmation is the form most tests ask with.
type Confirmation struct {
	Reason string `json:"reason" minLength:"2"`
}

// events is an observer that remembers.
type events struct {
	mu   sync.Mutex
	list []roundtrip.Event
}

func (e *events) Observe(_ context.Context, event roundtrip.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
}

// all returns the events of one type, oldest first.
func all[T roundtrip.Event](e *events) []T {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []T
	for _, event := range e.list {
		if event, ok := event.(T); ok {
			out = append(out, event)
		}
	}
	return out
}

// one returns the only event of its type.
func one[T roundtrip.Event](t testing.TB, e *events) T {
	t.Helper()
	list := all[T](e)
	if len(list) != 1 {
		var zero T
		t.Fatalf("%d events of type %T, want 1: %+v", len(list), zero, e.list)
	}
	return list[0]
}

// client is as much of one as the funnel needs: what it is asked goes over the
// wire, and the retry carries the state it was given.
type client struct {
	t       testing.TB
	funnel  *roundtrip.Funnel
	handler roundtrip.Handler
	call    roundtrip.Call // the next one
	events  *events
	runs    int      // of the handler
	shown   []string // keys of the questions shown, in order
	asked   *protocol.InputRequiredResult
}

// toolCall is a call of the tool "deploy" by a client that can do everything.
func toolCall() roundtrip.Call {
	return roundtrip.Call{
		Version:      protocol.V20260728,
		Method:       protocol.MethodCallTool,
		Target:       "deploy",
		Arguments:    json.RawMessage(`{"env":"prod"}`),
		Capabilities: capable(),
		Principal:    roundtrip.Principal{Issuer: "https://issuer.example", Subject: "ada"},
	}
}

func capable() protocol.ClientCapabilities {
	return protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true, URL: true},
		Sampling:    &protocol.SamplingCapability{Context: true, Tools: true},
		Roots:       &protocol.RootsCapability{},
	}
}

// newClient returns a client of a funnel with opts, about to make toolCall.
func newClient(t testing.TB, opts roundtrip.Options, handler roundtrip.Handler) *client {
	t.Helper()
	c := &client{t: t, call: toolCall(), events: &events{}}
	opts.Observer = roundtrip.Observers(c.events, opts.Observer)
	if opts.Audience == "" { // demanded beside a shared key
		opts.Audience = "test"
	}
	funnel, err := roundtrip.NewFunnel(opts)
	if err != nil {
		t.Fatal(err)
	}
	c.funnel = funnel
	c.handler = func(ctx context.Context) (protocol.Result, error) {
		c.runs++
		return handler(ctx)
	}
	return c
}

// send makes the next call and returns its result as the wire carries it.
// After questions the next call is their retry, without answers as yet.
func (c *client) send() (protocol.Result, error) {
	c.t.Helper()
	result, err := c.funnel.Do(c.t.Context(), c.call, c.handler)
	if err != nil {
		if result != nil {
			c.t.Fatalf("Do returned a result beside its error: %v", result)
		}
		if _, ok := err.(*protocol.Error); !ok {
			c.t.Fatalf("Do returned a %T, want a *protocol.Error: %v", err, err)
		}
		c.conforms(&protocol.Response{Error: err.(*protocol.Error)})
		return nil, err
	}
	data, err := protocol.EncodeResult(c.call.Version, c.call.Method, result)
	if err != nil {
		c.t.Fatalf("the result cannot be encoded: %v", err)
	}
	if result, err = protocol.DecodeResult(c.call.Version, c.call.Method, data); err != nil {
		c.t.Fatalf("the result cannot be decoded: %v\n%s", err, data)
	}
	c.conforms(&protocol.Response{Result: data})
	if asked, ok := result.(*protocol.InputRequiredResult); ok {
		c.asked = asked
		c.call.State, c.call.Responses = asked.RequestState, nil
		for _, q := range asked.InputRequests {
			c.shown = append(c.shown, q.Key)
		}
	}
	return result, nil
}

// conforms holds what goes out against the published schema.
func (c *client) conforms(response *protocol.Response) {
	c.t.Helper()
	response.ID = protocol.IntID(1)
	raw, err := protocol.AppendMessage(nil, response)
	if err != nil {
		c.t.Fatal(err)
	}
	wiretest.Validate(c.t, string(c.call.Version), wiretest.Server, raw, c.call.Method)
}

// ask sends what must lead to questions with exactly these keys.
func (c *client) ask(keys ...string) *protocol.InputRequiredResult {
	c.t.Helper()
	result, err := c.send()
	if err != nil {
		c.t.Fatalf("call failed: %v; events: %+v", err, c.events.list)
	}
	asked, ok := result.(*protocol.InputRequiredResult)
	if !ok {
		c.t.Fatalf("got %s, want questions", show(result))
	}
	var got []string
	for _, q := range asked.InputRequests {
		got = append(got, q.Key)
	}
	if strings.Join(got, " ") != strings.Join(keys, " ") {
		c.t.Fatalf("asked for %v, want %v", got, keys)
	}
	return asked
}

// answer puts answers, alternately key and JSON, into the next call.
func (c *client) answer(pairs ...string) *client {
	c.call.Responses = answers(pairs...)
	return c
}

func answers(pairs ...string) protocol.InputResponses {
	out := protocol.InputResponses{}
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, protocol.KeyedResponse{Key: pairs[i], Result: json.RawMessage(pairs[i+1])})
	}
	return out
}

// done sends what must complete, and returns the text that the tool answers,
// with "error: " before it if that is what it is.
func (c *client) done() string {
	c.t.Helper()
	result, err := c.send()
	if err != nil {
		c.t.Fatalf("call failed: %v; events: %+v", err, c.events.list)
	}
	if _, ok := result.(*protocol.CallToolResult); !ok {
		c.t.Fatalf("got %s, want a complete result", show(result))
	}
	return show(result)
}

// fails sends what must fail with the code.
func (c *client) fails(code int64) *protocol.Error {
	c.t.Helper()
	result, err := c.send()
	var e *protocol.Error
	if !errors.As(err, &e) {
		c.t.Fatalf("got %s and error %v, want a protocol error", show(result), err)
	}
	if e.Code != code {
		c.t.Fatalf("code %d (%s), want %d; events: %+v", e.Code, e.Message, code, c.events.list)
	}
	return e
}

// bug sends what must be an internal error, and returns what the observer was
// told. The client learns nothing of it.
func (c *client) bug() string {
	c.t.Helper()
	before := len(all[roundtrip.ServerBug](c.events))
	e := c.fails(protocol.CodeInternalError)
	if e.Message != "internal error" || e.Data != nil {
		c.t.Errorf("the client learns %q and %s of a server's mistake", e.Message, e.Data)
	}
	bugs := all[roundtrip.ServerBug](c.events)
	if len(bugs) != before+1 {
		c.t.Fatalf("%d bugs reported, want 1: %+v", len(bugs)-before, c.events.list)
	}
	return bugs[before].Err.Error()
}

// withoutAdvice cuts off what a text says is to be done next, for tests of what
// happened. TestTextsSayWhatToDo is about the rest.
func withoutAdvice(text string) string {
	for _, mark := range []string{"; the person ", "; start the call ", ". Start the call ", ": use a client ", "; use a client ", "; connect with "} {
		text, _, _ = strings.Cut(text, mark)
	}
	return text
}

// show returns the text of a tool's result, and a name for others.
func show(r protocol.Result) string {
	switch r := r.(type) {
	case *protocol.CallToolResult:
		text := ""
		for _, block := range r.Content {
			if block, ok := block.(*protocol.TextContent); ok {
				text += block.Text
			}
		}
		if r.IsError {
			return "error: " + withoutAdvice(text)
		}
		return text
	case *protocol.InputRequiredResult:
		keys := []string{}
		for _, q := range r.InputRequests {
			keys = append(keys, q.Key)
		}
		return "questions: " + strings.Join(keys, ", ")
	case nil:
		return "nothing"
	}
	return r.ResultType()
}

func say(text string) (protocol.Result, error) {
	return &protocol.CallToolResult{Content: []protocol.Content{&protocol.TextContent{Text: text}}}, nil
}

func ask(items ...roundtrip.Item) (protocol.Result, error) {
	return roundtrip.InputRequired(items...), nil
}

// contains fails unless text has each of the words.
func contains(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q does not say %q", text, word)
		}
	}
}

const (
	accepted  = `{"action":"accept","content":{"reason":"now"}}`
	declined  = `{"action":"decline"}`
	cancelled = `{"action":"cancel"}`
	sampled   = `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}`
	rooted    = `{"roots":[{"uri":"file:///src","name":"src"}]}`
)
