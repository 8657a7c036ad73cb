//lint:file-ignore SA1019 what is deprecated here is supported for as long as it exists

package gosdk_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
)

var textForm = map[string]any{"type": "object",
	"properties": map[string]any{"text": map[string]any{"type": "string"}}}

func form(message string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: textForm}
}

func visit(id string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "url", Message: "Pay", URL: "https://pay.example/" + id,
		ElicitationID: id}
}

// The variable asks has the ways to push a question, with results as text.
var asks = map[string]func(context.Context, *mcp.ServerSession) (string, error){
	"form": func(ctx context.Context, s *mcp.ServerSession) (string, error) {
		a, err := s.Elicit(ctx, form("Why?"))
		if err != nil {
			return "", err
		}
		return fmt.Sprint(a.Action, " ", a.Content["text"]), nil
	},
	"url": func(ctx context.Context, s *mcp.ServerSession) (string, error) {
		a, err := s.Elicit(ctx, visit("7"))
		if err != nil {
			return "", err
		}
		return a.Action, nil
	},
	"sample": func(ctx context.Context, s *mcp.ServerSession) (string, error) {
		a, err := s.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 9})
		if err != nil {
			return "", err
		}
		return a.Model + " " + a.Content.(*mcp.TextContent).Text, nil
	},
	"roots": func(ctx context.Context, s *mcp.ServerSession) (string, error) {
		a, err := s.ListRoots(ctx, nil)
		if err != nil {
			return "", err
		}
		return a.Roots[0].URI, nil
	},
}

func TestPushedQuestionsReachTheirCall(t *testing.T) {
	s := newServer(nil)
	for name, ask := range asks {
		handle := func(ctx context.Context, req *toolRequest) (*toolResult, error) {
			said, err := ask(ctx, req.Session)
			return textf("%s", said), err
		}
		addTool(s, name, handle)
		addRaw(s, "raw "+name, handle)
	}
	c := open(t, s)
	for _, test := range []struct{ tool, answer, asked, want string }{
		{"form", `{"action":"accept","content":{"text":"so"}}`,
			`elicitation/create {"mode":"form","message":"Why?","requestedSchema":` +
				`{"properties":{"text":{"type":"string"}},"type":"object"}}`, "accept so"},
		{"form", `{"action":"decline"}`, "", "decline <nil>"},
		{"form", `{"action":"cancel"}`, "", "cancel <nil>"},
		{"form", `{"action":"accept","content":{"text":1}}`, "", "failed: elicitation result " +
			"content does not match"},
		{"url", `{"action":"accept"}`, `elicitation/create {"mode":"url","message":"Pay",` +
			`"url":"https://pay.example/7","elicitationId":"7"}`, "accept"},
		{"url", `{"action":"decline"}`, "", "decline"},
		{"sample", `{"model":"m","role":"assistant","content":{"type":"text","text":"hi"}}`,
			`sampling/createMessage {"maxTokens":9,"messages":[]}`, "m hi"},
		{"roots", `{"roots":[{"uri":"file:///x"}]}`, "roots/list", "file:///x"},
		{"roots", "", "", `failed: calling "roots/list": nobody to ask`},
		{"raw roots", "", "", `-7 calling "roots/list": nobody to ask {"why":1}`},
	} {
		b := hostedtest.Says(test.answer)
		if test.answer == "" {
			refused := protocol.Errorf(-7, "nobody to ask")
			refused.Data = []byte(`{"why":1}`)
			b.Answer = func(context.Context, *protocol.Request) (string, error) {
				return "", refused
			}
		}
		if got := c.Call(test.tool, b); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s with %s: got %s, want %s", test.tool, test.answer, got, test.want)
		}
		if test.asked != "" {
			want(t, test.tool+" asked", b.List(), test.asked)
		}
	}
	want(t, "what belongs to no call", c.Back.List(), "")
}

// onHandler reports whether a question came on its handler's goroutine.
func onHandler(_ context.Context, _ *protocol.Request) (string, error) {
	return fmt.Sprintf(`{"action":"accept","content":{"text":"%t"}}`,
		roundtrip.CalledByHandler()), nil
}

