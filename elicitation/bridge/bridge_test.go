package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bridge"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// A rig is a bridge whose logs and metrics can be looked at.
type rig struct {
	*bridge.Bridge
	router   *elicitation.Router
	registry *prometheus.Registry
	logs     *syncBuffer
}

// A syncBuffer is a buffer for logs.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) Sync() error { return nil }

func (b *syncBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

var ring = newKeyring()

func newKeyring() *keys.Keyring {
	key, err := keys.NewKey("k1", bytes.Repeat([]byte{7}, 32))
	if err != nil {
		panic(err)
	}
	made, err := keys.NewKeyring(key)
	if err != nil {
		panic(err)
	}
	return made
}

func newRig(t testing.TB, opts bridge.Options) *rig {
	t.Helper()
	logs := &syncBuffer{}
	logger := zap.New(zapcore.NewCore(
		zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), logs, zap.DebugLevel))
	registry := prometheus.NewPedanticRegistry()
	routing := &elicitation.Options{Logger: logger, Registerer: registry,
		MaxPending: 1000, MaxPerPrincipal: 1000, MaxPerSession: 1000, MaxPerUpstream: 1000}
	if opts.Bus != nil {
		routing.Bus, routing.Keys = opts.Bus, ring.Derive(elicitation.KeyPurpose)
	}
	router, err := elicitation.New(routing)
	if err != nil {
		t.Fatal(err)
	}
	opts.Logger, opts.Registerer = logger, registry
	if opts.Keys == nil {
		opts.Keys = ring.Derive(bridge.KeyPurpose)
	}
	b, err := bridge.New(router, &opts)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{b, router, registry, logs}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what is left ends now
		_ = b.Shutdown(ctx)
		_ = router.Shutdown(context.Background())
		if n := testutil.ToFloat64(collector{registry, "elicitation_parked"}); n != 0 {
			t.Errorf("%v calls are left", n)
		}
		if n := len(router.Sessions()); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
	return r
}

// metric returns the value of a series, which is written as in a scrape.
func (r *rig) metric(t testing.TB, series string) float64 {
	t.Helper()
	name, label, _ := strings.Cut(strings.TrimSuffix(series, `"}`), `{how="`)
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if label == "" || m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no series %s", series)
	return 0
}

// A collector has the metrics of one name.
type collector struct {
	from prometheus.Gatherer
	name string
}

func (c collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(out chan<- prometheus.Metric) {
	families, _ := c.from.Gather()
	for _, f := range families {
		if f.GetName() == c.name {
			out <- prometheus.MustNewConstMetric(prometheus.NewDesc(c.name, "", nil, nil),
				prometheus.GaugeValue, f.GetMetric()[0].GetGauge().GetValue())
		}
	}
}

func alice() protocol.Principal {
	return protocol.Principal{Issuer: "https://id.example", Subject: "alice"}
}
func bob() protocol.Principal {
	return protocol.Principal{Issuer: "https://id.example", Subject: "bob"}
}

var canBeAsked = protocol.ClientCapabilities{
	Elicitation: &protocol.ElicitationCapability{Form: true, URL: true}}

// form is a question with one message.
func form(message string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"mode":"form","message":%q,"requestedSchema":{"type":"object",`+
		`"properties":{"n":{"type":"integer"}},"required":["n"]}}`, message))
}

func accept(n int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"action":"accept","content":{"n":%d}}`, n))
}

// asking returns a RunFunc that asks questions one after the other, and returns the answers.
func asking(runs *atomic.Int64, messages ...string) bridge.RunFunc {
	return func(ctx context.Context, begin bridge.BeginFunc) (
		json.RawMessage, error) {
		if runs != nil {
			runs.Add(1)
		}
		call, err := begin(ctx, "up/1")
		if err != nil {
			return nil, err
		}
		defer call.End()
		got := []string{}
		for _, message := range messages {
			result, err := call.Elicit(ctx, form(message), nil)
			if err != nil {
				return nil, err
			}
			got = append(got, string(result.Action)+string(result.Content))
		}
		return json.Marshal(got)
	}
}

