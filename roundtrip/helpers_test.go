package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

var noError = testkit.NoError

func TestMain(m *testing.M) { testkit.Main(m) }

// Confirmation is the form of most tests.
type Confirmation struct {
	Reason string `json:"reason" minLength:"2"`
}

type events struct {
	mu   sync.Mutex
	list []event.Event
}

func (e *events) Observe(_ context.Context, happened event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, happened)
}

func all[T event.Event](e *events) []T {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []T
	for _, e := range e.list {
		if e, ok := e.(T); ok {
			out = append(out, e)
		}
	}
	return out
}

func one[T event.Event](t testing.TB, e *events) T {
	t.Helper()
	list := all[T](e)
	if len(list) != 1 {
		var zero T
		t.Fatalf("%d events of type %T, want 1: %+v", len(list), zero, e.list)
	}
	return list[0]
}

// client is a minimal client: questions go over the wire, and the retry carries the state.
type client struct {
	t       testing.TB
	funnel  *roundtrip.Funnel
	handler roundtrip.Handler
	call    roundtrip.Call // the next one
	events  *events
	runs    int      // of the handler
	shown   []string // of the questions shown, in order
	asked   *protocol.InputRequiredResult
}

// toolCall is a call of the tool "deploy" by a client with all capabilities.
func toolCall() roundtrip.Call {
	return roundtrip.Call{
		Version:      protocol.V20260728,
		Method:       protocol.MethodCallTool,
		Target:       "deploy",
		Arguments:    json.RawMessage(`{"env":"prod"}`),
		Capabilities: capable(),
		Principal:    protocol.Principal{Issuer: "https://issuer.example", Subject: "ada"},
	}
}

func capable() protocol.ClientCapabilities {
	return protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true, URL: true},
		Sampling:    &protocol.SamplingCapability{Context: true, Tools: true},
		Roots:       &protocol.RootsCapability{},
	}
}

func newClient(t testing.TB, opts roundtrip.Options, handler roundtrip.Handler) *client {
	t.Helper()
	c := &client{t: t, call: toolCall(), events: &events{}}
	opts.Observer = event.Observers(c.events, opts.Observer)
	if opts.Audience == "" { // required beside a shared key
		opts.Audience = "test"
	}
	if opts.MinHumanTime == 0 { // tests answer at once
		opts.MinHumanTime = -1
	}
	funnel, err := roundtrip.NewFunnel(&opts)
	noError(t, err)
	c.funnel = funnel
	c.handler = func(ctx context.Context) (protocol.Result, error) {
		c.runs++
		return handler(ctx)
	}
	return c
}

func serve(t testing.TB, handler roundtrip.Handler) *client {
	t.Helper()
	return newClient(t, roundtrip.Options{}, handler)
}

// send makes the next call and returns its result as on the wire. After questions the next call is
// their retry, without answers yet.
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

// The method conforms checks a response against the published schema.
func (c *client) conforms(response *protocol.Response) {
	c.t.Helper()
	response.ID = protocol.IntID(1)
	raw, err := protocol.AppendMessage(nil, response)
	noError(c.t, err)
	wiretest.Validate(c.t, string(c.call.Version), wiretest.Server, raw, c.call.Method)
}

// ask expects questions with exactly these keys.
func (c *client) ask(keys ...string) *client {
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
	return c
}

// answer adds pairs of key and JSON answer to the next call.
func (c *client) answer(pairs ...string) *client {
	c.call.Responses = answers(pairs...)
	return c
}

func answers(pairs ...string) protocol.InputResponses {
	out := protocol.InputResponses{}
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, protocol.KeyedResponse{Key: pairs[i],
			Result: json.RawMessage(pairs[i+1])})
	}
	return out
}

func (c *client) ended(how event.FlowEnd, legs int) {
	c.t.Helper()
	if end := one[event.FlowEnded](c.t, c.events); end.How != how || end.Legs != legs ||
		end.Flow == "" {
		c.t.Errorf("end %+v, want %s after %d legs", end, how, legs)
	}
}

func answersTo(asked *protocol.InputRequiredResult,
	answer func(protocol.InputRequest) string) (out protocol.InputResponses) {
	for _, q := range asked.InputRequests {
		out = append(out, answers(q.Key, answer(q.Request))...)
	}
	return out
}

// The method done expects completion and returns the tool's text, with "error: " before errors.
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

func (c *client) says(want string) {
	c.t.Helper()
	if got := c.done(); got != want {
		c.t.Errorf("got %q, want %q", got, want)
	}
}

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

// bug expects an internal error, and returns the observer's text, which the client must not get.
func (c *client) bug() string {
	c.t.Helper()
	before := len(all[event.ServerBug](c.events))
	e := c.fails(protocol.CodeInternalError)
	if e.Message != "internal error" || e.Data != nil {
		c.t.Errorf("the client learns %q and %s of a server's mistake", e.Message, e.Data)
	}
	bugs := all[event.ServerBug](c.events)
	if len(bugs) != before+1 {
		c.t.Fatalf("%d bugs reported, want 1: %+v", len(bugs)-before, c.events.list)
	}
	return bugs[before].Err.Error()
}

