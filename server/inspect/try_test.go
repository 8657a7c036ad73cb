package inspect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/inspect"
)

var operator = protocol.Principal{Issuer: "https://login.example", Subject: "operator"}

func asOperator(*http.Request) (*server.StreamOptions, error) {
	return &server.StreamOptions{Principal: operator}, nil
}

// try calls a tool on the page, and returns the tab of the trial.
func (s *site) try(t testing.TB, tool string, form url.Values) string {
	t.Helper()
	form.Set("do", "start")
	form.Set("tool", tool)
	if form["era"] == nil {
		form["era"] = []string{"modern", "legacy"}
	}
	page, where := s.post(t, "try", form)
	if where.Query().Get("trial") == "" {
		t.Fatalf("nothing was called:\n%s", page)
	}
	return "try?trial=" + where.Query().Get("trial")
}

func (s *site) answer(t testing.TB, trial string, side, question int, action string,
	fields url.Values) {
	t.Helper()
	_, id, _ := strings.Cut(trial, "=")
	fields.Set("trial", id)
	fields.Set("side", fmt.Sprint(side))
	fields.Set("question", fmt.Sprint(question))
	fields.Set("action", action)
	s.post(t, "try", fields)
}

func TestThereIsNothingToTryUnlessItIsSwitchedOn(t *testing.T) {
	s := newSite(t, nil)
	if page := s.get(t, ""); strings.Contains(page, "Try") {
		t.Error("there is a tab")
	}
	response, err := s.browser.Get(s.URL + "/debug/rondo/try")
	noError(t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("got %s", response.Status)
	}
	refusing := newSite(t, &inspect.Options{
		Try: func(*http.Request) (*server.StreamOptions, error) {
			return nil, errors.New("nobody is on duty")
		}})
	want(t, refusing.get(t, "try"), "nobody is on duty")
}

func TestAToolIsTriedInBothEras(t *testing.T) {
	s := newSite(t, &inspect.Options{Try: asOperator})
	form := s.get(t, "try?tool=deploy")
	want(t, form, hostile, `value="2"`, ">staging</option>", "env (required)")
	wantNone(t, form, "http-equiv")
	if n := s.passed.Load(); n != 0 {
		t.Fatalf("a GET called %d tools", n)
	}
	trial := s.try(t, "deploy", url.Values{"field.env": {"prod"}, "field.count": {"3"}})
	page := s.eventually(t, trial, "Question 1 in 2026-07-28: form",
		"Question 1 in 2025-11-25: form",
		`"method":"initialize"`, `"resultType":"input_required"`, `Name <b>again</b> (required)`)
	wantNone(t, page, "http-equiv")
	for range 2 {
		if got := <-s.callers; got != operator {
			t.Errorf("the caller is %v", got)
		}
	}
	if n := s.passed.Load(); n != 2 {
		t.Errorf("the middleware saw %d calls, want 2", n)
	}
	s.answer(t, trial, 0, 1, "accept", url.Values{"field.name": {hostile}, "field.level": {"9"}})
	page = s.eventually(t, trial, `field "level": must be at most 5`, `value="`+hostile)
	wantNone(t, page)
	s.answer(t, trial, 0, 1, "accept", url.Values{"field.name": {hostile}, "field.level": {"5"}})
	s.eventually(t, trial, "Question 2 in 2026-07-28")
	s.answer(t, trial, 0, 2, "accept", url.Values{"json": {`{"name":"x"}`}})
	s.eventually(t, trial, "It is done.")
	for side := -1; side < 3; side++ { // sides and questions that do not exist
		s.answer(t, trial, side, 9, "cancel", url.Values{})
	}
	s.answer(t, trial, -1, 1, "cancel", url.Values{})
	s.answer(t, trial, 2, 1, "cancel", url.Values{})
	s.answer(t, trial, 1, 1, "decline", url.Values{})
	page = s.eventually(t, trial, "It is done.", "3 to prod 5"+hostile, "The result is an error.")
	wantNone(t, page, "http-equiv", `"action":"cancel"`)
	want(t, page, `"action":"decline"`, `"level":5`)
}