// request is a first request of alice's.
func request(run bridge.RunFunc) *bridge.Request {
	return &bridge.Request{Method: "tools/call", Target: "deploy",
		Arguments: json.RawMessage(`{"env":"prod","n":1}`), Principal: alice(),
		Capabilities: canBeAsked, Run: run}
}

// retry is the request that comes back with an answer to each question of an outcome.
func retry(first *bridge.Request, o *bridge.Outcome, answer json.RawMessage) *bridge.Request {
	again := *first
	again.State, again.Responses = o.State, map[string]json.RawMessage{}
	for _, q := range o.Questions {
		again.Responses[q.ID] = answer
	}
	return &again
}

// questions returns the messages of an outcome.
func questions(o *bridge.Outcome) string {
	var all []string
	for _, q := range o.Questions {
		all = append(all, q.Request.(*protocol.ElicitForm).Message)
	}
	return strings.Join(all, ",")
}

func (r *rig) serve(t testing.TB, request *bridge.Request) *bridge.Outcome {
	t.Helper()
	o, err := r.Serve(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func wantError(t testing.TB, err error, code int64, text string) {
	t.Helper()
	e, ok := protocol.AsError(err)
	if !ok || e.Code != code || !strings.Contains(e.Message, text) {
		t.Errorf("got %v, want %d %q", err, code, text)
	}
}

const (
	invalidState = "Invalid or expired requestState"
	over         = "The call is over"
)

func TestTheUpstreamRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{})
		var runs atomic.Int64
		first := request(asking(&runs, "one?", "two?"))
		o := r.serve(t, first)
		if questions(o) != "one?" || o.Result != nil || o.State == "" {
			t.Fatalf("got %+v", o)
		}
		time.Sleep(4 * time.Minute) // a person thinks
		o = r.serve(t, retry(first, o, accept(1)))
		if questions(o) != "two?" {
			t.Fatalf("got %+v", o)
		}
		last := retry(first, o, json.RawMessage(`{"action":"decline"}`))
		o = r.serve(t, last)
		const want = `["accept{\"n\":1}","decline"]`
		if string(o.Result) != want || o.State != "" {
			t.Errorf("got %s %+v", o.Result, o)
		}
		if again := r.serve(t, last); string(again.Result) != want {
			t.Errorf("the last request once more: got %+v", again)
		}
		if runs.Load() != 1 {
			t.Errorf("the upstream ran %d times", runs.Load())
		}
		for series, want := range map[string]float64{
			"elicitation_parked": 0, `elicitation_unparked_total{how="done"}`: 1,
			`elicitation_resumes_total{how="answered"}`: 2,
			`elicitation_resumes_total{how="repeated"}`: 1, "elicitation_requests_total": 2,
		} {
			if got := r.metric(t, series); got != want {
				t.Errorf("%s: got %v, want %v", series, got, want)
			}
		}
		time.Sleep(bridge.DefaultGrace)
		synctest.Wait()
		_, err := r.Serve(t.Context(), last)
		wantError(t, err, protocol.CodeFlowEnded, over)
	})
}

// Without questions there is nothing to come back for.
func TestACallWithoutQuestionsIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{MaxParked: 1})
		for range 3 {
			if o := r.serve(t, request(asking(nil))); string(o.Result) != "[]" || o.State != "" {
				t.Errorf("got %+v", o)
			}
		}
		if strings.Contains(r.logs.text(), "elicitation.parked") {
			t.Error("a call that asked nothing was logged as parked")
		}
	})
}

func TestQuestionsAtOnceComeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{})
		first := request(func(ctx context.Context, begin bridge.BeginFunc) (
			json.RawMessage, error) {
			call, err := begin(ctx, "up/1")
			if err != nil {
				return nil, err
			}
			defer call.End()
			var asked sync.WaitGroup
			var sum atomic.Int64
			for i := range 3 {
				asked.Go(func() {
					time.Sleep(time.Duration(i) * 10 * time.Millisecond)
					result, err := call.Elicit(ctx, form(fmt.Sprint(i)), nil)
					var content struct{ N int64 }
					if err == nil && json.Unmarshal(result.Content, &content) == nil {
						sum.Add(content.N)
					}
				})
			}
			asked.Wait()
			return json.Marshal(sum.Load())
		})
		o := r.serve(t, first)
		if questions(o) != "0,1,2" {
			t.Fatalf("got %q", questions(o))
		}
		// Two are answered, and the third comes again.
		part := retry(first, o, accept(5))
		delete(part.Responses, o.Questions[1].ID)
		part.Responses["unknown"] = accept(7)
		o = r.serve(t, part)
		if questions(o) != "1" {
			t.Fatalf("got %q", questions(o))
		}
		if o = r.serve(t, retry(first, o, accept(6))); string(o.Result) != "16" {
			t.Errorf("got %s", o.Result)
		}
	})
}

// Copies of a request wait for one outcome, and the upstream gets the answers once.
func TestCopiesOfARequestGetTheSameOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{})
		var runs atomic.Int64
		first := request(asking(&runs, "one?", "two?"))
		o := r.serve(t, first)
		second := retry(first, o, accept(1))
		var copies sync.WaitGroup
		got := make([]string, 5)
		for i := range got {
			copies.Go(func() {
				o, err := r.Serve(t.Context(), second)
				if err != nil {
					t.Error(err)
					return
				}
				got[i] = questions(o) + o.Questions[0].ID
			})
		}
		copies.Wait()
		for _, one := range got {
			if one != got[0] || !strings.HasPrefix(one, "two?") {
				t.Errorf("got %q", got)
			}
		}
		o = r.serve(t, second) // its response was lost
		if questions(o) != "two?" {
			t.Errorf("got %+v", o)
		}
		if o = r.serve(t, retry(first, o, accept(2))); string(o.Result) !=
			`["accept{\"n\":1}","accept{\"n\":2}"]` || runs.Load() != 1 {
			t.Errorf("got %s after %d runs", o.Result, runs.Load())
		}
	})
}

// What is refused changes nothing: the rightful request is served afterwards.
func TestRequestsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{})
		other := newRig(t, bridge.Options{Keys: keys.EphemeralKeyring().Derive(bridge.KeyPurpose)})
		first := request(asking(nil, "one?", "two?"))
		elsewhere := other.serve(t, first)
		o := r.serve(t, first)
		good := retry(first, o, accept(1))
		for name, change := range map[string]func(*bridge.Request){
			"another user":       func(q *bridge.Request) { q.Principal = bob() },
			"another issuer":     func(q *bridge.Request) { q.Principal.Issuer = "https://evil" },
			"nobody":             func(q *bridge.Request) { q.Principal = protocol.Principal{} },
			"another tool":       func(q *bridge.Request) { q.Target = "delete" },
			"another method":     func(q *bridge.Request) { q.Method = "prompts/get" },
			"other arguments":    func(q *bridge.Request) { q.Arguments = []byte(`{"n":2}`) },
			"no arguments":       func(q *bridge.Request) { q.Arguments = nil },
			"a changed state":    func(q *bridge.Request) { q.State = changed(q.State) },
			"half a state":       func(q *bridge.Request) { q.State = q.State[:len(q.State)/2] },
			"a long state":       func(q *bridge.Request) { q.State += strings.Repeat("A", 1024) },
			"a state of another": func(q *bridge.Request) { q.State = elsewhere.State },
		} {
			bad := *good
			change(&bad)
			_, err := r.Serve(t.Context(), &bad)
			if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeInvalidParams ||
				e.Message != invalidState {
				t.Errorf("%s: got %v", name, err)
			}
		}
		bad := *good
		bad.Responses = map[string]json.RawMessage{
			o.Questions[0].ID: json.RawMessage(`{"action":"sesame"}`)}
		_, err := r.Serve(t.Context(), &bad)
		wantError(t, err, protocol.CodeInvalidParams, "not the result of an elicitation")
		bad.Responses = map[string]json.RawMessage{}
		for i := range 1001 {
			bad.Responses[strconv.Itoa(i)] = json.RawMessage(`{"action":"cancel"}`)
		}
		_, err = r.Serve(t.Context(), &bad)
		wantError(t, err, protocol.CodeInvalidParams, "1001 answers, at most 1000 are read")

		respelled := *good
		respelled.Arguments = json.RawMessage(` { "n": 1.0, "env": "\u0070rod" } `)
		next := r.serve(t, &respelled)
		if questions(next) != "two?" {
			t.Fatalf("got %+v", next)
		}
		_, err = r.Serve(t.Context(), retry(first, o, accept(2))) // other answers to the first
		wantError(t, err, protocol.CodeInvalidParams, invalidState)
		last := r.serve(t, retry(first, next, accept(3)))
		if string(last.Result) != `["accept{\"n\":1}","accept{\"n\":3}"]` {
			t.Errorf("got %s", last.Result)
		}
		_, err = r.Serve(t.Context(), good) // two rounds ago
		wantError(t, err, protocol.CodeInvalidParams, invalidState)
		if log := r.logs.text(); strings.Contains(log, o.State) || strings.Contains(log, "sesame") {
			t.Errorf("the log has a state or an answer: %s", log)
		}
	})
}

