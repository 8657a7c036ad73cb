package gateway_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const rawAsk = `{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":{"message":"%s",` +
	`"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}`

// takeAnswer returns the next answer that an upstream gets.
func (u *rawUpstream) takeAnswer() string {
	select {
	case a := <-u.answers:
		return a
	case <-time.After(5 * time.Second):
		return "no answer"
	}
}

// rawVisit is a question that asks to open a URL.
const rawVisit = `{"jsonrpc":"2.0","id":8,"method":"elicitation/create","params":{"mode":"url",` +
	`"message":"look","url":"%s","elicitationId":"x"}}`

// An upstream that keeps to no rules gets an error or nothing, and its calls end as they should.
func TestAnUpstreamThatKeepsToNoRulesHarmsNoCall(t *testing.T) {
	t.Parallel()
	ask := func(url string) func(*rawUpstream, json.RawMessage, func(string)) string {
		return func(u *rawUpstream, _ json.RawMessage, event func(string)) string {
			event(fmt.Sprintf(rawVisit, url))
			return u.takeAnswer()
		}
	}
	for _, test := range []struct {
		name    string
		call    func(u *rawUpstream, id json.RawMessage, event func(string)) (got string)
		want    string // what the upstream got
		visible string // what was shown, each call
		urls    bool   // the client opens them
		result  string // "": done
	}{
		{name: "uses the id of a question again", call: func(
			u *rawUpstream, _ json.RawMessage, event func(string)) string {
			event(fmt.Sprintf(rawAsk, "7", "one"))
			first := u.takeAnswer()
			event(fmt.Sprintf(rawAsk, "7", "two"))
			return first + u.takeAnswer()
		}, want: "answer to one|answer to two", visible: "one two"},
		{name: "asks twice at once under one id", call: func(
			u *rawUpstream, _ json.RawMessage, event func(string)) string {
			event(fmt.Sprintf(rawAsk, "7", "many"))
			event(fmt.Sprintf(rawAsk, "7", "many"))
			return u.takeAnswer() + " and " + u.takeAnswer()
		}, want: `"id":7|} and {`, visible: "many"},
		{name: "asks what was not declared", call: ask("https://example.com/"), want: `"error"`},
		{name: "asks to open a script", call: ask("javascript:alert(1)"), want: `"error"`,
			urls: true},
		{name: "asks to open a file", call: ask("file:///etc/passwd"), want: `"error"`,
			urls: true},
		{name: "asks to open nothing", call: ask(""), want: `"error"`, urls: true},
		{name: "answers twice, and asks after the end", call: func(
			_ *rawUpstream, id json.RawMessage, event func(string)) string {
			event(fmt.Sprintf(rawDone, id))
			event(fmt.Sprintf(strings.Replace(rawDone, "done", "late", 1), id))
			event(fmt.Sprintf(rawAsk, "9", "late"))
			return ""
		}},
		{name: "asks a hundred times at once", call: func(
			u *rawUpstream, _ json.RawMessage, event func(string)) string {
			for i := range 100 {
				event(fmt.Sprintf(rawAsk, fmt.Sprint(100+i), "many"))
			}
			for i := range 100 {
				if u.takeAnswer() == "no answer" {
					return fmt.Sprint(i, " answers")
				}
			}
			return "100 answers"
		}, want: "100 answers", visible: "many"},
		{name: "asks with 10 MiB", call: func(
			u *rawUpstream, _ json.RawMessage, event func(string)) string {
			event(fmt.Sprintf(rawAsk, "9", strings.Repeat("a", 10<<20)))
			return ""
		}, result: "What the tool did is not known"},
	} {
		for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
			t.Run(fmt.Sprintf("%s, %v client", test.name, era), func(t *testing.T) {
				u, upstream := startRaw(t, nil)
				got := make(chan string, 2)
				u.call = func(id json.RawMessage, event func(string), _ <-chan string) {
					got <- test.call(u, id, event)
					event(fmt.Sprintf(rawDone, id))
				}
				u.keepAnswers = true
				url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
					{Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: protocol.Legacy}}})
				p := &person{answer: func(message string) *protocol.ElicitResult {
					r, _ := client.Accept(target{"answer to " + message})
					return r
				}}
				opts := client.Options{Era: era, ElicitForm: p.fill}
				if test.urls {
					opts.ElicitURL = func(context.Context, *client.URLQuestion,
					) (*protocol.ElicitResult, error) {
						t.Error("the client was asked to open it")
						return client.Accept(nil)
					}
				}
				c := connectWith(t, url, opts)
				awaitTool(t, c, "ops_x")
				for range 2 {
					result, err := c.CallTool(t.Context(), "ops_x", nil)
					if err != nil || !strings.Contains(textOf(result),
						cmp.Or(test.result, "done")) {
						t.Fatalf("got %.200q, %v", textOf(result), err)
					}
					said := <-got
					for part := range strings.SplitSeq(test.want, "|") {
						if !strings.Contains(said, part) {
							t.Errorf("the upstream got %s, want %s", said, part)
						}
					}
				}
				shown := strings.Join(p.shown, " ")
				want := strings.TrimSpace(test.visible + " " + test.visible)
				if test.visible == "many" {
					want = strings.TrimSpace(strings.Repeat("many ", len(p.shown)))
				}
				if shown != want {
					t.Errorf("shown %.200q, want %q", p.shown, want)
				}
			})
		}
	}
}