// Forms show entered values, or else the defaults.
func TestFormsShowTheirSchema(t *testing.T) {
	schema := []byte(`{"type":"object","required":["s"],"properties":{
		"s":{"type":"string","default":"z"},
		"d":{"type":"string","format":"date"},
		"i":{"type":"integer","title":"How many","default":3},
		"n":{"type":"number","description":"Any."},
		"b":{"type":"boolean","default":true},
		"e":{"type":"string","enum":["x","y"],"enumNames":["Ex"],"default":"y"},
		"o":{"type":"string","oneOf":[{"const":"1","title":"one"}]},
		"m":{"type":"array","items":{"type":"string","enum":["p","q"]},"default":["q"]}}}`)
	for want, given := range map[string]url.Values{`field.s "s" "" "z" true false []
field.d "d" "(a date, such as 2026-01-31)" "" false false []
field.i "How many" "(a whole number)" "3" false false []
field.n "n" "Any. (a number)" "" false false []
field.b "b" "" "true" false false [{true yes true} {false no false}]
field.e "e" "" "y" false false [{x Ex false} {y y true}]
field.o "o" "" "" false false [{1 one false}]
field.m "m" "" "q" false true [{p p false} {q q true}]
`: nil, `field.s "s" "" "<i>" true false []
field.d "d" "(a date, such as 2026-01-31)" "" false false []
field.i "How many" "(a whole number)" "" false false []
field.n "n" "Any. (a number)" "" false false []
field.b "b" "" "" false false [{true yes false} {false no false}]
field.e "e" "" "" false false [{x Ex false} {y y false}]
field.o "o" "" "" false false [{1 one false}]
field.m "m" "" "p" false true [{p p true} {q q false}]
`: {"field.s": {"<i>"}, "field.m": {"p"}}} {
		if got, flat := inspect.RenderForm(schema, given); got != want || !flat {
			t.Errorf("%v: flat %t\n%s\nwant\n%s", given, flat, got, want)
		}
	}
	if lines, flat := inspect.RenderForm([]byte(`{"type":"object"}`), nil); lines != "" || !flat {
		t.Errorf("without properties: flat %t\n%s", flat, lines)
	}
	bare := bytes.ReplaceAll(schema, []byte(`"default"`), []byte(`"examples"`))
	for _, c := range []struct{ field, value, want string }{
		{"s", "7", `{"s":"7"}`}, {"s", "true", `{"s":"true"}`}, {"i", "7", `{"s":"x","i":7}`},
		{"i", "", `{"s":"x"}`}, {"i", "seven", "error"}, {"n", "1.5", `{"s":"x","n":1.5}`},
		{"b", "false", `{"s":"x","b":false}`}, {"m", "p", `{"s":"x","m":["p"]}`},
		{"e", "z", "error"}, {"s", "", "error"}, {"o", "1", `{"s":"x","o":"1"}`},
	} {
		given := url.Values{"field.s": {"x"}}
		given.Set("field."+c.field, c.value)
		_, content, err := inspect.FillForm(bare, given)
		got := string(content)
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s is %q: got %s, %v, want %s", c.field, c.value, got, err, c.want)
		}
	}
}

func TestATrialThatRunsIsLookedAtAgain(t *testing.T) {
	s := newSite(t, &inspect.Options{Try: asOperator})
	trial := s.try(t, "work", url.Values{"era": {"modern"}})
	want(t, s.eventually(t, trial, "It runs."), `http-equiv="refresh" content="1"`)
	close(s.release)
	wantNone(t, s.eventually(t, trial, "It is done."), "http-equiv")
	page, _ := s.post(t, "try", url.Values{"do": {"start"}, "tool": {"work"}})
	want(t, page, `role="alert"`, "choose at least one era")
}

func TestAnAnswerCanBeCancelledAndACallGivenUp(t *testing.T) {
	s := newSite(t, &inspect.Options{Try: asOperator})
	trial := s.try(t, "visit", url.Values{"era": {"modern"}})
	page := s.eventually(t, trial, "Question 1 in 2026-07-28: visit", "https://example.com/?")
	wantNone(t, page)
	s.answer(t, trial, 0, 1, "cancel", url.Values{})
	s.eventually(t, trial, "The result is an error.")

	trial = s.try(t, "deploy", url.Values{"field.env": {"prod"}})
	s.eventually(t, trial, "Question 1 in 2025-11-25")
	_, id, _ := strings.Cut(trial, "=")
	s.post(t, "try", url.Values{"do": {"end"}, "trial": {id}})
	s.eventually(t, trial, "It failed: the trial was ended on the page")
	s.eventually(t, "", "<td>0, including those waiting")
}

