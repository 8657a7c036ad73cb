package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// TestTextsSayWhatToDo produces each of the funnel's own texts and looks for advice in it.
func TestTextsSayWhatToDo(t *testing.T) {
	lossy := `{"action":"perhaps"}`
	for _, tc := range []struct {
		name, answer string
		handler      roundtrip.Handler
		change       func(*roundtrip.Options, *roundtrip.Call)
		want         string // the advice
		modern, live bool
	}{
		{name: "declined", answer: declined, handler: payFlow,
			want: "do not call again unless they ask for it", modern: true, live: true},
		{name: "cancelled", answer: cancelled, handler: payFlow,
			want: "call again only if they want to", modern: true, live: true},
		{name: "declined and asked again", answer: declined, handler: nags,
			want: "do not call again unless they ask for it", modern: true, live: true},
		{name: "cancelled and asked again", answer: cancelled, handler: nags,
			want: "call again only if they want to", modern: true, live: true},
		{name: "invalid", answer: `{"action":"accept","content":{}}`, handler: payFlow, want: "Start the call again when a valid answer can be given.", modern: true, live: true},
		{name: "too many rounds", answer: accepted, handler: insatiable,
			want: "Start the call again, and answer what it asked for last.", modern: true,
			live: true},
		{name: "malformed in guard style", answer: lossy, handler: payGuard,
			want: "use a client that returns requestState unchanged", modern: true, live: true},
		{name: "malformed in flow style", answer: lossy, handler: payFlow,
			want: "use a client that ", modern: true, live: true},
		{name: "no capability", handler: payFlow, want: "use a client that does", live: true,
			change: func(_ *roundtrip.Options, c *roundtrip.Call) {
				c.Capabilities = protocol.ClientCapabilities{}
			}},
		{name: "no session", handler: payFlow, want: "connect with one", live: true,
			change: func(_ *roundtrip.Options, c *roundtrip.Call) { c.Push = nil }},
		{name: "old revision", handler: payFlow, want: "use a client of a later revision",
			live: true, change: func(_ *roundtrip.Options, c *roundtrip.Call) {
				c.Version = protocol.V20250326
			}},
		{name: "hidden failure", handler: func(context.Context) (protocol.Result, error) {
			return nil, errors.New("secret")
		}, want: "try again later, and give the reference to the operator", modern: true,
			live:   true,
			change: func(o *roundtrip.Options, _ *roundtrip.Call) { o.HideErrors = true }},
	} {
		for _, m := range modes {
			if legacy := m.version.Era() == protocol.Legacy; legacy && !tc.live || !legacy &&
				!tc.modern {
				continue
			}
			t.Run(tc.name+" "+m.name, func(t *testing.T) {
				opts, call := roundtrip.Options{}, toolCall()
				call.Version = m.version
				if m.version.Era() == protocol.Legacy {
					call.Push = &human{t: t, version: m.version, answer: says(tc.answer)}
				}
				if tc.change != nil {
					tc.change(&opts, &call)
				}
				text := lastText(t, opts, call, tc.handler, tc.answer)
				if !strings.Contains(text, tc.want) {
					t.Errorf("%q does not say %q", text, tc.want)
				}
			})
		}
	}
}

func lastText(t *testing.T, opts roundtrip.Options, call roundtrip.Call, handler roundtrip.Handler,
	answer string) string {
	t.Helper()
	opts.MinHumanTime = -1
	funnel, err := roundtrip.NewFunnel(&opts)
	noError(t, err)
	for range 20 {
		result, err := funnel.Do(t.Context(), call, handler)
		if err != nil {
			return err.Error()
		}
		asked, ok := result.(*protocol.InputRequiredResult)
		if !ok {
			return result.(*protocol.CallToolResult).Content[0].(*protocol.TextContent).Text
		}
		call.State = asked.RequestState
		call.Responses = answersTo(asked, func(protocol.InputRequest) string { return answer })
	}
	t.Fatal("the flow does not end")
	return ""
}

// TestInvalidResultBesideAQuestion: a bad hand-built result during a question does not panic.
func TestInvalidResultBesideAQuestion(t *testing.T) {
	for name, wrong := range map[string]*protocol.InputRequiredResult{
		"key twice": {InputRequests: protocol.InputRequests{{Key: "a",
			Request: &protocol.ListRoots{}}, {Key: "a", Request: &protocol.ListRoots{}}}},
		"no form": {InputRequests: protocol.InputRequests{{Key: "a",
			Request: &protocol.ElicitForm{Message: "?", Schema: json.RawMessage(`[]`)}}}},
		"nil": {InputRequests: protocol.InputRequests{{Key: "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(ctx context.Context) (protocol.Result, error) {
				_, _ = roundtrip.Ask[Confirmation](ctx, "k", "?")
				return wrong, nil
			})
			c.bug()
			if n := len(all[event.HandlerPanicked](c.events)); n != 0 {
				t.Errorf("%d panics", n)
			}
		})
	}
}

func urlError(ids ...string) *protocol.URLElicitationRequiredError {
	e := &protocol.URLElicitationRequiredError{}
	for i, id := range ids {
		e.Elicitations = append(e.Elicitations, &protocol.ElicitURL{
			Message: fmt.Sprint("visit ", i), URL: fmt.Sprint("https://id.example/", i),
			ElicitationID: id})
	}
	return e
}

