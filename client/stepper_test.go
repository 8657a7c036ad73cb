package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

func byHand() *client.Options {
	return &client.Options{Manual: &protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true, URL: true},
		Sampling:    &protocol.SamplingCapability{},
		Roots:       &protocol.RootsCapability{},
	}}
}

// The function elsewhere stores a pending call and reads it back, as another process does.
func elsewhere(t *testing.T, p *client.Pending) *client.Pending {
	t.Helper()
	data, err := json.Marshal(p)
	noError(t, err)
	var q client.Pending
	if err := json.Unmarshal(data, &q); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return &q
}

func begin(t *testing.T, c *client.Client) *client.Pending {
	t.Helper()
	result, p, err := c.Begin(t.Context(),
		&protocol.CallToolParams{Name: "greet", Arguments: json.RawMessage(`{"n": 1.0}`)})
	if err != nil || result != nil || p == nil {
		t.Fatalf("got %v, %v, %v, want a pending call", result, p, err)
	}
	return p
}

func resume(t *testing.T, c *client.Client, p *client.Pending) {
	t.Helper()
	_, _, err := c.Resume(t.Context(), p)
	noError(t, err)
}

func answer(t *testing.T, p *client.Pending, key string, result json.Marshaler) {
	t.Helper()
	noError(t, p.Answer(key, result))
}

func accepted(t *testing.T, content any) *protocol.ElicitResult {
	t.Helper()
	r, err := client.Accept(content)
	noError(t, err)
	return r
}

func TestBeginWithoutQuestions(t *testing.T) {
	cases := []struct {
		params protocol.Params
		result string
		want   protocol.Result
	}{
		{&protocol.CallToolParams{Name: "t"}, done, &protocol.CallToolResult{}},
		{&protocol.GetPromptParams{Name: "p"}, `{"messages":[]}`, &protocol.GetPromptResult{}},
		{&protocol.ReadResourceParams{URI: "u:1"}, `{"contents":[],"ttlMs":60000}`,
			&protocol.ReadResourceResult{}},
	}
	for _, tc := range cases {
		t.Run(fmt.Sprintf("%T", tc.params), func(t *testing.T) {
			peer := script(tc.result)
			c := newClient(t, peer, nil)
			for range 2 { // no result comes from a cache
				result, p, err := c.Begin(t.Context(), tc.params)
				if err != nil || p != nil || reflect.TypeOf(result) != reflect.TypeOf(tc.want) {
					t.Fatalf("got %T, %v, %v", result, p, err)
				}
			}
			wantEqual(t, "requests", len(peer.requests()), 2)
		})
	}
}

func TestBeginRefusesOtherRequests(t *testing.T) {
	peer := script(done)
	c := newClient(t, peer, nil)
	for _, p := range []protocol.Params{nil, &protocol.ListParams{}, &protocol.RequestMeta{},
		(*protocol.CallToolParams)(nil)} {
		t.Run(fmt.Sprintf("%T", p), func(t *testing.T) {
			if result, pending, err := c.Begin(t.Context(), p); err == nil || result != nil ||
				pending != nil {
				t.Errorf("%T: got %v, %v, %v", p, result, pending, err)
			}
		})
	}
	wantEqual(t, "requests", len(peer.requests()), 0)
}

func TestStepperThroughAllKinds(t *testing.T) {
	for _, way := range []string{"same process", "other process"} {
		t.Run(way, func(t *testing.T) {
			peer := script(
				ask(`"inputRequests":{"who":`+nameForm+`,"in":`+visitURL+`},"requestState":"s1"`),
				ask(`"inputRequests":{"say":`+sampling+`}`),
				ask(`"inputRequests":{"dirs":`+listRoots+`},"requestState":""`),
				done)
			c := newClient(t, peer, byHand())
			move := func(p *client.Pending) *client.Pending {
				if way == "same process" {
					return p
				}
				// Another client counts its ids from the start.
				c = newClient(t, peer, byHand())
				return elsewhere(t, p)
			}
			resume := func(p *client.Pending) *client.Pending {
				t.Helper()
				result, next, err := c.Resume(t.Context(), p)
				if err != nil || result != nil {
					t.Fatalf("got %v, %v", result, err)
				}
				return next
			}
			p := move(begin(t, c))
			if p.Method() != "tools/call" || p.Target() != "greet" || p.Round() != 1 {
				t.Errorf("got %v", p)
			}
			form, ok := p.Questions()[0].Request.(*protocol.ElicitForm)
			if !ok || form.Message != "Who?" || p.Questions()[0].Key != "who" {
				t.Errorf("got %+v", p.Questions())
			}
			answer(t, p, "in", accepted(t, map[string]any{"secret": 1}))
			p = move(p) // with half of the answers
			answer(t, p, "who", client.Decline())
			answer(t, p, "who", accepted(t, map[string]any{"name": "Ada"}))
			p = resume(move(p))
			answer(t, p, "say", &protocol.CreateMessageResult{Role: protocol.Assistant, Model: "m",
				Content: []protocol.Content{&protocol.TextContent{Text: "hi"}}})
			p = resume(move(p))
			wantEqual(t, "got round", p.Round(), 3)
			answer(t, p, "dirs",
				protocol.ListRootsResult{Roots: []protocol.Root{{URI: "file:///src"}}})
			result, next, err := c.Resume(t.Context(), move(p))
			if _, ok := result.(*protocol.CallToolResult); !ok || next != nil || err != nil {
				t.Fatalf("got %T, %v, %v", result, next, err)
			}
			checkLegs(t, peer)
		})
	}
}

