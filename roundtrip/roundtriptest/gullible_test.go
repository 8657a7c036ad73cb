package roundtriptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/server"
)

// The type gullible is a naive server: it trusts the client's data, and decodes it leniently.
type gullible struct{ effects *roundtriptest.Effects }

func (g gullible) Handle(_ context.Context, req *protocol.Request,
	_ protocol.Back) (*protocol.Response, error) {
	var params struct {
		Arguments      Deploy
		InputResponses map[string]json.RawMessage
		RequestState   *string
	}
	result := `{"resultType":"input_required","requestState":"c3RhdGU","inputRequests":{"confirm":{"method":"elicitation/create",` +
		`"params":{"mode":"form","message":"Deploy?","requestedSchema":{"type":"object","properties":{"reason":{"type":"string"}},"required":["reason"]}}}}}`
	switch err := json.Unmarshal(req.Params, &params); {
	case req.Method == protocol.MethodListTools:
		result = `{"resultType":"complete","tools":[{"name":"deploy","inputSchema":{"type":"object"}},{"name":"other","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}`
	case err != nil:
		return &protocol.Response{ID: req.ID,
			Error: protocol.Errorf(protocol.CodeInvalidParams, "no")}, nil
	}
	for _, raw := range params.InputResponses {
		if strings.Contains(strings.ToLower(string(raw)), "accept") {
			g.effects.Mark("deploy")
			result = `{"resultType":"complete","content":[{"type":"text","text":"deployed"}]}`
		} else if strings.Contains(string(raw), "roots") || string(raw) == "null" ||
			strings.Contains(string(raw), "decline") {
			g.effects.Mark("deploy")
		}
	}
	return &protocol.Response{ID: req.ID, Result: json.RawMessage(result)}, nil
}

func (gullible) Notify(context.Context, *protocol.Notification) error { return nil }
func (gullible) Close() error                                         { return nil }

// TestGullible: every attack on this server succeeds, and is reported.
func TestGullible(t *testing.T) {
	effects := &roundtriptest.Effects{}
	subject := roundtriptest.Subject{
		Connect: func(testing.TB, string) protocol.Peer { return gullible{effects} },
		Effects: effects, TwoUsers: true, SingleUse: true, Later: func(time.Duration) {},
		Eras: []protocol.Era{protocol.Modern},
	}
	flow := roundtriptest.Flow{
		Request: roundtriptest.Tool("deploy", Deploy{"prod"}), Want: "deployed",
		Answers: roundtriptest.Answers{"confirm": because("tested")},
	}
	for _, name := range roundtriptest.AttackNames() {
		problems, why := roundtriptest.RunAttack(t, subject, flow, name)
		if why != "" {
			t.Errorf("%s: %s", name, why)
		}
		if len(problems) == 0 {
			t.Errorf("%s: nothing was found wrong", name)
		}
	}
	if n := len(roundtriptest.AttackNames()); n != 14 {
		t.Errorf("%d attacks, want 14", n)
	}
}

// A gullibleOfModels is a gullible server that asks the client's model.
type gullibleOfModels struct{ gullible }

func (g gullibleOfModels) Handle(_ context.Context, req *protocol.Request,
	_ protocol.Back) (*protocol.Response, error) {
	result := `{"resultType":"input_required","requestState":"c3RhdGU","inputRequests":{"title":{"method":"sampling/createMessage",` +
		`"params":{"maxTokens":9,"messages":[{"role":"user","content":{"type":"text","text":"A title?"}}]}}}}`
	if strings.Contains(string(req.Params), "inputResponses") {
		g.effects.Mark("publish")
		result = `{"resultType":"complete","content":[{"type":"text","text":"published"}]}`
	}
	if req.Method == protocol.MethodListTools {
		result = `{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`
	}
	return &protocol.Response{ID: req.ID, Result: json.RawMessage(result)}, nil
}

// Flows that end with a model's answer are attacked, except by attacks that need an accept.
func TestGullibleOfModels(t *testing.T) {
	effects := &roundtriptest.Effects{}
	subject := roundtriptest.Subject{
		Connect: func(testing.TB, string) protocol.Peer {
			return gullibleOfModels{gullible{effects}}
		},
		Effects: effects, TwoUsers: true, SingleUse: true, Later: func(time.Duration) {},
	}
	flow := roundtriptest.Flow{
		Request: roundtriptest.Tool("publish", nil), Want: "published",
		Answers: roundtriptest.Answers{"title": roundtriptest.Sampled("Rondo")},
	}
	for _, name := range roundtriptest.AttackNames() {
		problems, why := roundtriptest.RunAttack(t, subject, flow, name)
		skipped := name == "refuse" || name == "smuggle" || name == "wrong content"
		if skipped != (why != "") {
			t.Errorf("%s: skipped because of %q", name, why)
		} else if !skipped && len(problems) == 0 {
			t.Errorf("%s: nothing was found wrong", name)
		}
	}
}

