//lint:file-ignore SA1019 roots are deprecated, and supported for as long as they exist

package gosdk_test

import (
	"context"
	"errors"
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

// The function returning makes a server whose tool, prompt and resource return two dependent
// questions. runs counts the handlers' runs.
func returning(runs *int) *mcp.Server {
	next := func(answers mcp.InputResponseMap, state string) (
		asks mcp.InputRequestMap, nextState, said string) {
		*runs++
		if state == "2" {
			return nil, "", "then " + fmt.Sprint(answers["b"].(*mcp.ElicitResult).Content["text"])
		}
		if a, ok := answers["a"].(*mcp.ElicitResult); ok {
			return mcp.InputRequestMap{"b": form("After " + fmt.Sprint(a.Content["text"]))}, "2", ""
		}
		return mcp.InputRequestMap{"a": form("First?"), "r": &mcp.ListRootsParams{}}, "1", ""
	}
	s := newServer(nil)
	tool := func(_ context.Context, req *toolRequest) (*toolResult, error) {
		asks, state, said := next(req.Params.InputResponses, req.Params.RequestState)
		if asks == nil {
			return textf("%s", said), nil
		}
		return &mcp.CallToolResult{InputRequests: asks, RequestState: state}, nil
	}
	addTool(s, "typed", tool)
	addRaw(s, "raw", tool)
	addRaw(s, "state", func(_ context.Context, req *toolRequest) (*toolResult, error) {
		*runs++
		if req.Params.RequestState == "1" {
			return textf("then done"), nil
		}
		return &mcp.CallToolResult{RequestState: "1"}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "prompt"}, func(_ context.Context, req *mcp.GetPromptRequest) (
		*mcp.GetPromptResult, error) {
		asks, state, said := next(req.Params.InputResponses, req.Params.RequestState)
		if asks != nil {
			return &mcp.GetPromptResult{InputRequests: asks, RequestState: state}, nil
		}
		return &mcp.GetPromptResult{Description: said}, nil
	})
	s.AddResource(&mcp.Resource{URI: "x://y", Name: "y"}, func(_ context.Context,
		req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		asks, state, said := next(req.Params.InputResponses, req.Params.RequestState)
		if asks != nil {
			return &mcp.ReadResourceResult{InputRequests: asks, RequestState: state}, nil
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: said}}}, nil
	})
	return s
}

const (
	formOf = `"requestedSchema":{"properties":{"text":{"type":"string"}},"type":"object"}`
	first  = `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create",` +
		`"params":{"mode":"form","message":"First?",` + formOf + `}},"r":{"method":"roots/list",` +
		`"params":{}}},"requestState":"1"}`
	second = `{"resultType":"input_required","inputRequests":{"b":{"method":"elicitation/create",` +
		`"params":{"mode":"form","message":"After it",` + formOf + `}}},"requestState":"2"}`
)

func TestReturnedQuestionsComeOutAsTheyAre(t *testing.T) {
	runs := 0
	for _, test := range []struct {
		method, name string
		done         string
		first        int // runs of the first call; older revisions take one more to be told apart
	}{
		{"tools/call", `"name":"typed"`, "then it", 2},
		{"tools/call", `"name":"raw"`, "then it", 2},
		{"prompts/get", `"name":"prompt"`,
			`{"resultType":"complete","description":"then it","messages":null}`, 2},
		{"resources/read", `"uri":"x://y"`, `{"ttlMs":0,"cacheScope":"public","contents":` +
			`[{"uri":"x://y","text":"then it"}],"resultType":"complete"}`, 2},
	} {
		c := open(t, returning(&runs))
		for call, wantRuns := range []int{test.first, 1} {
			runs = 0
			b := &back{}
			send := func(answers string) string {
				return textOf(c.Send(context.Background(), test.method,
					"{"+test.name+answers+"}", b))
			}
			want(t, test.name, send(""), first)
			if runs != wantRuns {
				t.Errorf("%s, call %d: %d runs, want %d", test.name, call+1, runs, wantRuns)
			}
			want(t, test.name+" second", send(`,"requestState":"1","inputResponses":{"a":`+
				`{"action":"accept","content":{"text":"it"}},"r":{"roots":[]}}`), second)
			got := send(`,"requestState":"2","inputResponses":{"b":{"action":"accept",` +
				`"content":{"text":"it"}}}`)
			if !sameJSON(got, test.done) {
				t.Errorf("%s: got %s, want %s", test.name, got, test.done)
			}
			want(t, test.name+" pushed", b.List(), "")
		}
	}
	c := open(t, returning(&runs))
	want(t, "state alone", c.Call("state", nil),
		`{"resultType":"input_required","requestState":"1"}`)
}