// A question that no call is open for reaches nobody, before the first call and after the last.
func TestAQuestionWithoutACallReachesNobody(t *testing.T) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			u, upstream := startRaw(t, nil)
			u.call = func(id json.RawMessage, event func(string), _ <-chan string) {
				event(fmt.Sprintf(rawDone, id))
			}
			u.keepAnswers, u.pushed = true, make(chan string)
			url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
				{Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: protocol.Legacy}}})
			p := &person{}
			c := connect(t, url, era, p)
			awaitTool(t, c, "ops_x")
			askTwice := func() {
				for range 2 { // perhaps in one session each
					u.pushed <- fmt.Sprintf(rawAsk, `"q"`, "lost")
					got := u.takeAnswer()
					if !strings.Contains(got, `"code":-32601`) ||
						!strings.Contains(got, "No client session available") {
						t.Errorf("the upstream got %s", got)
					}
				}
			}
			askTwice()
			result, err := c.CallTool(t.Context(), "ops_x", nil)
			if err != nil || textOf(result) != "done" {
				t.Errorf("got %q, %v", textOf(result), err)
			}
			askTwice()
			if len(p.shown) > 0 {
				t.Errorf("shown %q", p.shown)
			}
		})
	}
}

// A state is good for the caller alone to whom it was given, at the upstream that it is of.
func TestNobodyElseContinuesACall(t *testing.T) {
	u, other := startUpstream(t), startUpstream(t)
	_, url := serveGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(u.url, nil), Era: protocol.Legacy},
		{Name: "dev", Connect: gateway.HTTP(other.url, nil), Era: protocol.Legacy},
	}}, &serverhttp.Options{Authenticate: subjectOf})
	as := func(user string) *client.Client {
		transport, err := clienthttp.New(url, &clienthttp.Options{
			Header: http.Header{"Authorization": {user}}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(transport, &client.Options{NoBusyRetry: true,
			Manual: &protocol.ClientCapabilities{
				Elicitation: &protocol.ElicitationCapability{Form: true}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		awaitTool(t, c, "ops_deploy")
		awaitTool(t, c, "dev_deploy")
		return c
	}
	ann, bob := as("ann"), as("bob")
	pending := answered(t, begin(t, ann), target{"production"})
	elsewhere := &client.Pending{}
	data, err := json.Marshal(pending)
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.ReplaceAll(string(data), `"ops_deploy"`, `"dev_deploy"`)
	if err := json.Unmarshal([]byte(moved), elsewhere); err != nil || moved == string(data) {
		t.Fatal(err, moved)
	}
	for name, try := range map[string]func() (protocol.Result, *client.Pending, error){
		"another caller": func() (protocol.Result, *client.Pending, error) {
			return bob.Resume(t.Context(), pending)
		},
		"another upstream": func() (protocol.Result, *client.Pending, error) {
			return ann.Resume(t.Context(), elsewhere)
		},
	} {
		result, next, err := try()
		if said, ok := protocol.AsError(err); !ok || said.Code != protocol.CodeInvalidParams {
			t.Errorf("%s: got %v, %v, %v", name, result, next, err)
		}
	}
	_, second, err := ann.Resume(t.Context(), pending)
	if err != nil || second == nil {
		t.Fatal(second, err)
	}
	if _, _, err := ann.Resume(t.Context(), answered(t, second, confirmation{true})); err != nil {
		t.Fatal(err)
	}
	if u.calls.Load() != 1 || u.commits.Load() != 1 || other.calls.Load() != 0 {
		t.Errorf("called %d times, %d effects, the other %d times", u.calls.Load(),
			u.commits.Load(), other.calls.Load())
	}
}
