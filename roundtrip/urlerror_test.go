package roundtrip_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// urlError is the error of the revision before, with elicitations of these ids.
func urlError(ids ...string) *protocol.URLElicitationRequiredError {
	e := &protocol.URLElicitationRequiredError{}
	for i, id := range ids {
		e.Elicitations = append(e.Elicitations, &protocol.ElicitURL{
			Message: fmt.Sprint("visit ", i), URL: fmt.Sprint("https://id.example/", i), ElicitationID: id})
	}
	return e
}

// TestURLErrorsBecomeQuestions chooses keys that are free, and the author's
// where it can.
func TestURLErrorsBecomeQuestions(t *testing.T) {
	for _, tc := range []struct{ name, ids, want string }{
		{"one id", "github", "github"},
		{"no id", "-", "url-elicitation-1"},
		{"no ids", "- - -", "url-elicitation-1 url-elicitation-2 url-elicitation-3"},
		{"repeated id", "a a b", "a url-elicitation-2 b"},
		{"id equal to a later fallback", "url-elicitation-2 -", "url-elicitation-2 url-elicitation-3"},
		{"id equal to an earlier fallback", "- url-elicitation-1", "url-elicitation-2 url-elicitation-1"},
		{"fallbacks that collide", "- url-elicitation-1 url-elicitation-2 -", "url-elicitation-3 url-elicitation-1 url-elicitation-2 url-elicitation-4"},
		{"repeated fallback", "url-elicitation-1 url-elicitation-1", "url-elicitation-1 url-elicitation-2"},
		{"names of prototypes", "constructor __proto__ toString", "constructor __proto__ toString"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ids := strings.Fields(tc.ids)
			for i, id := range ids {
				if id == "-" {
					ids[i] = ""
				}
			}
			for _, method := range []string{protocol.MethodCallTool, protocol.MethodGetPrompt, protocol.MethodReadResource} {
				c := newClient(t, roundtrip.Options{}, returns(nil, fmt.Errorf("upstream: %w", urlError(ids...))))
				c.call.Method = method
				for i, q := range c.ask(strings.Fields(tc.want)...).InputRequests {
					got := q.Request.(*protocol.ElicitURL)
					if got.ElicitationID != "" || got.URL != fmt.Sprint("https://id.example/", i) || got.Message != fmt.Sprint("visit ", i) {
						t.Errorf("question %s is %+v", q.Key, got)
					}
				}
			}
		})
	}
}

// TestURLErrorFlow visits and comes back.
func TestURLErrorFlow(t *testing.T) {
	signedIn := false
	handler := func(ctx context.Context) (protocol.Result, error) {
		if !signedIn {
			return nil, urlError("login")
		}
		return say(roundtrip.Visited(ctx, "login").String())
	}
	c := newClient(t, roundtrip.Options{}, handler)
	c.ask("login")
	c.answer("login", `{"action":"accept"}`).ask("login") // agreed, and not there yet
	signedIn = true
	if got := c.answer("login", `{"action":"accept"}`).done(); got != "accepted" {
		t.Errorf("got %q", got)
	}
	signedIn = false
	c = newClient(t, roundtrip.Options{}, handler)
	c.ask("login")
	if got := c.answer("login", declined).done(); got != "error: declined: login" {
		t.Errorf("got %q", got)
	}
}

func TestURLErrorsThatAreBugs(t *testing.T) {
	withNil := urlError("a")
	withNil.Elicitations = append(withNil.Elicitations, nil)
	withoutURL := urlError("a")
	withoutURL.Elicitations[0].URL = ""
	for _, tc := range []struct {
		name string
		opts roundtrip.Options
		err  error
		want string
	}{
		{"none at all", roundtrip.Options{}, urlError(), "without elicitations"},
		{"nil entry", roundtrip.Options{}, withNil, "entry 1 is nil"},
		{"no URL", roundtrip.Options{}, withoutURL, `"a"`},
		{"refused by option", roundtrip.Options{RefuseURLErrors: true}, urlError("a"), "refuse"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			contains(t, newClient(t, tc.opts, returns(nil, tc.err)).bug(), tc.want)
		})
	}
}

func TestURLErrorToClientsWithoutURLs(t *testing.T) {
	c := newClient(t, roundtrip.Options{}, returns(nil, urlError("a", "b")))
	c.call.Capabilities.Elicitation = &protocol.ElicitationCapability{Form: true}
	e := c.fails(protocol.CodeMissingRequiredClientCapability)
	if required, _ := e.RequiredCapabilities(); required.String() != "elicitation.url" {
		t.Errorf("missing %s", required)
	}
}
