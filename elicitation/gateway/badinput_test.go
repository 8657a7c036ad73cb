package gateway_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// An upstream that breaks the protocol harms no call.
func TestAnUpstreamThatKeepsToNoRulesHarmsNoCall(t *testing.T) {
	t.Parallel()
	ask := func(url string) func(*rawCall) string {
		return func(c *rawCall) string {
			c.event(fmt.Sprintf(rawVisit, url))
			return c.takeAnswer()
		}
	}
	for _, test := range []struct {
		name    string
		call    func(c *rawCall) (got string)
		want    string // what the upstream got
		visible string // shown during each call
		urls    bool   // the client supports URL mode
		result  string // "" means "done"
	}{
		{name: "uses the id of a question again", call: func(c *rawCall) string {
			c.ask(7, "one")
			first := c.takeAnswer()
			c.ask(7, "two")
			return first + c.takeAnswer()
		}, want: "answer to one|answer to two", visible: "one two"},
		{name: "asks twice at once under one id", call: func(c *rawCall) string {
			c.ask(7, "many")
			c.ask(7, "many")
			return c.takeAnswer() + " and " + c.takeAnswer()
		}, want: `"id":7|} and {`, visible: "many"},
		{name: "asks what was not declared", call: ask("https://example.com/"), want: `"error"`},
		{name: "asks to open a script", call: ask("javascript:alert(1)"), want: `"error"`,
			urls: true},
		{name: "asks to open a file", call: ask("file:///etc/passwd"), want: `"error"`,
			urls: true},
		{name: "asks to open nothing", call: ask(""), want: `"error"`, urls: true},
		{name: "answers twice, and asks after the end", call: func(c *rawCall) string {
			c.text("done")
			c.text("late")
			c.ask(9, "late")
			c.text("done")
			return ""
		}},
		{name: "asks a hundred times at once", call: func(c *rawCall) string {
			for i := range 100 {
				c.ask(100+i, "many")
			}
			for i := range 100 {
				if c.takeAnswer() == "no answer" {
					return fmt.Sprint(i, " answers")
				}
			}
			return "100 answers"
		}, want: "100 answers", visible: "many"},
		{name: "asks with 17 MiB", call: func(c *rawCall) string {
			c.ask(9, strings.Repeat("a", 17<<20))
			return ""
		}, result: "What the tool did is not known"},
	} {
		for _, era := range bothEras {
			t.Run(fmt.Sprintf("%s, %v client", test.name, era), func(t *testing.T) {
				got := make(chan string, 2)
				upstream := startRaw(t, func(c *rawCall) { got <- test.call(c) })
				p := &person{answer: func(_ context.Context, message string) *protocol.ElicitResult {
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
				c := connectWith(t, front(t, ops(upstream, protocol.Legacy)), opts, "ops_x")
				for range 2 {
					if got := callText(t, c, "ops_x"); strings.HasPrefix(got, "error: ") ||
						!strings.Contains(got, cmp.Or(test.result, "done")) {
						t.Fatalf("got %.200q", got)
					}
					said := <-got
					for part := range strings.SplitSeq(test.want, "|") {
						wantPart(t, "the upstream got", said, part)
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

// A state is valid only for its caller and its upstream.
func TestNobodyElseContinuesACall(t *testing.T) {
	u, other := startUpstream(t), startUpstream(t)
	elsewhereToo := ops(other.url, protocol.Legacy)
	elsewhereToo.Name = "dev"
	url := frontByUser(t, ops(u.url, protocol.Legacy), elsewhereToo)
	ann := byHandAs(t, url, "ann", asksForms, "ops_deploy", "dev_deploy")
	bob := byHandAs(t, url, "bob", asksForms, "ops_deploy", "dev_deploy")
	pending := answered(t, begin(t, ann), target{"production"})
	elsewhere := &client.Pending{}
	data, err := json.Marshal(pending)
	noError(t, err)
	moved := strings.ReplaceAll(string(data), `"ops_deploy"`, `"dev_deploy"`)
	if err := json.Unmarshal([]byte(moved), elsewhere); err != nil || moved == string(data) {
		t.Fatal(err, moved)
	}
	for name, try := range map[string]struct {
		*client.Client
		*client.Pending
	}{"another caller": {bob, pending}, "another upstream": {ann, elsewhere}} {
		result, next, err := try.Resume(t.Context(), try.Pending)
		if said, ok := protocol.AsError(err); !ok || said.Code != protocol.CodeInvalidParams {
			t.Errorf("%s: got %v, %v, %v", name, result, next, err)
		}
	}
	_, second, err := ann.Resume(t.Context(), pending)
	if err != nil || second == nil {
		t.Fatal(second, err)
	}
	resume(t, ann, second, confirmation{true})
	u.want(t, 1, 1)
	other.want(t, 0, 0)
}