// changed returns a state with another letter in the middle.
func changed(state string) string {
	at, letter := len(state)/2, "A"
	if state[at] == 'A' {
		letter = "B"
	}
	return state[:at] + letter + state[at+1:]
}

// blocked returns a RunFunc that asks, and then waits until the call is given up.
func blocked(ended *error, messages ...string) bridge.RunFunc {
	return func(ctx context.Context, begin bridge.BeginFunc) (
		json.RawMessage, error) {
		if _, err := asking(nil, messages...)(ctx, begin); err != nil {
			*ended = err
			return nil, err
		}
		<-ctx.Done()
		*ended = context.Cause(ctx)
		return nil, *ended
	}
}

func TestAClientThatGoesAwayFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{})
		var ended error
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Serve(ctx, request(blocked(&ended)))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if ended == nil || r.metric(t, `elicitation_unparked_total{how="abandoned"}`) != 1 {
			t.Errorf("the call ended with %v", ended)
		}
	})
}

// A client that goes away later has a state to come back with.
func TestAClientThatGoesAwayLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, comesBack := range []bool{true, false} {
			r := newRig(t, bridge.Options{})
			release := make(chan struct{})
			first := request(func(ctx context.Context, begin bridge.BeginFunc) (
				json.RawMessage, error) {
				got, err := asking(nil, "one?")(ctx, begin)
				select {
				case <-release:
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
				return got, err
			})
			second := retry(first, r.serve(t, first), accept(1))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := r.Serve(ctx, second)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if comesBack {
				time.Sleep(bridge.DefaultGrace - time.Second)
				close(release)
				if o := r.serve(t, second); string(o.Result) != `["accept{\"n\":1}"]` {
					t.Errorf("got %+v", o)
				}
				continue
			}
			time.Sleep(bridge.DefaultGrace)
			synctest.Wait()
			_, err = r.Serve(t.Context(), second)
			wantError(t, err, protocol.CodeFlowEnded, over)
			if n := r.metric(t, `elicitation_unparked_total{how="abandoned"}`); n != 1 {
				t.Errorf("%v calls were abandoned", n)
			}
		}
	})
}

