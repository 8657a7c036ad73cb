package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// Defect: the builder, given nothing, made an input_required result with neither questions nor state.
func TestM01BuilderWithNothing(t *testing.T) {
	eachStyle(t, asking(), func(t *testing.T, w *wire, l leg) { w.wantBug(w.send(l), "at least one") })
}

// Defect: questions that a handler had filled in without saying so went out with resultType complete.
func TestM02HandBuiltQuestionsSayWhatTheyAre(t *testing.T) {
	build := func() (*protocol.InputRequiredResult, error) {
		return &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{{Key: "q", Request: &protocol.ListRoots{}}}}, nil
	}
	eachStyle(t, build, func(t *testing.T, w *wire, l leg) { w.send(l).wantAsked("q") })
}

// Defect: content and structured content stood beside questions.
func TestM03NoContentBesideQuestions(t *testing.T) {
	w := newWire(t, returns(asking(roundtrip.ListRoots("q"))))
	r := w.send(leg{target: "typed"}).wantAsked("q") // its handler returns a value as well
	if strings.Contains(string(r.body), "nowhere") {
		t.Errorf("got %s", r.body)
	}
}

// Defect: no gate for forms, URLs and sampling. See also G04.
func TestM04CapabilitiesGateEveryLeg(t *testing.T) {
	w := newWire(t, nil)
	asked := w.send(leg{target: "wizard"}).wantAsked("region")
	// The retry declares less than the first leg did: the next question may not be asked.
	w.send(leg{target: "wizard", caps: `{"roots":{}}`, more: asked.answered(`{"region":{"action":"accept","content":{"name":"eu"}}}`)}).
		wantError(http.StatusBadRequest, protocol.CodeMissingRequiredClientCapability)
	for target, caps := range map[string]string{
		"deploy": `{"elicitation":{"url":{}}}`, "sign_in": `{"elicitation":{}}`, "summarize": `{"elicitation":{}}`, "tidy": `{"sampling":{}}`,
	} {
		w.send(leg{target: target, caps: caps, args: `{"env":"x"}`}).wantError(http.StatusBadRequest, protocol.CodeMissingRequiredClientCapability)
	}
	if asked := seen[roundtrip.InputRequested](w.watch); len(asked) != 1 {
		t.Errorf("%d rounds of questions went out, want 1", len(asked))
	}
}

// Defect: an invalid entry gave HTTP 200 with an empty body.
func TestM05InvalidEntriesAreAnswered(t *testing.T) {
	for name, requests := range map[string]protocol.InputRequests{
		"empty key":   {{Key: "", Request: &protocol.ListRoots{}}},
		"twice":       {{Key: "a", Request: &protocol.ListRoots{}}, {Key: "a", Request: &protocol.ListRoots{}}},
		"not UTF-8":   {{Key: "\xff", Request: &protocol.ListRoots{}}},
		"nil":         {{Key: "a"}},
		"one is nil":  {{Key: "a", Request: &protocol.ListRoots{}}, {Key: "b"}},
		"bad grammar": {{Key: "a", Request: &protocol.ElicitForm{Message: "?", Schema: raw(`{"type":"object","properties":{"a":{"type":"object"}}}`)}}},
	} {
		t.Run(name, func(t *testing.T) {
			build := func() (*protocol.InputRequiredResult, error) {
				return &protocol.InputRequiredResult{InputRequests: requests}, nil
			}
			eachStyle(t, build, func(t *testing.T, w *wire, l leg) { w.wantBug(w.send(l), "") })
		})
	}
}

// Defect: a URL elicitation error became an internal error, and its elicitations were lost.
func TestM06URLErrorKeepsItsElicitations(t *testing.T) {
	elicit := func(ids ...string) error {
		e := &protocol.URLElicitationRequiredError{}
		for _, id := range ids {
			e.Elicitations = append(e.Elicitations, &protocol.ElicitURL{Message: "Visit", URL: "https://example.com/?id=" + id, ElicitationID: id})
		}
		return e
	}
	for _, test := range []struct {
		name string
		err  error
		keys []string
	}{
		{"two", elicit("a", "b"), []string{"a", "b"}},
		{"wrapped", errors.Join(errors.New("not yet"), elicit("a")), []string{"a"}},
		{"same id", elicit("a", "a"), []string{"a", "url-elicitation-2"}},
		{"no id", elicit("", ""), []string{"url-elicitation-1", "url-elicitation-2"}},
		{"fallback is taken", elicit("", "url-elicitation-1"), []string{"url-elicitation-1", "url-elicitation-2"}},
		{"prototype", elicit("__proto__"), []string{"__proto__"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			build := func() (*protocol.InputRequiredResult, error) { return nil, test.err }
			eachStyle(t, build, func(t *testing.T, w *wire, l leg) { w.send(l).wantAsked(test.keys...) })
		})
	}
	t.Run("none", func(t *testing.T) {
		build := func() (*protocol.InputRequiredResult, error) { return nil, elicit() }
		eachStyle(t, build, func(t *testing.T, w *wire, l leg) { w.wantBug(w.send(l), "without elicitations") })
	})
}