func TestStoredStateIsExact(t *testing.T) {
	for name, state := range map[string]string{
		"absent": "", "empty": `""`, "plain": `"a.b-c"`, "spaces": `"  x  "`,
		"line ends": "\"a\\r\\n\\u2028\\u0000b\"",
		"html":      `"<&>'\\\""`, "beyond ASCII": `"é😀\u0301"`,
		"escaped": `"\u00e9\ud83d\ude00\/"`, "long": `"` + strings.Repeat("x", 60_000) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			members := `"inputRequests":{"who":` + nameForm + `}`
			if state != "" {
				members += `,"requestState":` + state
			}
			peer := script(ask(members), done)
			p := elsewhere(t, elsewhere(t, begin(t, newClient(t, peer, byHand()))))
			answer(t, p, "who", client.Cancel())
			resume(t, newClient(t, peer, byHand()), elsewhere(t, p))
			raw := member(t, peer.requests()[1], "requestState")
			if (raw == "") != (state == "") {
				t.Fatalf("got %q, want %q", raw, state)
			}
			if state == "" {
				return
			}
			var got, want string
			if err := errors.Join(json.Unmarshal([]byte(raw), &got),
				json.Unmarshal([]byte(state), &want)); err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
}

// A retry's arguments are spelled as in the first leg, even if the call was stored in between:
// servers bind states to the spelling. The caller's metadata stays too.
func TestRetriesSayTheSame(t *testing.T) {
	const arguments = `{"n":[1.0,1e0,-0,1E+5,9007199254740993],"s":"/"}`
	peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
	p := &protocol.CallToolParams{Name: "t", Arguments: json.RawMessage(arguments)}
	p.Extra = protocol.Meta(
		`{"com.example/tenant":"b","io.modelcontextprotocol/protocolVersion":"1999-01-01"}`)
	p.ProgressToken, p.LogLevel = protocol.StringID("p"), protocol.LevelError
	_, pending, err := newClient(t, peer, byHand()).Begin(t.Context(), p)
	noError(t, err)
	pending = elsewhere(t, elsewhere(t, pending))
	answer(t, pending, "who", client.Cancel())
	resume(t, newClient(t, peer, byHand()), pending)
	for i, req := range peer.requests() {
		wantEqual(t, fmt.Sprintf("leg %d sends", i+1), member(t, req, "arguments"), arguments)
		meta := metaOf(t, req)
		tenant, _ := meta.Extra.Get("com.example/tenant")
		if string(tenant) != `"b"` || meta.Version != protocol.V20260728 ||
			meta.ProgressToken != protocol.StringID("p") || meta.LogLevel != protocol.LevelError {
			t.Errorf("leg %d: got %s", i+1, meta.Extra)
		}
	}
}

func TestPendingAnswersAreChecked(t *testing.T) {
	c := newClient(t,
		script(ask(`"inputRequests":{"who":`+nameForm+`,"in":`+visitURL+`,"say":`+sampling+
			`,"dirs":`+listRoots+`}`)), byHand())
	p := begin(t, c)
	raw := func(s string) json.Marshaler { return json.RawMessage(s) }
	cases := []struct {
		name, key string
		result    json.Marshaler
		field     string
	}{
		{"missing field", "who", accepted(t, nil), "name"},
		{"wrong type", "who", accepted(t, map[string]any{"name": 7}), "name"},
		{"too short", "who", accepted(t, map[string]any{"name": "x"}), "name"},
		{"no action", "who", raw(`{}`), ""},
		{"action in the wrong case", "who", raw(`{"Action":"accept"}`), ""},
		{"twice", "who", raw(`{"action":"decline","action":"accept"}`), ""},
		{"null", "who", raw(`null`), ""},
		{"no JSON", "who", raw(`{`), ""},
		{"nil", "who", nil, ""},
		{"nil pointer", "who", (*protocol.ElicitResult)(nil), ""},
		{"roots for a form", "who", protocol.ListRootsResult{}, ""},
		{"form for sampling", "say", client.Decline(), ""},
		{"form for roots", "dirs", client.Decline(), ""},
		{"root that is no file", "dirs",
			protocol.ListRootsResult{Roots: []protocol.Root{{URI: "https://example.com"}}}, ""},
		{"list for a URL", "in", raw(`[]`), ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			err := p.Answer(tc.key, tc.result)
			if e, ok := errors.AsType[*client.AnswerError](err); !ok || e.Key != tc.key ||
				e.Field != tc.field {
				t.Errorf("got %+v, want an answer error about field %q", err, tc.field)
			}
		})
	}
	if err := p.Answer("other", client.Decline()); err == nil ||
		!strings.Contains(err.Error(), "other") {
		t.Errorf("unknown key: got %v", err)
	}
	if text, err := json.Marshal(p); err != nil || !strings.Contains(string(text), `"answers":{}`) {
		t.Errorf("kept an answer that was refused: %s, %v", text, err)
	}
	answer(t, p, "who", raw(`{"action":"accept","content":{"name":"Ada","evil":1}}`))
}

