//lint:file-ignore SA1019 what is deprecated here is supported for as long as it exists

package gosdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

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

// asks are the ways to push a question, and what each returns as text.
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
		handle := func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
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
		b := &back{answer: says(test.answer)}
		if test.answer == "" {
			refused := protocol.Errorf(-7, "nobody to ask")
			refused.Data = []byte(`{"why":1}`)
			b.answer = func(context.Context, *protocol.Request) (string, error) {
				return "", refused
			}
		}
		if got := c.call(test.tool, b); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s with %s: got %s, want %s", test.tool, test.answer, got, test.want)
		}
		if test.asked != "" {
			want(t, test.tool+" asked", b.list(), test.asked)
		}
	}
	want(t, "what belongs to no call", c.back.list(), "")
}

func TestErrorsOfTheWayBackReachHandlers(t *testing.T) {
	var got error
	s := newServer(nil)
	addRaw(s, "raw", func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		_, got = req.Session.Elicit(ctx, form("Why?"))
		return nil, got
	})
	addTool(s, "typed", func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		_, got = req.Session.Elicit(ctx, form("Why?"))
		return nil, got
	})
	c := open(t, s)
	for tool, result := range map[string]string{"raw": "-32603 ", "typed": "failed: "} {
		pending := fmt.Errorf("%w: %s", roundtrip.ErrPending, tool)
		b := &back{answer: func(context.Context, *protocol.Request) (string, error) {
			return "", pending
		}}
		want(t, tool, c.call(tool, b), result+`calling "elicitation/create": `+pending.Error())
		if !errors.Is(got, roundtrip.ErrPending) {
			t.Errorf("%s: the handler got %v", tool, got)
		}
	}
}

// onHandler reports whether a question came on the goroutine of its handler.
func onHandler(_ context.Context, _ *protocol.Request) (string, error) {
	return fmt.Sprintf(`{"action":"accept","content":{"text":"%t"}}`,
		roundtrip.CalledByHandler()), nil
}

func TestQuestionsOfOtherGoroutines(t *testing.T) {
	runs := 0
	s := newServer(nil)
	addTool(s, "own", func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		runs++
		said, err := asks["form"](ctx, req.Session)
		return textf("%s", said), err
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
	addTool(s, "other", func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		runs++
		said, err := elsewhere(ctx, req)
		return textf("%s", said), err
	})
	addTool(s, "swallows", func(ctx context.Context, req *toolRequest) (
		*mcp.CallToolResult, error) {
		runs++
		said, err := elsewhere(ctx, req)
		return textf("%s %v", said, err), nil
	})
	addTool(s, "panics", func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		runs++
		said, err := elsewhere(ctx, req)
		if err != nil {
			panic(err)
		}
		return textf("%s", said), nil
	})
	addTool(s, "both", func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		runs++
		first, err := asks["form"](ctx, req.Session)
		if err != nil {
			return nil, err
		}
		said, err := elsewhere(ctx, req)
		return textf("%s, %s", first, said), err
	})
	for _, version := range []protocol.Version{protocol.V20260728, protocol.V20250618} {
		c := openAt(t, gosdk.Peer(s, nil), &hosted.Caller{Version: version}, noCapabilities)
		for _, test := range []struct {
			tool, want  string
			first, then int // runs, where handlers run again
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
				b := &back{answer: onHandler}
				want(t, test.tool, c.call(test.tool, b), test.want)
				asked := 1 + strings.Count(test.want, ",")
				if runs != wantRuns || strings.Count(b.list(), "Why?") != asked {
					t.Errorf("%s %s, call %d: %d runs asked %s; want %d runs and %d questions",
						version, test.tool, i+1, runs, b.list(), wantRuns, asked)
				}
			}
		}
	}
}

func TestQuestionsWithoutTheContextOfACall(t *testing.T) {
	s := newServer(nil)
	addTool(s, "ask", func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		said, err := asks["form"](context.Background(), req.Session)
		return textf("%s", said), err
	})
	began, goOn := make(chan struct{}), make(chan struct{})
	addTool(s, "wait", func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
		close(began)
		<-goOn
		return textf("done"), nil
	})
	c := open(t, s)
	b := &back{answer: onHandler}
	want(t, "alone", c.call("ask", b), "accept true")
	waited := make(chan string)
	go func() { waited <- c.call("wait", nil) }()
	<-began
	want(t, "beside another", c.call("ask", b),
		`failed: calling "elicitation/create": nobody to ask`)
	close(goOn)
	want(t, "the other", <-waited, "done")
	if got := c.back.list(); !strings.Contains(got, "Why?") {
		t.Errorf("the session was asked %q, want the question of no call", got)
	}
}

func TestQuestionsAfterTheEndOfTheirCall(t *testing.T) {
	s := newServer(nil)
	goOn, late := make(chan struct{}), make(chan error)
	addTool(s, "leave", func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		go func() {
			<-goOn
			ctx := context.WithoutCancel(ctx)
			_ = req.Session.Log(ctx, logged("late"))
			_, err := req.Session.ListRoots(ctx, nil)
			late <- err
		}()
		return textf("left"), nil
	})
	c := open(t, s)
	b := &back{answer: onHandler}
	want(t, "call", c.call("leave", b), "left")
	close(goOn)
	if err := <-late; err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("got %v", err)
	}
	want(t, "sent", b.list(), "")
	want(t, "what belongs to no call any more", c.back.list(),
		`notifications/message {"data":"late","level":"debug"}`)
}

func TestQuestionsEndWithTheirCall(t *testing.T) {
	s := newServer(nil)
	for name, detach := range map[string]func(context.Context) context.Context{
		"own":   func(ctx context.Context) context.Context { return ctx },
		"other": func(context.Context) context.Context { return context.Background() },
	} {
		addTool(s, name, func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			_, err := req.Session.ListRoots(detach(ctx), nil)
			return nil, err
		})
	}
	c := open(t, s)
	left := errors.New("the client has left")
	for _, tool := range []string{"own", "other"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var cause error
		b := &back{answer: func(ctx context.Context, _ *protocol.Request) (string, error) {
			cancel(left)
			<-ctx.Done()
			cause = context.Cause(ctx)
			return "", cause
		}}
		_, _ = c.send(ctx, "tools/call", fmt.Sprintf(`{"name":%q}`, tool), b)
		if cause != left {
			t.Errorf("%s: the question ended because of %v", tool, cause)
		}
	}
}

func TestElicitationIsDeclaredUnlessTrue(t *testing.T) {
	var seen string
	s := newServer(nil)
	addTool(s, "ask", func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		declared := req.ClientCapabilities()
		seen = fmt.Sprint(declared.Elicitation != nil, declared.Sampling != nil,
			declared.RootsV2 != nil, len(declared.Experimental))
		said, err := asks["form"](ctx, req.Session)
		return textf("%s", said), err
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
		c := openAt(t, p, &hosted.Caller{}, test.declared)
		want(t, test.declared, c.call("ask", &back{answer: onHandler}), test.want)
		want(t, test.declared+" seen", seen, test.seen)
	}
}