// Defect: a handler that said which capability it lacks gave an internal error with status 200 and without data.
func TestM07HandlersMayNameMissingCapabilities(t *testing.T) {
	build := func() (*protocol.InputRequiredResult, error) {
		return nil, protocol.MissingCapabilities(protocol.ClientCapabilities{Sampling: &protocol.SamplingCapability{}})
	}
	eachStyle(t, build, func(t *testing.T, w *wire, l leg) {
		r := w.send(l).wantError(http.StatusBadRequest, protocol.CodeMissingRequiredClientCapability)
		if want := `{"requiredCapabilities":{"sampling":{}}}`; r.err != nil && string(r.err.Data) != want {
			t.Errorf("got data %s, want %s", r.err.Data, want)
		}
	})
	t.Run("needs", func(t *testing.T) {
		w := newWire(t, func(srv *server.Server) {
			needs := protocol.ClientCapabilities{Sampling: &protocol.SamplingCapability{}, Roots: &protocol.RootsCapability{}}
			server.AddRawTool(srv, server.Tool{Name: "needy", Needs: needs}, func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
				return server.Text("ran"), nil
			})
		})
		w.send(leg{target: "needy", caps: `{"sampling":{}}`}).wantError(http.StatusBadRequest, protocol.CodeMissingRequiredClientCapability)
		w.send(leg{target: "needy", caps: `{"sampling":{},"roots":{}}`}).wantText("ran")
	})
}

// Defect: null, an object of anything and an envelope all counted as an answer, by the documented test for one.
func TestM08WhatIsNoAnswer(t *testing.T) {
	for _, answer := range []string{`null`, `{"foo":1}`, `{}`, `[]`, `true`, `0`, `""`, `{"action":null}`,
		`{"result":{"action":"accept","content":{"reason":"because"}}}`} {
		t.Run(answer, func(t *testing.T) {
			w := newWire(t, nil)
			w.answers(leg{target: "deploy", args: `{"env":"prod"}`}, `{"confirm":`+answer+`}`).wantAsked("confirm")
			if dropped := seen[roundtrip.AnswersDropped](w.watch); len(dropped) != 1 || dropped[0].Dropped[0].Reason != roundtrip.DropMalformed {
				t.Errorf("got events %+v", dropped)
			}
		})
	}
}

// Defect: RequestState, in the wrong case, was taken as requestState; so were other members.
func TestM09NoSmugglingOfTheState(t *testing.T) {
	deploy := leg{target: "deploy", args: `{"env":"prod"}`}
	answers := `{"confirm":{"action":"accept","content":{"reason":"because"}}}`
	for _, members := range [][2]string{
		{"RequestState", "inputResponses"}, {"requeststate", "inputResponses"}, {"request\u017ftate", "inputResponses"},
		{"requestState", "InputResponses"}, {"requestState", "inputresponses"},
	} {
		// Another server for each: twice is taken for a client that loses its state.
		w := newWire(t, nil)
		l := deploy
		l.more = `"` + members[1] + `":` + answers + `,"` + members[0] + `":` + string(w.send(deploy).result["requestState"])
		w.send(l).wantAsked("confirm")
	}
	w := newWire(t, nil)
	asked := w.send(deploy)
	state := string(asked.result["requestState"])
	// A state in the wrong case neither replaces the right one nor is it looked at.
	l := deploy
	l.more = asked.answered(answers) + `,"RequestState":"x","Name":"plain","Arguments":{"env":"test"}`
	w.send(l).wantText("deployed to prod: because")
	l.more = `"requestState":"x","RequestState":` + state + `,"inputResponses":` + answers
	w.send(l).wantError(http.StatusOK, protocol.CodeInvalidParams)
	// Twice is not JSON of ours, whichever comes first.
	l.more = `"requestState":"x",` + asked.answered(answers)
	w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+l.defaulted().params()+`}`, "", "tools/call", "deploy").
		wantError(http.StatusBadRequest, protocol.CodeParseError)
}