// TestIgnoredRefusal: a tool that goes on after a refusal is found in both eras, by its result or
// by an effect, and the report names the cause.
func TestIgnoredRefusal(t *testing.T) {
	effects := &roundtriptest.Effects{}
	srv := newServer(t, effects, roundtrip.Options{})
	careless := func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		_, err := roundtrip.Ask[Confirmation](ctx, "confirm", "Charge?")
		switch {
		case ctx.Err() != nil: // there is no answer yet
			return nil, err
		case call.Name == "acts":
			effects.Mark("charge")
			return server.Text("charged"), err
		}
		return server.Text("charged"), nil
	}
	for _, name := range []string{"completes", "acts"} {
		server.AddRawTool(srv, server.Tool{Name: name}, careless)
	}
	subject := roundtriptest.Subject{Connect: overLines(srv), Effects: effects}
	for name, want := range map[string]string{"completes": "got charged",
		"acts": "these effects happened: charge"} {
		flow := roundtriptest.Flow{Request: roundtriptest.Tool(name, nil),
			Want: "charged", Answers: roundtriptest.Answers{"confirm": because("tested")}}
		problems, _ := roundtriptest.RunAttack(t, subject, flow, "refuse")
		text := errors.Join(problems...).Error()
		if len(problems) != 4 || strings.Count(text, want) != 4 || !strings.Contains(text,
			`decline of question "confirm" in a session: the tool goes on as if`) {
			t.Errorf("%s: %v", name, problems)
		}
		if _, why := roundtriptest.RunAttack(t, subject, flow, "refuse", "smuggle"); why == "" {
			t.Errorf("%s: smuggle reports it once more", name)
		}
		flow.Answers["confirm"] = because("tested").Optional()
		if _, why := roundtriptest.RunAttack(t, subject, flow, "refuse"); why == "" {
			t.Errorf("%s: an optional question was refused", name)
		}
	}
}

// TestEffectThatNeverHappens: a misspelt name in Never cannot pass unnoticed.
func TestEffectThatNeverHappens(t *testing.T) {
	effects := &roundtriptest.Effects{}
	srv := newServer(t, effects, roundtrip.Options{})
	subject := roundtriptest.Subject{Connect: overLines(srv), Effects: effects}
	accept, decline := flows()[0], flows()[1]
	roundtriptest.FindProblems(t, subject, decline)
	if roundtriptest.CheckNever(subject, decline) == nil {
		t.Error("no flow has had the effect, and nothing says so")
	}
	roundtriptest.FindProblems(t, subject, accept)
	roundtriptest.FindProblems(t, subject, decline)
	if err := roundtriptest.CheckNever(subject, decline); err != nil {
		t.Errorf("a flow has had the effect: %v", err)
	}
}

// An instant refusal over a connection counts as unseen; the finding names the option to set.
func TestRefusalAtOnce(t *testing.T) {
	subject := roundtriptest.Subject{
		Connect: overHTTP(t, newServer(t, &roundtriptest.Effects{}, roundtrip.Options{}))}
	problems := errors.Join(roundtriptest.FindProblems(t, subject, roundtriptest.Flow{
		Request: roundtriptest.Tool("order", Deploy{"prod"}), Fails: "declined: region",
		Answers: roundtriptest.Answers{"region": roundtriptest.Decline()}})...)
	if problems == nil || !strings.Contains(problems.Error(), "MinHumanTime of the server to -1") {
		t.Error(problems)
	}
}

func TestSkippedAttacks(t *testing.T) {
	effects := &roundtriptest.Effects{}
	srv := newServer(t, effects, roundtrip.Options{})
	for name, field := range map[string]string{"other user": "TwoUsers", "expire": "Later",
		"replay": "SingleUse", "fork": "SingleUse", "smuggle": "Lossy"} {
		subject := roundtriptest.Subject{Connect: overLines(srv), Lossy: true}
		if _, why := roundtriptest.RunAttack(t, subject, flows()[0], name); !strings.Contains(why,
			"Subject."+field) {
			t.Errorf("%s: skipped because %q, want Subject.%s", name, why, field)
		}
	}
}