// withoutAdvice cuts off advice, for tests of what happened. TestTextsSayWhatToDo tests the advice.
func withoutAdvice(text string) string {
	for _, mark := range []string{"; the person ", "; the client answered without ",
		"; start the call ", ". Start the call ", ": use a client ", "; use a client ",
		"; connect with "} {
		text, _, _ = strings.Cut(text, mark)
	}
	return text
}

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
	return fmt.Sprintf("%T", r)
}

func say(text string) (protocol.Result, error) {
	return &protocol.CallToolResult{Content: []protocol.Content{&protocol.TextContent{Text: text}}},
		nil
}

func returns(r protocol.Result, err error) roundtrip.Handler {
	return func(context.Context) (protocol.Result, error) { return r, err }
}

func asks(items ...roundtrip.Item) roundtrip.Handler {
	return func(context.Context) (protocol.Result, error) { return ask(items...) }
}

// rounds returns a handler that runs one of handlers in each round, in the end always the last.
func rounds(handlers ...roundtrip.Handler) roundtrip.Handler {
	return func(ctx context.Context) (protocol.Result, error) {
		return handlers[min(roundtrip.RoundOf(ctx).Number, len(handlers))-1](ctx)
	}
}

func message(text string) *protocol.CreateMessage {
	return &protocol.CreateMessage{MaxTokens: 5, Messages: []protocol.SamplingMessage{
		{Role: protocol.User, Content: []protocol.Content{&protocol.TextContent{Text: text}}}}}
}

func elicit(key string) roundtrip.Question { return roundtrip.Elicit[Confirmation](key, "?") }

func ask(items ...roundtrip.Item) (protocol.Result, error) {
	return roundtrip.InputRequired(items...), nil
}

func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

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
	agreed    = `{"action":"accept"}` // to a visit
	sampled   = `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}`
	rooted    = `{"roots":[{"uri":"file:///src","name":"src"}]}`
)

// mode is a way in which flow-style calls are answered.
type mode struct {
	name    string
	version protocol.Version
}

func (m mode) replays() bool { return m.version.Era() == protocol.Modern }

var modes = []mode{
	{"modern", protocol.V20260728},
	{"live", protocol.V20251125},
}

// A person answers questions by the first word of their message, or by kind, and accepts others.
type person map[string]string

func (p person) answer(q protocol.InputRequest) string {
	name := string(q.Kind())
	switch q := q.(type) {
	case *protocol.ElicitForm:
		message := q.Message
		if i := strings.LastIndex(message, ". "); i >= 0 { // after a repeat's reason
			message = message[i+2:]
		}
		name, _, _ = strings.Cut(message, " ")
	case *protocol.ElicitURL:
		name, _, _ = strings.Cut(q.Message, " ")
	}
	if answer, ok := p[name]; ok {
		return answer
	}
	answer, _ := willing(&pushed{InputRequest: q})
	return answer
}

// A journey takes a handler through a whole flow in a mode.
type journey struct {
	*client
	*human
	rounds int // in which something was asked
}

func newJourney(t testing.TB, m mode, opts roundtrip.Options, p person,
	handler roundtrip.Handler) *journey {
	t.Helper()
	j := &journey{client: newClient(t, opts, handler)}
	j.human = &human{t: t, version: m.version,
		answer: func(q *pushed) (string, error) { return p.answer(q.InputRequest), nil }}
	if j.call.Version = m.version; m.version.Era() == protocol.Legacy {
		j.call.Push = j.human
	}
	return j
}

func (j *journey) end(p person) (protocol.Result, error) {
	j.client.t.Helper()
	for {
		result, err := j.send()
		asked, more := result.(*protocol.InputRequiredResult)
		if err != nil || !more {
			return result, err
		}
		if j.rounds++; j.rounds > 20 {
			j.client.t.Fatal("the flow does not end")
		}
		for _, q := range asked.InputRequests {
			j.human.asked = append(j.human.asked, q.Request)
		}
		j.call.Responses = answersTo(asked, p.answer)
	}
}

func inEveryMode(t *testing.T, opts roundtrip.Options, p person, handler roundtrip.Handler,
	check func(t *testing.T, m mode, j *journey, result protocol.Result, err error)) {
	t.Helper()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			j := newJourney(t, m, opts, p, handler)
			result, err := j.end(p)
			check(t, m, j, result, err)
		})
	}
}

// The function wants checks the text, the number of questions and, in replay, of runs.
func wants(text string,
	questions, runs int) func(*testing.T, mode, *journey, protocol.Result, error) {
	return func(t *testing.T, m mode, j *journey, result protocol.Result, err error) {
		t.Helper()
		if err != nil || show(result) != text {
			t.Errorf("got %q, %v, want %q; events: %+v", show(result), err, text, j.events.list)
		}
		want := runs
		if !m.replays() {
			want = 1
		}
		if j.traffic() != questions || j.runs != want {
			t.Errorf("%d questions in %d runs, want %d in %d", j.traffic(), j.runs, questions, want)
		}
	}
}

