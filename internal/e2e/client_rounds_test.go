package e2e_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// wantUnusable holds an error against what a client says of a response that is none.
func wantUnusable(t testing.TB, err error) {
	t.Helper()
	if _, ok := errors.AsType[*client.ResponseError](err); !ok {
		t.Errorf("got %v, want a ResponseError", err)
	}
}

// TestClientRetriesStateOnlyResult guards against a defect of another implementation: a result that
// only asks to come back was returned as final, without an error.
func TestClientRetriesStateOnlyResult(t *testing.T) {
	h := newScripted(t, ask(`"requestState":"s"`), done)
	r, err := h.call(nil)
	if err != nil || textOf(r.Content) != "done" {
		t.Errorf("got %+v, %v", r, err)
	}
	sent := h.wantRequests(2)
	if string(sent[1]["requestState"]) != `"s"` || sent[1]["inputResponses"] != nil {
		t.Errorf("got a retry with %q", names(sent[1]))
	}
}

// TestStateOnlyRoundsArePaced guards against a defect of another implementation: requests were
// repeated three times in 5 ms, then given up.
func TestStateOnlyRoundsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := ask(`"requestState":"s"`)
		h := newScriptedOverPipes(t, wait, wait, wait, wait, wait, done)
		const least, most = 200 * time.Millisecond, 400 * time.Millisecond
		if _, err := h.call(&client.Options{MinPause: least, MaxPause: most}); err != nil {
			t.Fatal(err)
		}
		h.wantRequests(6)
		for i := 1; i < len(h.at); i++ {
			if gap := h.at[i].Sub(h.at[i-1]); gap < least || gap > most {
				t.Errorf("request %d came %v after the one before, want %v to %v", i+1, gap, least,
					most)
			}
		}
	})
}

// TestStateOnlyRoundsHaveNoLimit guards against a defect of another implementation: polling stopped
// after three tries.
func TestStateOnlyRoundsHaveNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := ask(`"requestState":"s"`)
		h := newScriptedOverPipes(t, wait, wait, wait, wait, wait, wait, wait, wait, done)
		r, err := h.call(&client.Options{MaxPause: 500 * time.Millisecond})
		if err != nil || textOf(r.Content) != "done" {
			t.Errorf("got %+v, %v", r, err)
		}
		h.wantRequests(9)
	})
}

// TestNeitherQuestionsNorStateIsUnusable guards against a defect of another implementation:
// input_required with neither questions nor state was final.
func TestNeitherQuestionsNorStateIsUnusable(t *testing.T) {
	for _, result := range []string{`{"resultType":"input_required"}`, ask(`"inputRequests":{}`),
		ask(`"_meta":{}`)} {
		t.Run(result, func(t *testing.T) {
			h := newScripted(t, result)
			r, err := h.call(nil)
			if r != nil {
				t.Errorf("got %+v", r)
			}
			wantUnusable(t, err)
			h.wantRequests(1)
		})
	}
}

// TestUnusableResultIsNotRetried guards against a defect of another implementation: after a result
// with neither questions nor state the identical call was sent three more times.
func TestUnusableResultIsNotRetried(t *testing.T) {
	h := newScripted(t, ask(`"_meta":{}`))
	_, err := h.call((&ada{}).options())
	wantUnusable(t, err)
	h.wantRequests(1)
}

// TestUnknownResultTypeIsUnusable guards against a defect of another implementation: an unknown
// resultType was an empty result without an error.
func TestUnknownResultTypeIsUnusable(t *testing.T) {
	for _, kind := range []string{`"partial"`, `""`, `"Complete"`, `null`, `1`, `{}`} {
		t.Run(kind, func(t *testing.T) {
			h := newScripted(t, `{"resultType":`+kind+`}`)
			_, err := h.call(nil)
			wantUnusable(t, err)
			h.wantRequests(1)
		})
	}
}

// TestUnknownResultTypeWithContentIsUnusable guards against a defect of another implementation: an
// unknown resultType with content counted as success.
func TestUnknownResultTypeWithContentIsUnusable(t *testing.T) {
	h := newScripted(t, `{"resultType":"deferred","content":[{"type":"text","text":"done"}]}`)
	r, err := h.call(nil)
	if r != nil {
		t.Errorf("got %+v", r)
	}
	wantUnusable(t, err)
}

// TestResultTypeDecidesOverQuestions guards against a defect of another implementation: a complete
// result that also has questions made the client loop; the resultType decides.
func TestResultTypeDecidesOverQuestions(t *testing.T) {
	for _, kind := range []string{`"resultType":"complete",`, ``} { // absent means complete
		h, who := newScripted(t, `{`+kind+`"content":[{"type":"text","text":"done"}],"inputRequests":{"c":`+nameForm+`},"requestState":"s"}`), &ada{}
		r, err := h.call(who.options())
		if err != nil || textOf(r.Content) != "done" {
			t.Errorf("got %+v, %v", r, err)
		}
		h.wantRequests(1)
		who.wantAsked(t, 0)
	}
}