func TestFindings(t *testing.T) {
	effects := &roundtriptest.Effects{}
	deploy := roundtriptest.Tool("deploy", Deploy{"prod"})
	accepted := roundtriptest.Answers{"confirm": because("tested")}
	tests := []struct {
		name, want string
		flow       roundtriptest.Flow
	}{
		{"another result", `got "deployed to prod: tested", want "done"`,
			roundtriptest.Flow{Request: deploy,
				Answers: accepted, Want: "done"}},
		{"no failure", "want an error",
			roundtriptest.Flow{Request: deploy, Answers: accepted, Fails: "no"}},
		{"another failure", `want an error that says "disk"`,
			roundtriptest.Flow{Request: roundtriptest.Tool("nowhere", nil), Fails: "disk"}},
		{"a question without an answer", `question "confirm" has no answer`,
			roundtriptest.Flow{Request: deploy}},
		{"an answer without a question", `question "twice" was not asked`,
			roundtriptest.Flow{Request: deploy,
				Answers: roundtriptest.Answers{"confirm": because("tested"),
					"twice": roundtriptest.Decline()}}},
		{"a misspelt answer", `answers to ["confrim"], which was not asked`,
			roundtriptest.Flow{Request: deploy,
				Answers: roundtriptest.Answers{"confrim": because("tested")}}},
		{"an answer that does not fit", `question "region" was asked again after the answer {"ac`,
			roundtriptest.Flow{Request: roundtriptest.Tool("order", Deploy{"prod"}),
				Answers: roundtriptest.Answers{"region": roundtriptest.Accept(Region{"moon"}),
					"sure": because("tested")}}},
		{"an answer that has no JSON", `answer to "confirm"`,
			roundtriptest.Flow{Request: deploy,
				Answers: roundtriptest.Answers{"confirm": roundtriptest.Accept(func() {})}}},
		{"an effect in every round", `the effect "charge" happened 2 times`,
			roundtriptest.Flow{Request: roundtriptest.Tool("repeats", nil),
				Answers: accepted, Want: "charged"}},
		{"an effect that must not be", `the effect "deploy" happened, which it must not`,
			roundtriptest.Flow{Request: deploy,
				Answers: accepted, Want: "deployed to prod: tested", Never: []string{"deploy"}}},
		{"no request", "use Tool, Prompt or Resource", roundtriptest.Flow{}},
		{"eras that differ", "the eras answer differently",
			roundtriptest.Flow{Request: roundtriptest.Tool("moody", nil), Answers: accepted,
				Want: "modern"}},
		{"eras that ask differently", "what revision 2026-07-28 is not",
			roundtriptest.Flow{Request: roundtriptest.Tool("nosy", nil), Answers: accepted,
				Want: "asked"}},
		{"no end", "has not ended after 20 legs",
			roundtriptest.Flow{Request: roundtriptest.Tool("endless", nil), Answers: accepted,
				Want: "asked"}},
	}
	srv := newServer(t, effects, roundtrip.Options{Limits: roundtrip.Limits{Rounds: 100}})
	era := func(call *server.ToolCall) string { return string(call.Version) }
	server.AddRawTool(srv, server.Tool{Name: "moody"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			if _, ok := confirm.AcceptedContent(ctx); !ok {
				return roundtrip.InputRequired(confirm.Elicit("Sure?")), nil
			}
			if era(call) < string(protocol.V20260728) {
				return server.Text("legacy"), nil
			}
			return server.Text("modern"), nil
		})
	server.AddRawTool(srv, server.Tool{Name: "nosy"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			if _, ok := confirm.AcceptedContent(ctx); !ok {
				return roundtrip.InputRequired(confirm.Elicit("Sure, " + era(call) + "?")), nil
			}
			return server.Text("asked"), nil
		})
	server.AddRawTool(srv, server.Tool{Name: "endless"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			return roundtrip.InputRequired(confirm.Elicit("Still sure?", roundtrip.AskAgain())), nil
		})
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			subject := roundtriptest.Subject{Connect: overLines(srv), Effects: effects}
			problems := roundtriptest.FindProblems(t, subject, tc.flow)
			if !slices.ContainsFunc(problems,
				func(err error) bool { return strings.Contains(err.Error(), tc.want) }) {
				t.Errorf("%s: got %v, want %q", tc.name, problems, tc.want)
			}
		})
	}
	nothingCounted := roundtriptest.Flow{Request: roundtriptest.Tool("deploy", Deploy{"prod"}),
		Answers: accepted, Want: "deployed to prod: tested", Never: []string{"order"}}
	if problems := roundtriptest.FindProblems(t, roundtriptest.Subject{Connect: overLines(srv)},
		nothingCounted); len(problems) == 0 ||
		!strings.Contains(errors.Join(problems...).Error(), "Subject.Effects") {
		t.Errorf("effects that nothing counts: %v", errors.Join(problems...))
	}
	if problems := roundtriptest.FindProblems(t, roundtriptest.Subject{},
		tests[0].flow); len(problems) != 1 {
		t.Errorf("a subject without Connect: %v", errors.Join(problems...))
	}
}