func TestResumeNeedsEveryAnswer(t *testing.T) {
	peer := script(ask(`"inputRequests":{"who":` + nameForm + `,"in":` + visitURL + `}`))
	c := newClient(t, peer, byHand())
	p := begin(t, c)
	answer(t, p, "who", client.Decline())
	if _, _, err := c.Resume(t.Context(), p); err == nil ||
		!strings.Contains(err.Error(), `"in"`) ||
		len(peer.requests()) != 1 {
		t.Errorf("got %v after %d requests", err, len(peer.requests()))
	}
	for _, p := range []*client.Pending{nil, {}} {
		if _, _, err := c.Resume(t.Context(), p); err == nil {
			t.Error("resumed an empty call")
		}
	}
}

func TestStepperDeclaresWhatIsAnsweredByHand(t *testing.T) {
	opts := byHand()
	opts.ElicitForm = acceptName
	peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
	c := newClient(t, peer, opts)
	p := begin(t, c)
	answer(t, p, "who", client.Decline())
	resume(t, c, p)
	wantCall(t, c, "t")
	all := `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`
	for i, want := range []string{all, all, `{"elicitation":{"form":{}}}`} {
		got, _ := protocol.Meta(member(t, peer.requests()[i], "_meta")).Get(
			protocol.MetaClientCapabilities)
		wantEqual(t, fmt.Sprint("leg ", i), string(got), want)
	}
}

func TestStepperChecksQuestions(t *testing.T) {
	form := &client.Options{ElicitForm: acceptName}
	for _, tc := range []struct {
		name, question string
		opts           *client.Options
		want           string // the question is declared, undeclared or refused
	}{
		{"nothing declared", nameForm, nil, "undeclared"},
		{"handlers count", nameForm, form, "declared"},
		{"by hand counts alone", nameForm, &client.Options{ElicitForm: acceptName,
			Manual: &protocol.ClientCapabilities{}}, "undeclared"},
		{"URL of a form client", visitURL, form, "undeclared"},
		{"script URL", strings.Replace(visitURL, "https:", "javascript:", 1), byHand(), "refused"},
		{"URL in clear", strings.Replace(visitURL, "https:", "http:", 1), byHand(), "refused"},
		{"form in a form", strings.Replace(nameForm, `"string"`, `"object"`, 1), byHand(),
			"refused"},
		{"unusable schema", strings.Replace(nameForm, `"minLength":2`, `"minLength":"x"`, 1),
			byHand(), "refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, script(ask(`"inputRequests":{"q":`+tc.question+`}`)), tc.opts)
			_, p, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "t"})
			e, refused := errors.AsType[*client.QuestionError](err)
			if refused != (tc.want != "declared") || refused && e.Key != "q" ||
				(p == nil) != refused ||
				client.IsUndeclared(err) != (tc.want == "undeclared") {
				t.Errorf("got %v, %v, want it %s", p, err, tc.want)
			}
		})
	}
	t.Run("context is not offered", func(t *testing.T) {
		q := strings.Replace(sampling, `"maxTokens"`, `"includeContext":"allServers","maxTokens"`, 1)
		p := begin(t, newClient(t, script(ask(`"inputRequests":{"q":`+q+`}`)), byHand()))
		question := p.Questions()[0].Request.(*protocol.CreateMessage)
		wantEqual(t, "includeContext", question.IncludeContext, "")
	})
	t.Run("again where it is resumed", func(t *testing.T) {
		peer := script(ask(`"inputRequests":{"q":` + visitURL + `}`))
		p := begin(t, newClient(t, peer, byHand()))
		answer(t, p, "q", client.Decline())
		strict := byHand()
		strict.Manual.Elicitation.URL = false
		if _, _, err := newClient(t, peer, strict).Resume(t.Context(),
			elsewhere(t, p)); !client.IsUndeclared(err) || len(peer.requests()) != 1 {
			t.Errorf("got %v after %d requests", err, len(peer.requests()))
		}
	})
}