// TestStateIsEchoedExactly guards against a defect of another implementation: the empty state was
// not echoed.
func TestStateIsEchoedExactly(t *testing.T) {
	for _, state := range []string{``, ` `, `a\u0000b`, `\ud83d\ude00\"\\`,
		strings.Repeat("x", 60<<10)} {
		t.Run(state[:min(len(state), 20)], func(t *testing.T) {
			h := newScripted(t,
				ask(`"inputRequests":{"c":`+nameForm+`},"requestState":"`+state+`"`), done)
			if _, err := h.call((&ada{}).options()); err != nil {
				t.Fatal(err)
			}
			sent := h.wantRequests(2)
			want := parse(t, []byte(`{"s":"`+state+`"}`))
			if got := unquote(t, sent[1]["requestState"]); got != unquote(t, want["s"]) {
				t.Errorf("got state %.40q, want %.40q", got, unquote(t, want["s"]))
			}
		})
	}
	t.Run("absent", func(t *testing.T) {
		h := newScripted(t, ask(`"inputRequests":{"c":`+nameForm+`},"requestState":"s"`),
			ask(`"inputRequests":{"c":`+nameForm+`}`), done)
		if _, err := h.call((&ada{}).options()); err != nil {
			t.Fatal(err)
		}
		if sent := h.wantRequests(3); sent[2]["requestState"] != nil {
			t.Errorf("the state of an earlier round was sent: %s", sent[2]["requestState"])
		}
	})
}

// TestEmptyStateIsEchoedForEachMethod guards against a defect of another implementation: the empty
// state was not echoed.
func TestEmptyStateIsEchoedForEachMethod(t *testing.T) {
	question := ask(`"inputRequests":{"c":` + nameForm + `},"requestState":""`)
	h := newScripted(t, question, `{"resultType":"complete","messages":[]}`, question, completeRead, ask(`"requestState":""`), done)
	c, ctx := h.dial((&ada{}).options()), within(t, patience)
	if _, err := c.GetPrompt(ctx, "x", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadResource(ctx, "u:x"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CallTool(ctx, "x", nil); err != nil {
		t.Fatal(err)
	}
	for i, sent := range h.wantRequests(6) {
		want := ""
		if i%2 == 1 {
			want = `""`
		}
		if got := string(sent["requestState"]); got != want {
			t.Errorf("request %d: got state %s, want %s", i+1, got, want)
		}
	}
}

// TestCallersParamsAreNotChanged guards against a defect of another implementation: the caller's
// _meta was changed.
func TestCallersParamsAreNotChanged(t *testing.T) {
	question := ask(`"inputRequests":{"c":` + nameForm + `},"requestState":"s"`)
	h := newScripted(t, question, done, question, done)
	c := h.dial((&ada{}).options())
	p := &protocol.CallToolParams{Name: "x", Arguments: raw(`{"a":1}`)}
	p.Extra = protocol.Meta(`{"traceparent":"00-1"}`)
	before := fmt.Sprintf("%+v", *p)
	for range 2 {
		if _, err := c.CallToolParams(within(t, patience), p); err != nil {
			t.Fatal(err)
		}
	}
	if after := fmt.Sprintf("%+v", *p); after != before {
		t.Errorf("params changed from %s to %s", before, after)
	}
	sent := h.wantRequests(4)
	for i, params := range sent {
		if has := params["inputResponses"] != nil; has != (i%2 == 1) {
			t.Errorf("request %d: has answers: %t", i+1, has)
		}
		if string(parse(t, params["_meta"])["traceparent"]) != `"00-1"` {
			t.Errorf("request %d: got _meta %s", i+1, params["_meta"])
		}
	}
	ids := map[string]bool{}
	for _, id := range h.ids {
		ids[id] = true
	}
	if len(ids) != 4 {
		t.Errorf("got ids %q, want four different ones", h.ids)
	}
}

// TestCallersAnswersAreSentFirst guards against a defect of another implementation: answers and
// state of the caller were dropped on the first send, so that nothing could be resumed by hand.
func TestCallersAnswersAreSentFirst(t *testing.T) {
	h, who := newScripted(t, ask(`"inputRequests":{"d":`+nameForm+`},"requestState":"s2"`),
		done), &ada{}
	p := &protocol.CallToolParams{Name: "x"}
	p.InputResponses = protocol.InputResponses{{Key: "c", Result: raw(`{"action":"decline"}`)}}
	p.RequestState = protocol.StateText("s1")
	if _, err := h.dial(who.options()).CallToolParams(within(t, patience), p); err != nil {
		t.Fatal(err)
	}
	want := []struct{ answers, state string }{
		{`{"c":{"action":"decline"}}`, `"s1"`},
		{`{"d":{"action":"accept","content":{"name":"Ada"}}}`, `"s2"`}, // of this round only
	}
	for i, sent := range h.wantRequests(2) {
		if string(sent["inputResponses"]) != want[i].answers ||
			string(sent["requestState"]) != want[i].state {
			t.Errorf("request %d: got %s and %s, want %+v", i+1, sent["inputResponses"],
				sent["requestState"], want[i])
		}
	}
}

// TestURLErrorOfAnotherRevisionReachesTheCaller guards against a defect of another implementation:
// -32042 was never handled. This revision does not have it: the caller gets it as the server's
// error, data and all.
func TestURLErrorOfAnotherRevisionReachesTheCaller(t *testing.T) {
	h := newScriptedReplies(t, `"error":{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","elicitationId":"1","url":"javascript:x","message":"?"}]}}`)
	_, err := h.call(person{"1": "{}"}.options())
	e, ok := protocol.AsError(err)
	if !ok || e.Code != protocol.CodeURLElicitationRequired ||
		!strings.Contains(string(e.Data), "elicitations") {
		t.Errorf("got %v", err)
	}
}
