package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// TestUnusableAnswersAreDropped guards against a defect of another implementation: answers that
// were unknown, wrapped or null, and a state that was no string, made the whole request -32020.
func TestUnusableAnswersAreDropped(t *testing.T) {
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

// TestMalformedAnswersAreReportedAsDropped guards against a defect of another implementation: null,
// an object of anything and an envelope all counted as an answer, by the documented test for one.
func TestMalformedAnswersAreReportedAsDropped(t *testing.T) {
	for _, answer := range []string{`null`, `{"foo":1}`, `{}`, `[]`, `true`, `0`, `""`,
		`{"action":null}`,
		`{"result":{"action":"accept","content":{"reason":"because"}}}`} {
		t.Run(answer, func(t *testing.T) {
			w := newWire(t, nil)
			w.answers(leg{target: "deploy", args: `{"env":"prod"}`},
				`{"confirm":`+answer+`}`).wantAsked("confirm")
			if dropped := seen[event.AnswersDropped](w.watch); len(dropped) != 1 ||
				dropped[0].Dropped[0].Reason != event.DropMalformed {
				t.Errorf("got events %+v", dropped)
			}
		})
	}
}

// TestAnswersAreValidated guards against a defect of another implementation: answers were not held
// against the schema that was asked with; anything reached the handler.
func TestAnswersAreValidated(t *testing.T) {
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
		"over the maximum": `{"cores":65,"spare":true}`, "fraction": `{"cores":1.5}`,
		"1e999": `{"cores":1e999}`,
		"text":  `{"cores":"8"}`, "2^63": `{"cores":9223372036854775808}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, nil)
			first := w.answers(leg{target: "wizard"}, `{"region":{"action":"accept","content":{"name":"eu"}}}`).wantAsked("size")
			w.send(leg{target: "wizard",
				more: first.answered(`{"size":{"action":"accept","content":` + content +
					`}}`)}).wantAsked("size")
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

// TestUnsolicitedAnswersAreValidated guards against a defect of another implementation: answers
// were not validated. Here those are, too, that a tool accepts without having asked.
func TestUnsolicitedAnswersAreValidated(t *testing.T) {
	w := newWire(t, nil)
	for answer, want := range map[string]string{
		`{"action":"accept","content":{"reason":"because"}}`: "accepted, unsolicited: true",
		`{"action":"accept","content":{"reason":1}}`:         "invalid, unsolicited: true",
		`{"action":"accept"}`:                                "invalid, unsolicited: true",
		`{"action":"bogus"}`:                                 "invalid, unsolicited: true",
		`{"action":"decline"}`:                               "declined, unsolicited: true",
		`null`:                                               "invalid, unsolicited: true",
	} {
		t.Run(answer, func(t *testing.T) {
			w.t = t
			w.send(leg{target: "cold",
				more: `"inputResponses":{"confirm":` + answer + `}`}).wantText(want)
		})
	}
}

// TestAcceptWithoutContentNeedsDefaults guards against a defect of another implementation: an
// accept without content passed although the form has required fields.
func TestAcceptWithoutContentNeedsDefaults(t *testing.T) {
	newWire(t, nil).answers(leg{target: "deploy", args: `{"env":"prod"}`},
		`{"confirm":{"action":"accept"}}`).wantAsked("confirm")
	t.Run("all have defaults", func(t *testing.T) {
		w := newWire(t, nil)
		first := w.answers(leg{target: "wizard"}, `{"region":{"action":"accept","content":{"name":"eu"}}}`).wantAsked("size")
		w.send(leg{target: "wizard",
			more: first.answered(`{"size":{"action":"accept"}}`)}).wantAsked("contact")
	})
}

// TestMembersOfAnswersAreMatchedByExactCase guards against a defect of another implementation:
// members were matched whatever their case, the last one counting: a gateway that reads "action"
// saw a decline, the handler an accept.
func TestMembersOfAnswersAreMatchedByExactCase(t *testing.T) {
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
			w.post(body, "", "tools/call", "deploy").wantError(http.StatusBadRequest,
				protocol.CodeParseError)
		})
	}
}

// TestStateIsMatchedByExactCase guards against a defect of another implementation: RequestState, in
// the wrong case, was taken as requestState; so were other members.
func TestStateIsMatchedByExactCase(t *testing.T) {
	deploy := leg{target: "deploy", args: `{"env":"prod"}`}
	answers := `{"confirm":{"action":"accept","content":{"reason":"because"}}}`
	for _, members := range [][2]string{
		{"RequestState", "inputResponses"}, {"requeststate", "inputResponses"},
		{"request\u017ftate", "inputResponses"},
		{"requestState", "InputResponses"}, {"requestState", "inputresponses"},
	} {
		t.Run(members[0]+" and "+members[1], func(t *testing.T) {
			// Another server for each: twice is taken for a client that loses its state.
			w := newWire(t, nil)
			l := deploy
			l.more = `"` + members[1] + `":` + answers + `,"` + members[0] + `":` +
				string(w.send(deploy).result["requestState"])
			w.send(l).wantAsked("confirm")
		})
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

// TestUnknownActionsAreNoAnswer guards against a defect of another implementation: an action that
// does not exist was taken as an answer.
func TestUnknownActionsAreNoAnswer(t *testing.T) {
	for _, action := range []string{`"bogus"`, `""`, `"Accept"`, `"accept "`, `null`, `true`,
		`["accept"]`} {
		t.Run(action, func(t *testing.T) {
			answers := `{"confirm":{"action":` + action + `,"content":{"reason":"because"}}}`
			newWire(t, nil).answers(leg{target: "deploy", args: `{"env":"prod"}`},
				answers).wantAsked("confirm")
		})
	}
}

// TestQuestionDecidesTheKindOfItsAnswer guards against a defect of another implementation: what
// kind an answer is was guessed from its members; a further one turned an accept into a list of
// roots.
func TestQuestionDecidesTheKindOfItsAnswer(t *testing.T) {
	extra := `"roots":[],"role":"user","model":"m","_meta":{}`
	newWire(t, nil).answers(leg{target: "deploy", args: `{"env":"prod"}`},
		`{"confirm":{`+extra+`,"action":"accept","content":{"reason":"because"}}}`).wantText("deployed to prod: because")
	newWire(t, nil).answers(leg{target: "tidy"}, `{"dirs":{"action":"accept","content":{},"roots":[{"uri":"file:///a"}]}}`).wantText("1 directories")
	newWire(t, nil).answers(leg{target: "tidy"}, `{"dirs":{"action":"accept","content":{}}}`).wantAsked("dirs")
}

// TestNoAnswerEndsTheProcess guards against a defect of another implementation: the documented way
// to read an answer ended the process when a person declined, and there was no recover.
func TestNoAnswerEndsTheProcess(t *testing.T) {
	type answer struct {
		Name string `json:"name"`
	}
	w := newWire(t, func(srv *server.Server) {
		// As in that documentation: whatever was answered is read without looking.
		server.AddRawTool(srv, server.Tool{Name: "greet"},
			func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
				if roundtrip.RoundOf(ctx).Number == 1 {
					return roundtrip.InputRequired(roundtrip.Elicit[answer]("user_name", "Who?")),
						nil
				}
				return server.Text("hello " +
						roundtrip.Answer[answer](ctx, "user_name").Content.Name),
					nil
			})
		server.AddRawTool(srv, server.Tool{Name: "careless"},
			func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
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
			w.send(leg{target: "careless", more: `"inputResponses":` + answers}).wantError(
				http.StatusOK, protocol.CodeInternalError)
		})
	}
	w.t = t
	w.answers(leg{target: "greet"}, `{"user_name":{"action":"accept","content":{"name":"Ada"}}}`).wantText("hello Ada")
}

// TestUnsolicitedAnswersAreDropped guards against a defect of another implementation: answers to
// what nobody had asked reached the handler as answers.
func TestUnsolicitedAnswersAreDropped(t *testing.T) {
	forged := `"inputResponses":{"confirm":{"action":"accept","content":{"reason":"because"}}}`
	w := newWire(t, nil)
	w.send(leg{target: "deploy", args: `{"env":"prod"}`, more: forged}).wantAsked("confirm")
	dropped := seen[event.AnswersDropped](w.watch)
	if len(dropped) != 1 || len(dropped[0].Dropped) != 1 ||
		dropped[0].Dropped[0] != (event.Dropped{Key: "confirm",
			Reason: event.DropUnsolicited}) {
		t.Errorf("got events %+v", dropped)
	}
	w.send(leg{method: "resources/read", target: "vault://codes",
		more: forged}).wantAsked("confirm")
	// A tool that says so gets them, marked.
	w.send(leg{target: "cold", more: forged}).wantText("accepted, unsolicited: true")
}

// TestMembersOfWrongTypeAreInvalidParams guards against a defect of another implementation: members
// of the wrong type were -32600, not -32602.
func TestMembersOfWrongTypeAreInvalidParams(t *testing.T) {
	w := newWire(t, nil)
	for _, more := range []string{
		`"inputResponses":[]`, `"inputResponses":null`, `"inputResponses":"x"`,
		`"inputResponses":1`, `"inputResponses":true`,
		`"requestState":null`, `"requestState":1`, `"requestState":[]`, `"requestState":{}`,
		`"arguments":[]`, `"arguments":"x"`,
	} {
		t.Run(more, func(t *testing.T) {
			w.t = t
			w.send(leg{target: "plain", more: more}).wantError(http.StatusBadRequest,
				protocol.CodeInvalidParams)
		})
	}
}
