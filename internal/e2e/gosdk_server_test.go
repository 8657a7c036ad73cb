package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

type serverBug = roundtrip.ServerBug

// returns registers a tool, a prompt and a resource whose handlers all return the same.
func returns(build func() (*protocol.InputRequiredResult, error)) func(*server.Server) {
	return func(srv *server.Server) {
		server.AddRawTool(srv, server.Tool{Name: "x"}, func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
			return outcome[protocol.CallToolOutcome](build())
		})
		server.AddToolOut(srv, server.Tool{Name: "typed"}, func(context.Context, *server.ToolCall, struct{}) (database, error) {
			asks, err := build()
			if err == nil {
				err = &server.InputRequiredError{Result: asks}
			}
			return database{Region: "nowhere"}, err
		})
		server.AddPrompt(srv, server.Prompt{Name: "x"}, func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return outcome[protocol.GetPromptOutcome](build())
		})
		server.AddResource(srv, server.Resource{URI: "test:x", Name: "x"}, func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return outcome[protocol.ReadResourceOutcome](build())
		})
	}
}

func outcome[O protocol.Result](asks *protocol.InputRequiredResult, err error) (O, error) {
	if err != nil {
		var none O
		return none, err
	}
	return protocol.Result(asks).(O), nil
}

func asking(items ...roundtrip.Item) func() (*protocol.InputRequiredResult, error) {
	return func() (*protocol.InputRequiredResult, error) { return roundtrip.InputRequired(items...), nil }
}

// styles are requests to what returns registers.
var styles = []struct {
	name string
	leg  leg
}{
	{"tool", leg{target: "x"}},
	{"typed tool", leg{target: "typed"}},
	{"prompt", leg{method: "prompts/get", target: "x"}},
	{"resource", leg{method: "resources/read", target: "test:x"}},
}

func eachStyle(t *testing.T, build func() (*protocol.InputRequiredResult, error), check func(*testing.T, *wire, leg)) {
	for _, s := range styles {
		t.Run(s.name, func(t *testing.T) { check(t, newWire(t, returns(build)), s.leg) })
	}
}

// Defect: a result with a state and no question went out as complete, with empty content.
func TestG01StateOnlyIsNotComplete(t *testing.T) {
	eachStyle(t, asking(roundtrip.WithState(1)), func(t *testing.T, w *wire, l leg) { w.send(l).wantAsked() })
}

// Defect: a typed tool's state-only result became complete with structured content of zero values.
func TestG02TypedStateOnlyHasNoStructuredContent(t *testing.T) {
	w := newWire(t, returns(asking(roundtrip.WithState(1))))
	if r := w.send(leg{target: "typed"}).wantAsked(); r.result["structuredContent"] != nil || r.result["content"] != nil {
		t.Errorf("got %s", r.body)
	}
}

// Defect: an empty map of questions without a state went out as input_required with neither.
func TestG03EmptyQuestionsAreABug(t *testing.T) {
	for name, empty := range map[string]*protocol.InputRequiredResult{
		"nil": {}, "empty": {InputRequests: protocol.InputRequests{}},
	} {
		t.Run(name, func(t *testing.T) {
			build := func() (*protocol.InputRequiredResult, error) { return empty, nil }
			eachStyle(t, build, func(t *testing.T, w *wire, l leg) { w.wantBug(w.send(l), "at least one") })
		})
	}
}