// Another copy of the request that goes away does not end what its client has got.
func TestACopyThatGoesAwayEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{})
		first := request(asking(nil, "one?", "two?"))
		second := retry(first, r.serve(t, first), accept(1))
		o := r.serve(t, second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = r.Serve(ctx, second)
		time.Sleep(2 * bridge.DefaultGrace)
		if o = r.serve(t, retry(first, o, accept(2))); len(o.Result) == 0 {
			t.Errorf("got %+v", o)
		}
	})
}

// A question that nobody answers in time ends as it does for any client. The result of the call
// waits for its client.
func TestAnAnswerThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{QuestionTimeout: time.Minute})
		first := request(func(ctx context.Context, begin bridge.BeginFunc) (
			json.RawMessage, error) {
			_, err := asking(nil, "one?")(ctx, begin)
			if !errors.Is(err, elicitation.ReasonTimeout) {
				t.Errorf("the upstream got %v", err)
			}
			return json.RawMessage(`"too late"`), nil
		})
		o := r.serve(t, first)
		time.Sleep(5 * time.Minute)
		if o = r.serve(t, retry(first, o, accept(1))); string(o.Result) != `"too late"` {
			t.Errorf("got %+v", o)
		}
	})
}

// A caller without a principal is known by its credential, if there is one.
func TestCredentialsOfAnonymousCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{})
		for _, who := range []protocol.Principal{{}, alice()} {
			first := request(asking(nil, "one?"))
			first.Principal, first.Credential = who, "Bearer 1"
			other := retry(first, r.serve(t, first), accept(1))
			same := *other
			other.Credential = "Bearer 2"
			_, err := r.Serve(t.Context(), other)
			if who.Anonymous() {
				wantError(t, err, protocol.CodeInvalidParams, invalidState)
				_, err = r.Serve(t.Context(), &same)
			}
			if err != nil {
				t.Errorf("%v: %v", who, err)
			}
		}
	})
}

func TestACallThatLastsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{TTL: 2 * time.Minute})
		var ended error
		first := request(blocked(&ended, "one?"))
		o := r.serve(t, first)
		_, err := r.Serve(t.Context(), retry(first, o, accept(1)))
		wantError(t, err, protocol.CodeFlowEnded, "has expired, call again")
		synctest.Wait()
		if ended == nil {
			t.Error("the call upstream goes on")
		}
		_, err = r.Serve(t.Context(), retry(first, o, accept(1)))
		wantError(t, err, protocol.CodeFlowEnded, "has expired, call again")
	})
}

func TestTooManyRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{MaxRounds: 3})
		first := request(asking(nil, "1", "2", "3", "4", "5"))
		o := r.serve(t, first)
		for range 2 {
			o = r.serve(t, retry(first, o, accept(1)))
		}
		_, err := r.Serve(t.Context(), retry(first, o, accept(1)))
		wantError(t, err, protocol.CodeFlowEnded, "asked too often")
	})
}

func TestLimitsOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{MaxParked: 4, MaxPerPrincipal: 2})
		ask := func(who protocol.Principal) (*bridge.Request, *bridge.Outcome, error) {
			first := request(asking(nil, "one?"))
			first.Principal = who
			o, err := r.Serve(t.Context(), first)
			return first, o, err
		}
		for _, who := range []protocol.Principal{alice(), alice(), bob(), bob()} {
			if _, _, err := ask(who); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := ask(alice())
		wantError(t, err, protocol.CodeBusy, "Too many calls are open")
		_, _, err = ask(protocol.Principal{Subject: "carol"})
		wantError(t, err, protocol.CodeBusy, "Too many calls are open")
		time.Sleep(bridge.DefaultTTL)
		synctest.Wait()
		first, o, err := ask(alice())
		if err != nil {
			t.Fatal(err)
		}
		r.serve(t, retry(first, o, accept(1)))
	})
}