func TestStepperCountsRoundsAcrossProcesses(t *testing.T) {
	opts := byHand()
	opts.MaxRounds = 2
	peer := script(ask(`"inputRequests":{"who":` + nameForm + `}`))
	p := begin(t, newClient(t, peer, opts))
	for {
		if len(peer.requests()) > 3 {
			t.Fatal("the rounds of other processes were forgotten")
		}
		p = elsewhere(t, p)
		answer(t, p, "who", client.Decline())
		_, next, err := newClient(t, peer, opts).Resume(t.Context(), p)
		if err != nil {
			wantError(t, err, "after 2 rounds", "Options.MaxRounds")
			wantEqual(t, "requests", len(peer.requests()), 3)
			break
		}
		p = next
	}
	t.Run("a client with fewer", func(t *testing.T) {
		before := len(peer.requests())
		opts.MaxRounds = 1
		_, _, err := newClient(t, peer, opts).Resume(t.Context(), p)
		wantError(t, err, "after 1 rounds", "Options.MaxRounds")
		wantEqual(t, "requests", len(peer.requests()), before)
	})
	t.Run("never", func(t *testing.T) {
		opts.MaxRounds = -1
		_, _, err := newClient(t, peer, opts).Begin(t.Context(),
			&protocol.CallToolParams{Name: "t"})
		wantError(t, err, "after 0 rounds", "Options.MaxRounds")
	})
}

// A client that runs for long keeps no contexts of the calls that it has begun and resumed.
func TestStepperKeepsNoContexts(t *testing.T) {
	const calls = 1000
	type key struct{}
	c := newClient(t, script(ask(`"inputRequests":{"who":`+nameForm+`}`)), byHand())
	contexts := make([]weak.Pointer[[64]byte], 0, 2*calls)
	value := func() context.Context {
		v := new([64]byte)
		contexts = append(contexts, weak.Make(v))
		return context.WithValue(t.Context(), key{}, v)
	}
	for range calls {
		_, p, err := c.Begin(value(), &protocol.CallToolParams{Name: "greet"})
		noError(t, err)
		answer(t, p, "who", client.Decline())
		_, _, err = c.Resume(value(), p)
		noError(t, err)
	}
	runtime.GC()
	runtime.GC()
	kept := 0
	for _, w := range contexts {
		if w.Value() != nil {
			kept++
		}
	}
	if kept > 10 { // the stack may still hold some
		t.Errorf("%d of %d contexts are kept", kept, len(contexts))
	}
	runtime.KeepAlive(c)
}

func TestStepperPacesStateOnlyRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := ask(`"requestState":"busy"`)
		peer := script(busy, busy, busy, ask(`"inputRequests":{"who":`+nameForm+`}`), busy, done)
		c := newClient(t, peer, byHand())
		start := time.Now()
		p := begin(t, c)
		if took := time.Since(start); p.Round() != 4 || took < 250*time.Millisecond {
			t.Errorf("got round %d after %v", p.Round(), took)
		}
		answer(t, p, "who", client.Decline())
		result, _, err := c.Resume(t.Context(), p)
		if err != nil || result == nil {
			t.Fatalf("got %v, %v", result, err)
		}
		last := peer.requests()[5]
		got := member(t, last, "inputResponses") + member(t, last, "requestState")
		wantEqual(t, "the result", got, `"busy"`)
	})
}