func TestUnfit(t *testing.T) {
	effects := &roundtriptest.Effects{}
	srv := newServer(t, effects, roundtrip.Options{})
	for name, flow := range map[string]roundtriptest.Flow{
		"declined": flows()[1], "fails": flows()[5],
		"asks nothing": {Request: roundtriptest.Tool("nowhere", nil), Fails: "nowhere"},
	} {
		if err := roundtriptest.CheckFlow(t,
			roundtriptest.Subject{Connect: overLines(srv), Effects: effects}, flow); err == nil {
			t.Errorf("%s: the flow was taken", name)
		}
	}
}

// TestAnswersOfTheWrongKind: the finding names both kinds, even for a correction.
func TestAnswersOfTheWrongKind(t *testing.T) {
	srv := newServer(t, nil, roundtrip.Options{})
	server.AddRawTool(srv, server.Tool{Name: "visits"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text("been there"), roundtrip.AskURL(ctx, "page", "Look.",
				"https://example.com/")
		})
	server.AddRawTool(srv, server.Tool{Name: "lists"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			_, err := roundtrip.AskRoots(ctx, "dirs")
			return server.Text("listed"), err
		})
	form := func(a roundtriptest.Answer) roundtriptest.Flow {
		return roundtriptest.Flow{Request: roundtriptest.Tool("deploy", Deploy{"prod"}),
			Answers: roundtriptest.Answers{"confirm": a}}
	}
	visit := func(a roundtriptest.Answer) roundtriptest.Flow {
		return roundtriptest.Flow{Request: roundtriptest.Tool("visits", nil),
			Answers: roundtriptest.Answers{"page": a}, Want: "been there"}
	}
	sample := func(a roundtriptest.Answer) roundtriptest.Flow {
		return roundtriptest.Flow{Request: roundtriptest.Prompt("brief", nil),
			Answers: roundtriptest.Answers{"title": a}}
	}
	list := func(a roundtriptest.Answer) roundtriptest.Flow {
		return roundtriptest.Flow{Request: roundtriptest.Tool("lists", nil),
			Answers: roundtriptest.Answers{"dirs": a}, Want: "listed"}
	}
	const (
		forForm   = `question "confirm" is of the kind elicitation.form, its answer for `
		forVisit  = `question "page" is of the kind elicitation.url, its answer for `
		forSample = `question "title" is of the kind sampling, its answer for `
		forList   = `question "dirs" is of the kind roots, its answer for `
		refused   = "elicitation.form or elicitation.url"
	)
	wrong := because("").Then(roundtriptest.Sampled("x"))
	for name, tt := range map[string]struct {
		flow roundtriptest.Flow
		want string
	}{
		"sampled for a form":    {form(roundtriptest.Sampled("x")), forForm + "sampling"},
		"visit for a form":      {form(roundtriptest.Visit()), forForm + "elicitation.url"},
		"roots for a form":      {form(roundtriptest.Roots()), forForm + "roots"},
		"sampled in the end":    {form(wrong), forForm + "sampling"},
		"accepted for a visit":  {visit(because("x")), forVisit + "elicitation.form"},
		"accepted for sampling": {sample(because("x")), forSample + "elicitation.form"},
		"declined for sampling": {sample(roundtriptest.Decline()), forSample + refused},
		"cancelled for roots":   {list(roundtriptest.Cancel()), forList + refused},
	} {
		t.Run(name, func(t *testing.T) {
			problems := roundtriptest.FindProblems(t,
				roundtriptest.Subject{Connect: overLines(srv)}, tt.flow)
			if len(problems) != 1 || !strings.Contains(problems[0].Error(), tt.want) {
				t.Errorf("got %v, want %q", problems, tt.want)
			}
		})
	}
	for name, flow := range map[string]roundtriptest.Flow{
		"visit": visit(roundtriptest.Visit()),
		"roots": list(roundtriptest.Roots("file:///src")),
	} {
		if problems := roundtriptest.FindProblems(t,
			roundtriptest.Subject{Connect: overLines(srv)}, flow); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestAcceptWithoutContent(t *testing.T) {
	type size struct {
		N int `json:"n" default:"3"`
	}
	srv := newServer(t, nil, roundtrip.Options{})
	server.AddRawTool(srv, server.Tool{Name: "size"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			s, err := roundtrip.Ask[size](ctx, "size", "How large?")
			return server.Text(strings.Repeat("x", s.N)), err
		})
	problems := roundtriptest.FindProblems(t, roundtriptest.Subject{Connect: overLines(srv)},
		roundtriptest.Flow{Request: roundtriptest.Tool("size", nil), Want: "xxx",
			Answers: roundtriptest.Answers{"size": roundtriptest.Accept(nil)}})
	if len(problems) > 0 {
		t.Error(problems)
	}
}