func TestRichArgumentsAreJSON(t *testing.T) {
	s := newSite(t, &inspect.Options{Try: asOperator})
	want(t, s.get(t, "try?tool=rich"), "Arguments, a JSON object</label>")
	trial := s.try(t, "rich", url.Values{"json": {`{"a":{"b":[1]}}`}})
	s.eventually(t, trial, "It is done.", `{"a":{"b":[1]}}`)
	page, _ := s.post(t, "try", url.Values{"do": {"start"}, "tool": {"rich"}, "era": {"modern"},
		"json": {`{"a":` + hostile}})
	want(t, page, `role="alert"`)
	wantNone(t, page)
}

func TestALargeQuestionIsCut(t *testing.T) {
	s := newSite(t, &inspect.Options{Try: asOperator})
	trial := s.try(t, "large", url.Values{"era": {"legacy"}})
	page := s.eventually(t, trial, "Question 1 in 2025-11-25", "… (61440 bytes in all)")
	if len(page) > 32<<10 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

func TestTheOldestTrialMakesRoom(t *testing.T) {
	s := newSite(t, &inspect.Options{Try: asOperator})
	first := s.try(t, "deploy", url.Values{"field.env": {"prod"}})
	s.eventually(t, first, "Question 1 in 2025-11-25")
	for range 8 {
		s.try(t, "rich", url.Values{"json": {"{}"}, "era": {"modern"}})
	}
	page := s.get(t, "try")
	if n := strings.Count(page, "?trial="); n != 8 {
		t.Errorf("%d trials are kept, want 8", n)
	}
	s.eventually(t, "", "<td>0, including those waiting")
}

// Operators may share a principal, but each has a browser.
func TestTrialsOfOneBrowserEndNobodyElses(t *testing.T) {
	s := newSite(t, &inspect.Options{Try: asOperator})
	rich := url.Values{"json": {"{}"}, "era": {"modern"}}
	first := s.try(t, "deploy", url.Values{"field.env": {"prod"}, "era": {"modern"}})
	s.eventually(t, first, "Question 1 in 2026-07-28")
	anotherBrowser := func() { s.browser.Jar, _ = cookiejar.New(nil) }
	asking := url.Values{"field.env": {"prod"}, "era": {"modern"}}
	for range 7 { // with the first all 64 that the page keeps, and one of them has ended
		anotherBrowser()
		for range 9 {
			s.try(t, "deploy", asking)
		}
	}
	anotherBrowser()
	ended := s.try(t, "rich", rich)
	s.eventually(t, ended, "It is done.")
	for range 6 {
		s.try(t, "deploy", asking)
	}
	anotherBrowser()
	last := s.try(t, "deploy", asking) // in place of the one that has ended
	s.eventually(t, last, "Question 1 in 2026-07-28")
	rich.Set("do", "start")
	rich.Set("tool", "rich")
	anotherBrowser()
	page, _ := s.post(t, "try", rich)
	want(t, page, `role="alert"`, "64 calls of others are in flight")
	want(t, s.get(t, first), "Question 1 in 2026-07-28")
}

func TestTrialsEndWithTheServer(t *testing.T) {
	s := newSite(t, &inspect.Options{Try: asOperator})
	trial := s.try(t, "deploy", url.Values{"field.env": {"prod"}})
	s.eventually(t, trial, "Question 1 in 2026-07-28")
	_ = s.server.Shutdown(context.Background())
	s.eventually(t, trial, "It failed: the trial was ended on the page")
	want(t, s.get(t, "try"), `role="alert"`) // the tools cannot be listed
}

// Trials are invisible to other principals, who cannot answer them.
func TestATrialIsOfWhoMadeIt(t *testing.T) {
	var who atomic.Value
	who.Store("ann")
	s := newSite(t, &inspect.Options{Try: func(*http.Request) (*server.StreamOptions, error) {
		return &server.StreamOptions{Principal: protocol.Principal{
			Issuer: "https://login.example", Subject: who.Load().(string)}}, nil
	}})
	trial := s.try(t, "deploy", url.Values{"field.env": {"prod"}, "era": {"modern"}})
	s.eventually(t, trial, "Question 1 in 2026-07-28")
	_, id, _ := strings.Cut(trial, "=")
	who.Store("bob")
	for _, tab := range []string{"try", trial} {
		wantNone(t, s.get(t, tab), id, "Question 1", "prod&#34;")
	}
	s.answer(t, trial, 0, 1, "decline", url.Values{})
	s.post(t, "try", url.Values{"do": {"end"}, "trial": {id}})
	who.Store("ann")
	want(t, s.get(t, trial), "Question 1 in 2026-07-28")
}