func TestQuestionsOfOtherGoroutines(t *testing.T) {
	runs := 0
	s := newServer(nil)
	addText(s, "own", func(ctx context.Context, req *toolRequest) (string, error) {
		runs++
		return asks["form"](ctx, req.Session)
	})
	elsewhere := func(ctx context.Context, req *toolRequest) (said string, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			said, err = asks["form"](ctx, req.Session)
		}()
		<-done
		return said, err
	}
	addText(s, "other", func(ctx context.Context, req *toolRequest) (string, error) {
		runs++
		return elsewhere(ctx, req)
	})
	addText(s, "swallows", func(ctx context.Context, req *toolRequest) (string, error) {
		runs++
		said, err := elsewhere(ctx, req)
		return fmt.Sprint(said, " ", err), nil
	})
	addText(s, "panics", func(ctx context.Context, req *toolRequest) (string, error) {
		runs++
		said, err := elsewhere(ctx, req)
		if err != nil {
			panic(err)
		}
		return said, nil
	})
	addText(s, "both", func(ctx context.Context, req *toolRequest) (string, error) {
		runs++
		first, err := asks["form"](ctx, req.Session)
		if err != nil {
			return "", err
		}
		said, err := elsewhere(ctx, req)
		return first + ", " + said, err
	})
	for _, version := range []protocol.Version{protocol.V20260728, protocol.V20250618} {
		c := hostedtest.OpenAs(t, gosdk.Peer(s, nil), &hosted.Caller{Version: version},
			noCapabilities)
		for _, test := range []struct {
			tool, want  string
			first, then int // counts of runs, where handlers run again
		}{
			{"own", "accept true", 1, 1},
			{"other", "accept false", 2, 1},
			{"swallows", "accept false <nil>", 2, 1},
			{"panics", "accept false", 2, 1},
			{"both", "accept true, accept false", 1, 1},
		} {
			for i, wantRuns := range []int{test.first, test.then} {
				if version == protocol.V20250618 {
					wantRuns = 1
				}
				runs = 0
				b := &back{Answer: onHandler}
				want(t, test.tool, c.Call(test.tool, b), test.want)
				asked := 1 + strings.Count(test.want, ",")
				if runs != wantRuns || strings.Count(b.List(), "Why?") != asked {
					t.Errorf("%s %s, call %d: %d runs asked %s; want %d runs and %d questions",
						version, test.tool, i+1, runs, b.List(), wantRuns, asked)
				}
			}
		}
	}
}

func TestQuestionsWithoutTheContextOfACall(t *testing.T) {
	s := newServer(nil)
	addText(s, "ask", func(_ context.Context, req *toolRequest) (string, error) {
		return asks["form"](context.Background(), req.Session)
	})
	began, goOn := make(chan struct{}), make(chan struct{})
	addText(s, "wait", func(context.Context, *toolRequest) (string, error) {
		close(began)
		<-goOn
		return "done", nil
	})
	c := open(t, s)
	b := &back{Answer: onHandler}
	want(t, "alone", c.Call("ask", b), "accept true")
	waited := make(chan string)
	go func() { waited <- c.Call("wait", nil) }()
	<-began
	want(t, "beside another", c.Call("ask", b),
		`failed: calling "elicitation/create": nobody to ask`)
	close(goOn)
	want(t, "the other", <-waited, "done")
	if got := c.Back.List(); !strings.Contains(got, "Why?") {
		t.Errorf("the session was asked %q, want the question of no call", got)
	}
}

func TestElicitationIsDeclaredUnlessTrue(t *testing.T) {
	var seen string
	s := newServer(nil)
	addText(s, "ask", func(ctx context.Context, req *toolRequest) (string, error) {
		declared := req.ClientCapabilities()
		seen = fmt.Sprint(declared.Elicitation != nil, declared.Sampling != nil,
			declared.RootsV2 != nil, len(declared.Experimental))
		return asks["form"](ctx, req.Session)
	})
	const partial = `{"roots":{},"experimental":{"x":{}}}`
	for _, test := range []struct {
		declared string
		truly    bool
		seen     string
		want     string
	}{
		{noCapabilities, false, "true false false 0", "accept true"},
		{partial, false, "true false true 1", "accept true"},
		{`{"elicitation":{"url":{}}}`, false, "true false false 0", "accept true"},
		{partial, true, "false false true 1", "failed: client does not support elicitation"},
		{`{"elicitation":{},"sampling":{}}`, true, "true true false 0", "accept true"},
	} {
		p := gosdk.Peer(s, &gosdk.Options{TrueElicitation: test.truly})
		c := hostedtest.OpenAs(t, p, &hosted.Caller{}, test.declared)
		want(t, test.declared, c.Call("ask", &back{Answer: onHandler}), test.want)
		want(t, test.declared+" seen", seen, test.seen)
	}
}