// TestURLErrorsBecomeQuestions with free keys, the author's if possible.
func TestURLErrorsBecomeQuestions(t *testing.T) {
	for _, tc := range []struct{ name, ids, want string }{
		{"one id", "github", "github"},
		{"no id", "-", "url-elicitation-1"},
		{"no ids", "- - -", "url-elicitation-1 url-elicitation-2 url-elicitation-3"},
		{"repeated id", "a a b", "a url-elicitation-2 b"},
		{"id equal to a later fallback", "url-elicitation-2 -",
			"url-elicitation-2 url-elicitation-3"},
		{"id equal to an earlier fallback", "- url-elicitation-1",
			"url-elicitation-2 url-elicitation-1"},
		{"fallbacks that collide", "- url-elicitation-1 url-elicitation-2 -",
			"url-elicitation-3 url-elicitation-1 url-elicitation-2 url-elicitation-4"},
		{"repeated fallback", "url-elicitation-1 url-elicitation-1",
			"url-elicitation-1 url-elicitation-2"},
		{"names of prototypes", "constructor __proto__ toString", "constructor __proto__ toString"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ids := strings.Fields(tc.ids)
			for i, id := range ids {
				if id == "-" {
					ids[i] = ""
				}
			}
			for _, method := range []string{protocol.MethodCallTool, protocol.MethodGetPrompt,
				protocol.MethodReadResource} {
				c := serve(t, returns(nil, fmt.Errorf("upstream: %w", urlError(ids...))))
				c.call.Method = method
				for i, q := range c.ask(strings.Fields(tc.want)...).asked.InputRequests {
					got := q.Request.(*protocol.ElicitURL)
					if got.ElicitationID != "" || got.URL != fmt.Sprint("https://id.example/", i) ||
						got.Message != fmt.Sprint("visit ", i) {
						t.Errorf("question %s is %+v", q.Key, got)
					}
				}
			}
		})
	}
}

func TestURLErrorFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signedIn := false
		handler := func(ctx context.Context) (protocol.Result, error) {
			if !signedIn {
				return nil, urlError("login")
			}
			return say(roundtrip.Visited(ctx, "login").String())
		}
		c := serve(t, handler)
		c.ask("login").answer("login", agreed).ask("login") // agreed, but not finished
		signedIn = true
		c.answer("login", agreed).says("accepted")
		signedIn = false
		c = serve(t, handler)
		c.ask("login").answer("login", declined).says("error: declined: login")
	})
}

// An accepted visit is waited for before it is asked for again.
func TestRepeatedURLErrorsAreHeld(t *testing.T) {
	for _, test := range []struct {
		name     string
		finished time.Duration // after the user agreed, 0: never
		change   bool          // another URL each time
		takes    time.Duration
		runs     int
		asks     string // the message of the next question, or ""
	}{
		{"finished at once", time.Nanosecond, false, time.Second, 2, ""},
		{"finished while held", 6 * time.Second, false, 7 * time.Second, 4, ""},
		{"not finished", 0, false, 25 * time.Second, 6, "Not finished yet. visit 0"},
		{"another URL", 0, true, 0, 1, "visit 0"},
	} {
		bubble(t, test.name, func(t *testing.T) {
			runs, since := 0, time.Time{}
			c := serve(t, func(context.Context) (protocol.Result, error) {
				runs++
				if !since.IsZero() && test.finished > 0 && time.Since(since) >= test.finished {
					return say("done")
				}
				e := urlError("login")
				if test.change {
					e.Elicitations[0].URL += fmt.Sprint("?", runs)
				}
				return nil, e
			})
			c.ask("login")
			since = time.Now()
			c.answer("login", agreed)
			if test.asks == "" {
				c.done()
			} else {
				asked := c.ask("login").asked.InputRequests[0].Request.(*protocol.ElicitURL)
				if asked.Message != test.asks {
					t.Errorf("asks %q, want %q", asked.Message, test.asks)
				}
			}
			if took := time.Since(since); took != test.takes || runs-1 != test.runs {
				t.Errorf("%d runs in %v, want %d in %v", runs-1, took, test.runs, test.takes)
			}
			began := len(all[event.WaitBegan](c.events))
			ended := len(all[event.WaitEnded](c.events))
			if began != ended || (began > 0) == test.change {
				t.Errorf("%d waits began, %d ended", began, ended)
			}
		})
	}
}

func TestURLErrorsThatAreBugs(t *testing.T) {
	withNil := urlError("a")
	withNil.Elicitations = append(withNil.Elicitations, nil)
	withoutURL := urlError("a")
	withoutURL.Elicitations[0].URL = ""
	for want, err := range map[string]error{"without elicitations": urlError(),
		"entry 1 is nil": withNil, `"a"`: withoutURL} {
		contains(t, serve(t, returns(nil, err)).bug(), want)
		live, _ := serveLive(t, returns(nil, err))
		contains(t, live.bug(), "elicitation")
	}
}

func TestURLErrorToClientsWithoutURLs(t *testing.T) {
	c := serve(t, returns(nil, urlError("a", "b")))
	c.call.Capabilities.Elicitation = &protocol.ElicitationCapability{Form: true}
	e := c.fails(protocol.CodeMissingRequiredClientCapability)
	if required, _ := e.RequiredCapabilities(); required.String() != "elicitation.url" {
		t.Errorf("missing %s", required)
	}
}