// Defect: answers were not validated. Here not even those that a tool takes cold. See also G12, G13 and G15.
func TestM10ColdAnswersAreValidated(t *testing.T) {
	w := newWire(t, nil)
	for answer, want := range map[string]string{
		`{"action":"accept","content":{"reason":"because"}}`: "accepted, unsolicited: true",
		`{"action":"accept","content":{"reason":1}}`:         "invalid, unsolicited: true",
		`{"action":"accept"}`:                                "invalid, unsolicited: true",
		`{"action":"bogus"}`:                                 "invalid, unsolicited: true",
		`{"action":"decline"}`:                               "declined, unsolicited: true",
		`null`:                                               "invalid, unsolicited: true",
	} {
		w.send(leg{target: "cold", more: `"inputResponses":{"confirm":` + answer + `}`}).wantText(want)
	}
}

// Defect: members of the wrong type were -32600, not -32602.
func TestM11WrongTypesAreInvalidParams(t *testing.T) {
	w := newWire(t, nil)
	for _, more := range []string{
		`"inputResponses":[]`, `"inputResponses":null`, `"inputResponses":"x"`, `"inputResponses":1`, `"inputResponses":true`,
		`"requestState":null`, `"requestState":1`, `"requestState":[]`, `"requestState":{}`,
		`"arguments":null`, `"arguments":[]`, `"arguments":"x"`,
	} {
		t.Run(more, func(t *testing.T) {
			w.t = t
			w.send(leg{target: "plain", more: more}).wantError(http.StatusBadRequest, protocol.CodeInvalidParams)
		})
	}
}

// Defect: handlers of resources, and typed handlers of tools, had no way to ask.
func TestM12EveryStyleCanAsk(t *testing.T) {
	w := newWire(t, nil)
	yes := `{"confirm":{"action":"accept","content":{"reason":"because"}}}`
	for _, uri := range []string{"vault://codes", "vault://box/7"} {
		r := w.answers(leg{method: "resources/read", target: uri}, yes)
		if !strings.Contains(string(r.result["contents"]), `"opened: because"`) {
			t.Errorf("got %s", r.body)
		}
	}
	r := w.answers(leg{target: "provision"}, `{"region":{"action":"accept","content":{"name":"eu"}}}`)
	if want := `{"region":"eu","cores":2}`; string(r.result["structuredContent"]) != want {
		t.Errorf("got %s, want %s", r.body, want)
	}
}

// Defect: a panic closed the connection without a response.
func TestM13PanicsAreAnswered(t *testing.T) {
	type key struct{}
	build := func() (*protocol.InputRequiredResult, error) { panic(key{}) }
	eachStyle(t, build, func(t *testing.T, w *wire, l leg) {
		w.send(l).wantError(http.StatusOK, protocol.CodeInternalError)
		if panicked := seen[roundtrip.HandlerPanicked](w.watch); len(panicked) != 1 || panicked[0].Value != (key{}) || len(panicked[0].Stack) == 0 {
			t.Errorf("got events %+v", panicked)
		}
		// The connection lives, too.
		reused := false
		trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPut, w.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := w.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if !reused || resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("connection used again: %t, status %d", reused, resp.StatusCode)
		}
	})
}

// Defect: handlers of URL questions that were written once failed for want of an elicitationId, which this revision has not.
func TestM19URLQuestionsNeedNoID(t *testing.T) {
	w := newWire(t, nil)
	r := w.answers(leg{target: "sign_in"}, `{"login":{"action":"accept"}}`).wantText("visit accepted")
	if strings.Contains(string(r.body), "elicitationId") {
		t.Errorf("got %s", r.body)
	}
}

// Defect: a handler that only asked to come back was answered with an internal error, "server is busy".
func TestM20StateOnlyGoesOn(t *testing.T) {
	w := newWire(t, nil)
	r := w.send(leg{target: "poll"}).wantAsked()
	for range 2 {
		r = w.send(leg{target: "poll", more: `"requestState":` + string(r.result["requestState"])})
	}
	r.wantText("ready")
}