// If the caller puts answers and state into the parameters, the client sends them.
func TestBeginSendsManualRetry(t *testing.T) {
	peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
	c := newClient(t, peer, byHand())
	p := &protocol.CallToolParams{Name: "t", Retry: protocol.Retry{
		InputResponses: protocol.InputResponses{
			{Key: "old", Result: json.RawMessage(`{"action":"decline"}`)},
		},
		RequestState: protocol.StateText("s0"),
	}}
	_, pending, err := c.Begin(t.Context(), p)
	noError(t, err)
	answer(t, pending, "who", client.Decline())
	if text, err := json.Marshal(pending); err != nil || strings.Contains(string(text), "s0") ||
		strings.Contains(string(text), "old") {
		t.Errorf("stored what is over: %s, %v", text, err)
	}
	resume(t, c, elsewhere(t, pending))
	sent := peer.requests()
	got := member(t, sent[0], "inputResponses") + member(t, sent[0], "requestState")
	wantEqual(t, "first", got, `{"old":{"action":"decline"}}"s0"`)
	if got := member(t, sent[1], "inputResponses") +
		member(t, sent[1], "requestState"); got != `{"who":{"action":"decline"}}` {
		t.Errorf("second: got %s", got)
	}
	if len(p.InputResponses) != 1 || p.Version != "" {
		t.Errorf("the caller's parameters were changed: %+v", p)
	}
}

func TestPendingMayBeResumedTwice(t *testing.T) {
	lost := errors.New("lost")
	n := 0
	peer := answering(func(req *protocol.Request) (response, error) {
		switch n++; n {
		case 1:
			asks := ask(`"inputRequests":{"who":` + nameForm + `},"requestState":"s"`)
			return reply(req, asks)
		case 2:
			return nil, lost
		}
		return reply(req, done)
	})
	c := newClient(t, peer, byHand())
	p := begin(t, c)
	answer(t, p, "who", client.Decline())
	_, _, err := c.Resume(t.Context(), p)
	wantIs(t, "resume", err, lost)
	if result, _, err := c.Resume(t.Context(), p); err != nil || result == nil {
		t.Errorf("got %v, %v", result, err)
	}
	a, b := peer.requests()[1], peer.requests()[2]
	if string(a.Params) != string(b.Params) || a.ID == b.ID {
		t.Errorf("got %s %s and %s %s", a.ID, a.Params, b.ID, b.Params)
	}
}

type choice struct {
	Value string `json:"value"`
}

type provision struct {
	Name string `json:"name"`
}

func provisionHandler(ctx context.Context, _ *server.ToolCall,
	in provision) (protocol.CallToolOutcome, error) {
	region, ok := roundtrip.AcceptedContent[choice](ctx, "region")
	if !ok {
		return roundtrip.InputRequired(roundtrip.Elicit[choice]("region", "Which region?")), nil
	}
	size, ok := roundtrip.AcceptedContent[choice](ctx, "size")
	if !ok {
		return roundtrip.InputRequired(roundtrip.Elicit[choice]("size", "How big?")), nil
	}
	return server.Text(in.Name + " in " + region.Value + ", " + size.Value), nil
}

func ExampleClient_Begin() {
	s, err := server.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	server.AddTool(s, server.Tool{Name: "provision", Description: "makes a database"},
		provisionHandler)
	opts := &client.Options{
		Manual: &protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}},
	}

	// A web server takes the order and stores the questions.
	first, err := client.New(s, opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, pending, err := first.Begin(context.Background(), &protocol.CallToolParams{
		Name: "provision", Arguments: json.RawMessage(`{"name":"db"}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	stored, err := json.Marshal(pending)
	if err != nil {
		fmt.Println(err)
		return
	}

	// Another server answers them hours later, and so on until there is a result.
	answers := map[string]string{"region": "eu", "size": "xl"}
	for {
		second, err := client.New(s, opts)
		if err != nil {
			fmt.Println(err)
			return
		}
		var pending client.Pending
		if err := json.Unmarshal(stored, &pending); err != nil {
			fmt.Println(err)
			return
		}
		for _, q := range pending.Questions() {
			fmt.Println(q.Request.(*protocol.ElicitForm).Message)
			content, err := client.Accept(map[string]string{"value": answers[q.Key]})
			if err == nil {
				err = pending.Answer(q.Key, content)
			}
			if err != nil {
				fmt.Println(err)
				return
			}
		}
		result, next, err := second.Resume(context.Background(), &pending)
		if err != nil {
			fmt.Println(err)
			return
		}
		if next == nil {
			fmt.Println(result.(*protocol.CallToolResult).Content[0].(*protocol.TextContent).Text)
			return
		}
		if stored, err = json.Marshal(next); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// Which region?
	// How big?
	// db in eu, xl
}