// Results for clients that are away take no more than they may.
func TestResultsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{MaxHeldBytes: 64 << 10, QuestionTimeout: time.Second})
		first := request(func(ctx context.Context, begin bridge.BeginFunc) (
			json.RawMessage, error) {
			_, _ = asking(nil, "one?")(ctx, begin)
			return json.Marshal(strings.Repeat("x", 10<<10))
		})
		held, lost := 0, 0
		var states []*bridge.Outcome
		for range 5 {
			states = append(states, r.serve(t, first))
		}
		time.Sleep(time.Minute) // nobody answers, and the calls end
		for _, o := range states {
			o, err := r.Serve(t.Context(), retry(first, o, accept(1)))
			if err != nil {
				wantError(t, err, protocol.CodeFlowEnded, "no room to keep its result")
				lost++
			} else if len(o.Result) > 10<<10 {
				held++
			}
		}
		if held != 1 || lost != 4 { // a quarter is 16 KiB
			t.Errorf("%d were kept and %d were not", held, lost)
		}
		// A call whose result was not kept counts as open until its client could have come.
		r2 := newRig(t, bridge.Options{MaxHeldBytes: 1, MaxPerPrincipal: 2,
			QuestionTimeout: time.Second})
		for range 2 {
			r2.serve(t, first)
		}
		time.Sleep(time.Minute)
		_, err := r2.Serve(t.Context(), first)
		wantError(t, err, protocol.CodeBusy, "Too many calls are open")
		time.Sleep(bridge.DefaultTTL)
		synctest.Wait()
		r2.serve(t, first)
		// What somebody waits for is sent whatever its size.
		large := request(func(ctx context.Context, begin bridge.BeginFunc) (
			json.RawMessage, error) {
			_, err := asking(nil, "one?")(ctx, begin)
			return json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`), err
		})
		if o := r.serve(t, retry(large, r.serve(t, large), accept(1))); len(o.Result) < 100<<10 {
			t.Errorf("got %d bytes", len(o.Result))
		}
	})
}

func TestErrorsOfTheUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{})
		for name, test := range map[string]struct {
			run  bridge.RunFunc
			code int64
			text string
		}{
			"its own": {func(context.Context, bridge.BeginFunc) (json.RawMessage, error) {
				return nil, protocol.Errorf(-32602, "unknown tool")
			}, -32602, "unknown tool"},
			"internal": {func(context.Context, bridge.BeginFunc) (json.RawMessage, error) {
				return nil, errors.New("status 500: my secret")
			}, protocol.CodeInternalError, ""},
			"no connection": {func(context.Context, bridge.BeginFunc) (json.RawMessage, error) {
				return nil, fmt.Errorf("my secret: %w", &net.OpError{Op: "dial", Net: "tcp",
					Err: errors.New("10.0.0.7 refused it")})
			}, protocol.CodeInternalError, ""},
			"a panic": {func(context.Context, bridge.BeginFunc) (json.RawMessage, error) {
				panic("my secret")
			}, protocol.CodeInternalError, ""},
			"nothing": {func(context.Context, bridge.BeginFunc) (json.RawMessage, error) {
				return nil, nil
			}, protocol.CodeInternalError, ""},
		} {
			_, err := r.Serve(t.Context(), request(test.run))
			e, ok := protocol.AsError(err)
			if !ok || e.Code != test.code || !strings.Contains(e.Message, test.text) ||
				strings.Contains(e.Message, "10.0.0.7") || strings.Contains(e.Message, "secret") {
				t.Errorf("%s: got %v", name, err)
			}
		}
		log := r.logs.text()
		for _, want := range []string{"dial tcp: 10.0.0.7 refused it", "panicked"} {
			if !strings.Contains(log, want) {
				t.Errorf("the log does not say %q: %s", want, log)
			}
		}
		if strings.Contains(log, "secret") {
			t.Errorf("the log tells a secret: %s", log)
		}
	})
}

// A client that did not declare elicitation is not asked: the upstream gets the router's refusal.
func TestAClientThatCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{})
		first := request(func(ctx context.Context, begin bridge.BeginFunc) (
			json.RawMessage, error) {
			_, err := asking(nil, "one?")(ctx, begin)
			return json.Marshal(fmt.Sprint(errors.Is(err, elicitation.ReasonCapability)))
		})
		first.Capabilities = protocol.ClientCapabilities{}
		if o := r.serve(t, first); string(o.Result) != `"true"` {
			t.Errorf("got %+v", o)
		}
	})
}

// Progress goes to the requests that wait, and none to one that has its outcome.
func TestProgressReachesTheRequestThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{})
		var mu sync.Mutex
		seen := map[string][]float64{}
		listen := func(name string) func(context.Context, *protocol.Progress) {
			return func(_ context.Context, p *protocol.Progress) {
				mu.Lock()
				defer mu.Unlock()
				seen[name] = append(seen[name], p.Progress)
			}
		}
		first := request(func(ctx context.Context, begin bridge.BeginFunc) (
			json.RawMessage, error) {
			call, err := begin(ctx, "up/1")
			if err != nil {
				return nil, err
			}
			defer call.End()
			report := func(value float64) {
				if err := call.RelayProgress(ctx, &protocol.Progress{Progress: value}); err != nil {
					t.Error(err)
				}
			}
			report(1)
			if _, err := call.Elicit(ctx, form("one?"), nil); err != nil {
				return nil, err
			}
			report(2)
			report(3)
			return json.RawMessage(`"done"`), nil
		})
		first.Progress = listen("first")
		o := r.serve(t, first)
		time.Sleep(time.Minute) // heartbeats have nobody to go to
		second := retry(first, o, accept(1))
		second.Progress = listen("second")
		r.serve(t, second)
		if got := fmt.Sprint(seen["first"][:1], seen["second"]); got != "[1] [2 3]" {
			t.Errorf("got %s", got)
		}
	})
}

func TestShutdownLetsCallsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{})
		first := request(asking(nil, "one?"))
		o := r.serve(t, first)
		stopped := make(chan error)
		go func() { stopped <- r.Shutdown(t.Context()) }()
		synctest.Wait()
		_, err := r.Serve(t.Context(), first)
		wantError(t, err, protocol.CodeBusy, "shutting down")
		if o = r.serve(t, retry(first, o, accept(1))); o.Result == nil {
			t.Errorf("got %+v", o)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bridge.Options{})
		var ended error
		first := request(blocked(&ended, "one?"))
		o := r.serve(t, first)
		answered := make(chan error)
		go func() {
			_, err := r.Serve(t.Context(), retry(first, o, accept(1)))
			answered <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stopped := make(chan error)
		go func() { stopped <- r.Shutdown(ctx) }()
		wantError(t, <-answered, protocol.CodeBusy, "shutting down")
		if err := <-stopped; !errors.Is(err, context.DeadlineExceeded) || ended == nil {
			t.Errorf("got %v, and the call ended with %v", err, ended)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer router.Shutdown(t.Context())
	sealer := ring.Derive(bridge.KeyPurpose)
	for text, opts := range map[string]*bridge.Options{
		"Keys is nil":     nil,
		"TTL":             {Keys: sealer, TTL: -1},
		"Grace":           {Keys: sealer, Grace: -1},
		"QuestionTimeout": {Keys: sealer, QuestionTimeout: -1},
		"Settle":          {Keys: sealer, Settle: -1},
		"MaxRounds":       {Keys: sealer, MaxRounds: -1},
		"MaxParked":       {Keys: sealer, MaxParked: -1},
		"MaxPerPrincipal": {Keys: sealer, MaxPerPrincipal: -1},
		"MaxHeldBytes":    {Keys: sealer, MaxHeldBytes: -1},
		"no other replica has": {Bus: bridge.ShareBus(elicitation.NewHub().Bus()),
			Keys: keys.EphemeralKeyring().Derive(bridge.KeyPurpose)},
	} {
		if _, err := bridge.New(router, opts); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if _, err := bridge.New(nil, &bridge.Options{Keys: sealer}); err == nil {
		t.Error("no router: got no error")
	}
}