// flow returns a handler that says a text, unless the function must or check stops it at an error.
func flow(text func(ctx context.Context) string) roundtrip.Handler {
	return func(ctx context.Context) (_ protocol.Result, err error) {
		defer func() {
			if v := recover(); v != nil {
				stop, ok := v.(stopped)
				if !ok {
					panic(v)
				}
				err = stop.error
			}
		}()
		return say(text(ctx))
	}
}

type stopped struct{ error }

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(stopped{err})
	}
}

// replyTo reads a [Confirmation] in guard style; an accepted one is consent.
func replyTo(ctx context.Context, key string) roundtrip.Reply[Confirmation] {
	return roundtrip.Answer[Confirmation](ctx, key)
}

func consents(ctx context.Context, key string) bool {
	_, ok := roundtrip.AcceptedContent[Confirmation](ctx, key)
	return ok
}

func reasonOf(ctx context.Context, key string) (string, error) {
	c, err := roundtrip.Ask[Confirmation](ctx, key, key+" ?")
	return c.Reason, err
}

func accept(content string) string { return `{"action":"accept","content":` + content + `}` }

func form(reason string) string { return accept(`{"reason":"` + reason + `"}`) }

// A pushed question is one to a human, in the context of its Push.
type pushed struct {
	context.Context
	protocol.InputRequest
	extend func()
}

// A human is behind a client of a legacy revision, whose messages must fit the revision.
type human struct {
	t       testing.TB
	version protocol.Version
	answer  func(*pushed) (string, error)

	mu        sync.Mutex
	asked     []protocol.InputRequest
	wire      []string // sent messages, method and params
	withdrawn int
}

func (h *human) Push(ctx context.Context, q protocol.InputRequest,
	extend, _ func()) (json.RawMessage, error) {
	data, err := protocol.AppendInputRequest(nil, h.version, q)
	if err != nil {
		h.t.Errorf("question cannot be sent: %v", err)
		return nil, err
	}
	raw := append([]byte(`{"jsonrpc":"2.0","id":"q",`), data[1:]...)
	wiretest.Validate(h.t, string(h.version), wiretest.Server, raw, "")
	h.mu.Lock()
	h.asked, h.wire = append(h.asked, q), append(h.wire, string(data))
	h.mu.Unlock()
	answer, err := h.answer(&pushed{ctx, q, extend})
	if err != nil && ctx.Err() != nil {
		h.mu.Lock()
		h.withdrawn++
		h.mu.Unlock()
	}
	return json.RawMessage(answer), err
}

func (h *human) traffic() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked)
}

func willing(q *pushed) (string, error) {
	switch q.Kind() {
	case protocol.KindElicitForm:
		return accepted, nil
	case protocol.KindElicitURL:
		return agreed, nil
	case protocol.KindCreateMessage:
		return sampled, nil
	case protocol.KindListRoots:
		return rooted, nil
	}
	return "", fmt.Errorf("unknown question %T", q.InputRequest)
}

func says(text string) func(*pushed) (string, error) {
	return func(*pushed) (string, error) { return text, nil }
}

func after(d time.Duration, answer func(*pushed) (string, error)) func(*pushed) (string, error) {
	return func(q *pushed) (string, error) {
		time.Sleep(d)
		return answer(q)
	}
}

func fails(err error) func(*pushed) (string, error) {
	return func(*pushed) (string, error) { return "", err }
}

func silent(q *pushed) (string, error) {
	<-q.Done()
	return "", context.Cause(q)
}

// serveLive returns a client of revision 2025-11-25 without options.
func serveLive(t testing.TB, handler roundtrip.Handler) (*client, *human) {
	t.Helper()
	return serveAs(t, protocol.V20251125, handler)
}

func serveAs(t testing.TB, v protocol.Version, handler roundtrip.Handler) (*client, *human) {
	t.Helper()
	return newLegacy(t, v, roundtrip.Options{}, handler)
}

// newLegacy returns a client of revision v with a human.
func newLegacy(t testing.TB, v protocol.Version, opts roundtrip.Options,
	handler roundtrip.Handler) (*client, *human) {
	t.Helper()
	c := newClient(t, opts, handler)
	h := &human{t: t, version: v, answer: willing}
	c.call.Version, c.call.Push = v, h
	return c, h
}

var families = []string{protocol.MethodCallTool, protocol.MethodGetPrompt,
	protocol.MethodReadResource}

func completes(method string) (protocol.Result, error) {
	switch method {
	case protocol.MethodGetPrompt:
		return &protocol.GetPromptResult{Messages: []protocol.PromptMessage{{Role: protocol.User,
			Content: &protocol.TextContent{Text: "done"}}}}, nil
	case protocol.MethodReadResource:
		return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{{URI: "file:///x",
			Text: "done"}}}, nil
	}
	return say("done")
}

// The method refused expects a refusal in the form of the request's family.
func (c *client) refused(code int64, words ...string) {
	c.t.Helper()
	if c.call.Method == protocol.MethodCallTool {
		contains(c.t, c.done(), append(words, "error: ")...)
		return
	}
	contains(c.t, c.fails(code).Message, words...)
}