// hide hides the SDK's texts for returned questions, as in another release.
func hide(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if err != nil {
			err = errors.New("hidden")
		}
		return result, err
	}
}

// answerForm answers the questions of returning, or defers them.
func answerForm(_ context.Context, req *protocol.Request) (string, error) {
	if req.Method == "roots/list" {
		return `{"roots":[]}`, nil
	}
	return `{"action":"accept","content":{"text":"it"}}`, nil
}

func TestReturnedQuestionsAreAskedByTheSDKWhereItSaysNothingElse(t *testing.T) {
	runs := 0
	for _, test := range []struct {
		what    string
		version protocol.Version
		hidden  bool
		runs    int
		again   string // result once the style is known
	}{
		{"in a session of an older revision", protocol.V20251125, false, 2, second},
		{"where the words are unknown", protocol.V20260728, true, 3, first},
	} {
		s := returning(&runs)
		if test.hidden {
			s.AddReceivingMiddleware(hide)
		}
		c := hostedtest.OpenAs(t, gosdk.Peer(s, nil), &hosted.Caller{Version: test.version},
			noCapabilities)
		for _, tool := range []string{"typed", "raw"} {
			runs = 0
			b := &back{Answer: answerForm}
			want(t, test.what, c.Call(tool, b), second)
			if runs != test.runs || !strings.Contains(b.List(), "First?") ||
				!strings.Contains(b.List(), "roots/list") {
				t.Errorf("%s: %d runs asked %s", test.what, runs, b.List())
			}
			want(t, test.what+", again", c.Call(tool, b), test.again)
		}
	}
	t.Run("one that is put off", func(t *testing.T) {
		s := returning(&runs)
		s.AddReceivingMiddleware(hide)
		c := open(t, s)
		b := &back{Answer: func(context.Context, *protocol.Request) (string, error) {
			return "", roundtrip.ErrPending
		}}
		want(t, "raw", c.Call("raw", b), "-32603 hidden")
		if !strings.Contains(b.List(), "First?") {
			t.Errorf("asked %q", b.List())
		}
	})
}

func TestTheSDKHasTheWordsForReturnedQuestions(t *testing.T) {
	runs := 0
	for _, test := range []struct{ method, params, want string }{
		{"tools/call", `{"name":"raw"}`, "multi-round-trip: "},
		{"prompts/get", `{"name":"prompt"}`, "multi-round-trip: "},
		{"resources/read", `{"uri":"x://y"}`,
			"reading resource x://y: read handler returned nil information"},
	} {
		got := ""
		s := returning(&runs)
		s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				result, err := next(ctx, method, req)
				if err != nil {
					got = err.Error()
				}
				return result, err
			}
		})
		_, _ = open(t, s).Send(t.Context(), test.method, test.params, nil)
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: the SDK says %q, want %q: see returned.go", test.method, got, test.want)
		}
	}
}

func TestWhatAHandlerReturnsAndPushes(t *testing.T) {
	s := newServer(nil)
	addTool(s, "push then return", func(ctx context.Context, req *toolRequest) (
		*mcp.CallToolResult, error) {
		said, err := asks["form"](ctx, req.Session)
		if err != nil {
			return nil, err
		}
		if a, ok := req.Params.InputResponses["b"].(*mcp.ElicitResult); ok {
			return textf("%s and %v", said, a.Content["text"]), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"b": form("Sure?")}}, nil
	})
	addTool(s, "url", func(context.Context, *toolRequest) (*toolResult, error) {
		return nil, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{visit("7")})
	})
	addRaw(s, "busy", func(context.Context, *toolRequest) (*toolResult, error) {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}, nil
	})
	addRaw(s, "content too", func(context.Context, *toolRequest) (*toolResult, error) {
		result := textf("x")
		result.InputRequests = mcp.InputRequestMap{"a": form("?")}
		return result, nil
	})
	c := open(t, s)
	for tool, result := range map[string]string{
		// The SDK repeats a question that the handler pushed before.
		"push then return": "accept it and it",
		"url": `-32042 URL elicitation required {"elicitations":[{"mode":"url","message":"Pay",` +
			`"url":"https://pay.example/7","elicitationId":"7"}]}`,
		"busy":        "-32603 the server is busy, retry later",
		"content too": "-32603 server bug: result has both content and inputRequests",
	} {
		want(t, tool, c.Call(tool, &back{Answer: answerForm}), result)
	}
}