// Defect: questions went out to clients that had not declared that they can be asked them.
func TestG04QuestionsAreGated(t *testing.T) {
	tools := sampling()
	tools.ToolChoice = &protocol.ToolChoice{Mode: "auto"}
	form := roundtrip.Elicit[confirmation]("q", "?")
	url := roundtrip.ElicitURL("q", "?", "https://example.com/")
	for _, test := range []struct {
		name     string
		question roundtrip.Question
		caps     string
		want     string // the capabilities that are missing, empty when the question may be asked
	}{
		{"form to nothing", form, `{}`, `{"elicitation":{"form":{}}}`},
		{"form to url", form, `{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{}}}`},
		{"form to empty", form, `{"elicitation":{}}`, ``},
		{"form to both", form, `{"elicitation":{"form":{},"url":{}}}`, ``},
		{"url to nothing", url, `{}`, `{"elicitation":{"url":{}}}`},
		{"url to form", url, `{"elicitation":{"form":{}}}`, `{"elicitation":{"url":{}}}`},
		{"url to empty", url, `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`},
		{"sampling to nothing", roundtrip.CreateMessage("q", sampling()), `{}`, `{"sampling":{}}`},
		{"sampling", roundtrip.CreateMessage("q", sampling()), `{"sampling":{}}`, ``},
		{"tools to sampling", roundtrip.CreateMessage("q", tools), `{"sampling":{}}`, `{"sampling":{"tools":{}}}`},
		{"roots to nothing", roundtrip.ListRoots("q"), `{}`, `{"roots":{}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachStyle(t, asking(test.question), func(t *testing.T, w *wire, l leg) {
				l.caps = test.caps
				r := w.send(l)
				if test.want == "" {
					r.wantAsked("q")
					return
				}
				r.wantError(http.StatusBadRequest, protocol.CodeMissingRequiredClientCapability)
				if want := `{"requiredCapabilities":` + test.want + `}`; r.err != nil && string(r.err.Data) != want {
					t.Errorf("got data %s, want %s", r.err.Data, want)
				}
			})
		})
	}
	t.Run("all at once", func(t *testing.T) {
		r := newWire(t, nil).send(leg{target: "survey", caps: `{"roots":{}}`}).wantError(http.StatusBadRequest, protocol.CodeMissingRequiredClientCapability)
		want := `{"requiredCapabilities":{"elicitation":{"form":{},"url":{}},"sampling":{}}}`
		if r.err != nil && string(r.err.Data) != want {
			t.Errorf("got data %s, want %s", r.err.Data, want)
		}
	})
}

// Defect: content, messages or contents, as null, stood in every result that required input.
func TestG05NothingBesideQuestions(t *testing.T) {
	eachStyle(t, asking(roundtrip.ListRoots("q")), func(t *testing.T, w *wire, l leg) {
		r := w.send(l).wantAsked("q") // which has looked at the members
		for _, name := range []string{"content", "structuredContent", "messages", "contents", "isError"} {
			if r.result[name] != nil {
				t.Errorf("got %s", r.body)
			}
		}
	})
}

// Defect: isError stood beside questions. Here no value says both; one that is forged by embedding is a bug.
func TestG06NoErrorBesideQuestions(t *testing.T) {
	type forged struct {
		*protocol.CallToolResult
		InputRequests protocol.InputRequests
	}
	w := newWire(t, func(srv *server.Server) {
		server.AddRawTool(srv, server.Tool{Name: "forged"}, func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
			return forged{server.ErrorText("no"), protocol.InputRequests{{Key: "q", Request: &protocol.ListRoots{}}}}, nil
		})
	})
	w.wantBug(w.send(leg{target: "forged"}), "wrong result")
}

// Defect: a question that could not be encoded left the request without a response until the client gave up.
func TestG07UnencodableQuestionsAreAnswered(t *testing.T) {
	for _, test := range []struct {
		name    string
		request protocol.InputRequest
	}{
		{"nil", nil},
		{"typed nil form", (*protocol.ElicitForm)(nil)},
		{"typed nil url", (*protocol.ElicitURL)(nil)},
		{"typed nil sampling", (*protocol.CreateMessage)(nil)},
		{"typed nil roots", (*protocol.ListRoots)(nil)},
		{"form without schema", &protocol.ElicitForm{Message: "?"}},
		{"form with half a schema", &protocol.ElicitForm{Message: "?", Schema: raw(`{"type":`)}},
		{"form with a list as schema", &protocol.ElicitForm{Message: "?", Schema: raw(`[]`)}},
		{"url without url", &protocol.ElicitURL{Message: "?"}},
		{"nil block", &protocol.CreateMessage{MaxTokens: 1, Messages: []protocol.SamplingMessage{{Role: protocol.User, Content: []protocol.Content{nil}}}}},
		{"no role", &protocol.CreateMessage{MaxTokens: 1, Messages: []protocol.SamplingMessage{{Content: []protocol.Content{&protocol.TextContent{}}}}}},
		{"half an object as metadata", &protocol.CreateMessage{MaxTokens: 1, Metadata: raw(`{"a"`)}},
		{"_meta is a list", &protocol.ListRoots{Meta: protocol.Meta(`[]`)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			build := func() (*protocol.InputRequiredResult, error) {
				return &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{{Key: "c", Request: test.request}}}, nil
			}
			eachStyle(t, build, func(t *testing.T, w *wire, l leg) { w.wantBug(w.send(l), "") })
		})
	}
}

// Defect: a handler's URL elicitation error left as -32042, which does not exist in this revision.
func TestG08URLErrorBecomesQuestions(t *testing.T) {
	build := func() (*protocol.InputRequiredResult, error) {
		return nil, &protocol.URLElicitationRequiredError{Elicitations: []*protocol.ElicitURL{
			{Message: "Sign in", URL: "https://example.com/a", ElicitationID: "login"}}}
	}
	eachStyle(t, build, func(t *testing.T, w *wire, l leg) {
		r := w.send(l).wantAsked("login")
		if strings.Contains(string(r.body), "elicitationId") || strings.Contains(string(r.body), "-32042") {
			t.Errorf("got %s", r.body)
		}
	})
	t.Run("the code itself", func(t *testing.T) {
		build := func() (*protocol.InputRequiredResult, error) {
			return nil, protocol.Errorf(protocol.CodeURLElicitationRequired, "go there")
		}
		eachStyle(t, build, func(t *testing.T, w *wire, l leg) { w.wantBug(w.send(l), "-32042") })
	})
}

// Defect: answers that were unknown, wrapped or null, and a state that was no string, made the whole request -32020.
func TestG09UnusableAnswersAreDropped(t *testing.T) {
	w := newWire(t, nil)
	deploy := leg{target: "deploy", args: `{"env":"prod"}`}
	for name, answers := range map[string]string{
		"none":         `{}`,
		"unknown":      `{"other":{"action":"accept","content":{"reason":"because"}}}`,
		"null":         `{"confirm":null}`,
		"text":         `{"confirm":"accept"}`,
		"list":         `{"confirm":[{"action":"accept"}]}`,
		"wrapped":      `{"confirm":{"method":"elicitation/create","result":{"action":"accept","content":{"reason":"because"}}}}`,
		"as a result":  `{"confirm":{"result":{"action":"accept","content":{"reason":"because"}}}}`,
		"other's kind": `{"confirm":{"roots":[]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, nil)
			w.answers(deploy, answers).wantAsked("confirm")
		})
	}
	t.Run("beside a good one", func(t *testing.T) {
		w.t = t
		w.answers(deploy, `{"other":null,"confirm":{"action":"accept","content":{"reason":"because"}},"":{}}`).wantText("deployed to prod: because")
	})
	for _, state := range []string{`1`, `null`, `{}`, `["x"]`, `true`} {
		t.Run("state "+state, func(t *testing.T) {
			w.t = t
			l := deploy
			l.more = `"requestState":` + state
			w.send(l).wantError(http.StatusBadRequest, protocol.CodeInvalidParams)
		})
	}
}

// Defect: a resource that asked was cacheable, by everybody.
func TestG10NoCacheHintsBesideQuestions(t *testing.T) {
	r := newWire(t, nil).send(leg{method: "resources/read", target: "vault://codes"}).wantAsked("confirm")
	if r.result["ttlMs"] != nil || r.result["cacheScope"] != nil {
		t.Errorf("got %s", r.body)
	}
}

// Defect: a resource's state-only result became an error with code 0.
func TestG11ResourceStateOnly(t *testing.T) {
	w := newWire(t, returns(asking(roundtrip.WithState("here"))))
	w.send(leg{method: "resources/read", target: "test:x"}).wantAsked()
}

// Defect: answers were not held against the schema that was asked with; anything reached the handler.
func TestG12AnswersAreValidated(t *testing.T) {
	deploy := leg{target: "deploy", args: `{"env":"prod"}`}
	for name, content := range map[string]string{
		"missing":       `{}`,
		"wrong type":    `{"reason":1}`,
		"null":          `{"reason":null}`,
		"too short":     `{"reason":"no"}`,
		"nested":        `{"reason":{"a":"because"}}`,
		"case":          `{"Reason":"because"}`,
		"not an object": `["because"]`,
		"text":          `"because"`,
	} {
		t.Run(name, func(t *testing.T) {
			newWire(t, nil).answers(deploy, `{"confirm":{"action":"accept","content":`+content+`}}`).wantAsked("confirm")
		})
	}
	for name, content := range map[string]string{
		"over the maximum": `{"cores":65,"spare":true}`, "fraction": `{"cores":1.5}`, "1e999": `{"cores":1e999}`,
		"text": `{"cores":"8"}`, "2^63": `{"cores":9223372036854775808}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, nil)
			first := w.answers(leg{target: "wizard"}, `{"region":{"action":"accept","content":{"name":"eu"}}}`).wantAsked("size")
			w.send(leg{target: "wizard", more: first.answered(`{"size":{"action":"accept","content":` + content + `}}`)}).wantAsked("size")
		})
	}
	t.Run("not one of the choices", func(t *testing.T) {
		newWire(t, nil).answers(leg{target: "wizard"}, `{"region":{"action":"accept","content":{"name":"Europe"}}}`).wantAsked("region")
	})
	t.Run("not an address", func(t *testing.T) {
		l := leg{method: "prompts/get", target: "brief", args: `{"topic":"x"}`}
		newWire(t, nil).answers(l, `{"contact":{"action":"accept","content":{"email":"nobody"}}}`).wantAsked("contact")
	})
}

// Defect: an accept without content passed although the form has required fields.
func TestG13AcceptWithoutContent(t *testing.T) {
	newWire(t, nil).answers(leg{target: "deploy", args: `{"env":"prod"}`}, `{"confirm":{"action":"accept"}}`).wantAsked("confirm")
	t.Run("all have defaults", func(t *testing.T) {
		w := newWire(t, nil)
		first := w.answers(leg{target: "wizard"}, `{"region":{"action":"accept","content":{"name":"eu"}}}`).wantAsked("size")
		w.send(leg{target: "wizard", more: first.answered(`{"size":{"action":"accept"}}`)}).wantAsked("contact")
	})
}

// Defect: members were matched whatever their case, the last one counting: a gateway that reads "action" saw a decline, the
// handler an accept.
func TestG14NoSmugglingByCase(t *testing.T) {
	deploy := leg{target: "deploy", args: `{"env":"prod"}`}
	content := `"content":{"reason":"because"}`
	for _, test := range []struct{ name, answer, want string }{
		{"decline and Accept", `{"action":"decline","Action":"accept",` + content + `}`, "left prod alone: declined"},
		{"Accept and decline", `{"ACTION":"accept","action":"decline",` + content + `}`, "left prod alone: declined"},
		{"accept and Decline", `{"action":"accept","Action":"decline",` + content + `}`, "deployed to prod: because"},
		{"kelvin sign", `{"action":"cancel","a\u212Action":"accept",` + content + `}`, "left prod alone: cancelled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			newWire(t, nil).answers(deploy, `{"confirm":`+test.answer+`}`).wantText(test.want)
		})
	}
	for _, answer := range []string{`{"ACTION":"accept",` + content + `}`, `{"action":"accept","Content":{"reason":"because"}}`} {
		t.Run(answer, func(t *testing.T) {
			newWire(t, nil).answers(deploy, `{"confirm":`+answer+`}`).wantAsked("confirm")
		})
	}
	for name, answers := range map[string]string{
		"action twice":         `{"confirm":{"action":"decline","action":"accept",` + content + `}}`,
		"action twice, hidden": `{"confirm":{"action":"decline","\u0061ction":"accept",` + content + `}}`,
		"answer twice":         `{"confirm":{"action":"decline"},"confirm":{"action":"accept",` + content + `}}`,
		"field twice":          `{"confirm":{"action":"accept","content":{"reason":"because","reason":"why not"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, nil)
			asked := w.send(deploy)
			l := deploy
			l.more = asked.answered(answers)
			body := `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` + l.params() + `}`
			w.post(body, "", "tools/call", "deploy").wantError(http.StatusBadRequest, protocol.CodeParseError)
		})
	}
}

// Defect: an action that does not exist was taken as an answer.
func TestG15UnknownActions(t *testing.T) {
	for _, action := range []string{`"bogus"`, `""`, `"Accept"`, `"accept "`, `null`, `true`, `["accept"]`} {
		t.Run(action, func(t *testing.T) {
			answers := `{"confirm":{"action":` + action + `,"content":{"reason":"because"}}}`
			newWire(t, nil).answers(leg{target: "deploy", args: `{"env":"prod"}`}, answers).wantAsked("confirm")
		})
	}
}

// Defect: what kind an answer is was guessed from its members; a further one turned an accept into a list of roots.
func TestG16TheQuestionDecidesTheKind(t *testing.T) {
	extra := `"roots":[],"role":"user","model":"m","_meta":{}`
	newWire(t, nil).answers(leg{target: "deploy", args: `{"env":"prod"}`},
		`{"confirm":{`+extra+`,"action":"accept","content":{"reason":"because"}}}`).wantText("deployed to prod: because")
	newWire(t, nil).answers(leg{target: "tidy"}, `{"dirs":{"action":"accept","content":{},"roots":[{"uri":"file:///a"}]}}`).wantText("1 directories")
	newWire(t, nil).answers(leg{target: "tidy"}, `{"dirs":{"action":"accept","content":{}}}`).wantAsked("dirs")
}

// Defect: the documented way to read an answer ended the process when a person declined, and there was no recover.
func TestG17NoAnswerEndsTheProcess(t *testing.T) {
	type answer struct {
		Name string `json:"name"`
	}
	w := newWire(t, func(srv *server.Server) {
		// As in that documentation: whatever was answered is read without looking.
		server.AddRawTool(srv, server.Tool{Name: "greet"}, func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			if roundtrip.Number(ctx) == 1 {
				return roundtrip.InputRequired(roundtrip.Elicit[answer]("user_name", "Who?")), nil
			}
			return server.Text("hello " + roundtrip.Answer[answer](ctx, "user_name").Content.Name), nil
		})
		server.AddRawTool(srv, server.Tool{Name: "careless"}, func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			var content map[string]any
			_ = json.Unmarshal(roundtrip.RawAnswer(ctx, "user_name").Content, &content)
			return server.Text("hello " + content["name"].(string)), nil
		})
	})
	for name, answers := range map[string]string{
		"decline":       `{"user_name":{"action":"decline"}}`,
		"cancel":        `{"user_name":{"action":"cancel"}}`,
		"unrelated":     `{"other":{"action":"accept","content":{"name":"Ada"}}}`,
		"other kind":    `{"user_name":{"role":"assistant","model":"m","content":{"type":"text","text":"Ada"}}}`,
		"not a string":  `{"user_name":{"action":"accept","content":{"name":7}}}`,
		"no content":    `{"user_name":{"action":"accept"}}`,
		"nothing there": `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.answers(leg{target: "greet"}, answers).wantText("hello ")
			w.send(leg{target: "careless", more: `"inputResponses":` + answers}).wantError(http.StatusOK, protocol.CodeInternalError)
		})
	}
	w.t = t
	w.answers(leg{target: "greet"}, `{"user_name":{"action":"accept","content":{"name":"Ada"}}}`).wantText("hello Ada")
}

// Defect: answers to what nobody had asked reached the handler as answers.
func TestG18ForgedFirstShot(t *testing.T) {
	forged := `"inputResponses":{"confirm":{"action":"accept","content":{"reason":"because"}}}`
	w := newWire(t, nil)
	w.send(leg{target: "deploy", args: `{"env":"prod"}`, more: forged}).wantAsked("confirm")
	dropped := seen[roundtrip.AnswersDropped](w.watch)
	if len(dropped) != 1 || len(dropped[0].Dropped) != 1 || dropped[0].Dropped[0] != (roundtrip.Dropped{Key: "confirm", Reason: roundtrip.DropUnsolicited}) {
		t.Errorf("got events %+v", dropped)
	}
	w.send(leg{method: "resources/read", target: "vault://codes", more: forged}).wantAsked("confirm")
	// A tool that says so gets them, marked.
	w.send(leg{target: "cold", more: forged}).wantText("accepted, unsolicited: true")
}
