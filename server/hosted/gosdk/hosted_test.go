package gosdk_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
)

// A person answers each question with its message, and records it.
type person struct {
	mu    sync.Mutex
	asked []string
}

func (p *person) answer(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q.Message)
	return client.Accept(map[string]any{"text": q.Message})
}

func dial(t testing.TB, h *hosted.Server, era protocol.Era, p *person) *client.Client {
	t.Helper()
	opts := client.Options{}
	if p != nil {
		opts.ElicitForm = p.answer
		opts.ListRoots = func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
			return nil, nil
		}
	}
	return hostedtest.NewClient(t, hostedtest.Dial(t, h, ""), era, opts)
}

func host(t testing.TB, s *mcp.Server, opts *gosdk.Options) *hosted.Server {
	t.Helper()
	h, err := gosdk.New(s, opts)
	noError(t, err)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func styles() *mcp.Server {
	runs := 0
	s := returning(&runs)
	addText(s, "push", func(ctx context.Context, req *toolRequest) (string, error) {
		said := ""
		for _, message := range []string{"Why?", "Why?", "Sure?"} {
			a, err := req.Session.Elicit(ctx, form(message))
			if err != nil {
				return "", err
			}
			said += fmt.Sprint(a.Content["text"])
		}
		return said, nil
	})
	addTool(s, "elsewhere", func(ctx context.Context, req *toolRequest) (*toolResult, error) {
		first, err := req.Session.Elicit(ctx, form("Here?"))
		if err != nil {
			return nil, err
		}
		said := make(chan *mcp.ElicitResult, 1)
		go func() {
			a, _ := req.Session.Elicit(ctx, form("Elsewhere?"))
			said <- a
		}()
		if a := <-said; a != nil {
			return textf("%v%v", first.Content["text"], a.Content["text"]), nil
		}
		return nil, errors.New("no answer")
	})
	addText(s, "ask", func(ctx context.Context, _ *toolRequest) (string, error) {
		a, err := roundtrip.Ask[struct {
			Text string `json:"text"`
		}](ctx, "why", "Why?")
		return a.Text, err
	})
	addText(s, "swallow", func(ctx context.Context, req *toolRequest) (string, error) {
		_, _ = req.Session.Elicit(ctx, form("May I?"))
		return "did it", nil
	})
	addTool(s, "panic", panics("x"))
	return s
}

func TestHandlersAskClientsOfBothEras(t *testing.T) {
	for _, eras := range [][]protocol.Era{{protocol.Modern, protocol.Legacy},
		{protocol.Legacy, protocol.Modern}} {
		h := host(t, styles(), nil)
		for _, era := range eras {
			p := &person{}
			c := dial(t, h, era, p)
			for _, test := range []struct {
				tool, want string
				asked      []string
			}{
				{"push", "Why?Why?Sure?", []string{"Sure?", "Why?", "Why?"}},
				{"typed", "then After First?", []string{"After First?", "First?"}},
				{"raw", "then After First?", []string{"After First?", "First?"}},
				{"state", "then done", nil},
				{"elsewhere", "Here?Elsewhere?", []string{"Elsewhere?", "Here?"}},
				{"ask", "Why?", []string{"Why?"}},
				{"swallow", "did it", []string{"May I?"}},
				{"panic", "error: internal error (code -32603)", nil},
			} {
				for range 2 { // the second time it is known how the handler asks
					p.asked = nil
					got := hostedtest.CallTool(t, c, test.tool)
					slices.Sort(p.asked)
					if got != test.want || !slices.Equal(p.asked, test.asked) {
						t.Errorf("%v %s: got %s after %q, want %s after %q", era, test.tool, got,
							p.asked, test.want, test.asked)
					}
				}
			}
			// If a client cannot be asked, a handler that proceeds without an answer fails.
			if got := hostedtest.CallTool(t, dial(t, h, era, nil), "swallow"); got == "did it" ||
				!strings.Contains(got, "elicitation") {
				t.Errorf("%v: got %s", era, got)
			}
		}
	}
}

// Handlers see only declared capabilities.
func TestReturnedQuestionsAreThoseThatTheClientDeclares(t *testing.T) {
	s := newServer(nil)
	addTool(s, "looks", func(_ context.Context, req *toolRequest) (*toolResult, error) {
		if req.ClientCapabilities().Elicitation == nil {
			return textf("without"), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"a": form("Why?")}}, nil
	})
	h := host(t, s, nil)
	if got := hostedtest.CallTool(t, dial(t, h, protocol.Modern, nil), "looks"); got != "without" {
		t.Errorf("got %q", got)
	}
}

// The first call of a handler that returns questions runs it twice in a round with one memo; later
// the style is known. In older sessions the SDK always runs it twice, so memos are not kept there.
func TestHandlersThatReturnQuestionsKeepMemos(t *testing.T) {
	s := newServer(nil)
	addTool(s, "memo", func(ctx context.Context, req *toolRequest) (*toolResult, error) {
		kept, err := roundtrip.Memo(ctx, "kept", func(context.Context) (int, error) {
			return 7, nil
		})
		if err != nil {
			return nil, err
		}
		if a, ok := req.Params.InputResponses["a"].(*mcp.ElicitResult); ok {
			return textf("%d %s", kept, a.Action), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"a": form("Sure?")}}, nil
	})
	h := host(t, s, nil)
	c := dial(t, h, protocol.Modern, &person{})
	hostedtest.CallTool(t, c, "memo")
	want(t, "modern", hostedtest.CallTool(t, c, "memo"), "7 accept")
}

// With TrueRevision servers act as in revision 2026-07-28.
func TestTrueRevision(t *testing.T) {
	for _, declared := range []bool{false, true} {
		s := styles()
		addTool(s, "revision", func(_ context.Context, req *toolRequest) (*toolResult, error) {
			forms := req.ClientCapabilities().Elicitation != nil
			return textf("%s %v", req.ProtocolVersion(), forms), nil
		})
		s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				result, err := next(ctx, method, req)
				if list, ok := result.(*mcp.ListToolsResult); ok &&
					req.(*mcp.ListToolsRequest).ProtocolVersion() == string(protocol.V20260728) {
					list.Tools = list.Tools[:1]
				}
				return result, err
			}
		})
		h := host(t, s, &gosdk.Options{TrueRevision: declared})
		for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
			p := &person{}
			c := dial(t, h, era, p)
			want := string(protocol.V20251125)
			if declared && era == protocol.Modern {
				want = string(protocol.V20260728)
			}
			if got := hostedtest.CallTool(t, c, "revision"); got != want+" true" {
				t.Errorf("%v: handlers see %s, want %s", era, got, want)
			}
			tools, err := c.ListTools(t.Context(), "")
			if err != nil || (len(tools.Tools) == 1) != (want == string(protocol.V20260728)) {
				t.Errorf("%v: %d tools, %v", era, len(tools.Tools), err)
			}
			for _, tool := range []string{"typed", "ask"} {
				if got := hostedtest.CallTool(t, c, tool); strings.Contains(got, "failed") {
					t.Errorf("%v: %s: %s", era, tool, got)
				}
			}
		}
	}
}

func TestServersForEachCaller(t *testing.T) {
	shared := newServer(nil)
	depth := func(context.Context, *toolRequest) (*toolResult, error) {
		callers := make([]uintptr, 500)
		frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
		n := 0
		for frame, more := frames.Next(); more; frame, more = frames.Next() {
			if strings.HasSuffix(frame.Function, "roundtrip.ContinueHandler") {
				n++
			}
		}
		return textf("%d", n), nil
	}
	addTool(shared, "depth", depth)
	made := 0
	h, err := gosdk.NewEach(func(context.Context, *hosted.Caller) (*mcp.Server, error) {
		made++
		return shared, nil
	}, &gosdk.Options{Options: hosted.Options{PerRequest: true}})
	noError(t, err)
	defer h.Close()
	c := dial(t, h, protocol.Modern, nil)
	for range 3 {
		want(t, "runs within the middleware", hostedtest.CallTool(t, c, "depth"), "1")
	}
	if made < 4 || countSessions(shared) != 0 {
		t.Errorf("%d servers were made, and %d sessions are left", made, countSessions(shared))
	}
	if _, err := gosdk.New(nil, nil); err == nil {
		t.Error("a server of nothing")
	}
	for _, failed := range []error{nil, errors.New("no server")} {
		if _, err := gosdk.NewEach(func(context.Context, *hosted.Caller) (*mcp.Server, error) {
			return nil, failed
		}, nil); err == nil || failed != nil && !errors.Is(err, failed) {
			t.Errorf("got %v, want %v", err, failed)
		}
	}
}

func TestServersForEachCallerAreFreed(t *testing.T) {
	made, freed := 0, make(chan struct{}, 100)
	h, err := gosdk.NewEach(func(context.Context, *hosted.Caller) (*mcp.Server, error) {
		s := returning(new(int))
		made++
		runtime.AddCleanup(s, func(freed chan struct{}) { freed <- struct{}{} }, freed)
		return s, nil
	}, &gosdk.Options{Options: hosted.Options{PerRequest: true}})
	noError(t, err)
	defer h.Close()
	want(t, "call", hostedtest.CallTool(t, dial(t, h, protocol.Modern, &person{}), "raw"),
		"then After First?")
	collect, timeout := time.NewTicker(10*time.Millisecond), time.After(10*time.Second)
	defer collect.Stop()
	for made > 0 {
		select {
		case <-freed:
			made--
		case <-collect.C:
			runtime.GC()
		case <-timeout:
			t.Fatalf("%d servers are kept", made)
		}
	}
}

// A caller's revision does not leak to the next caller.
func TestCallersOfOlderRevisionsStayWhatTheyAre(t *testing.T) {
	s := newServer(nil)
	addTool(s, "new", func(_ context.Context, req *toolRequest) (*toolResult, error) {
		if req.ProtocolVersion() < string(protocol.V20260728) {
			return textf("refused"), nil
		}
		if _, ok := req.Params.InputResponses["a"]; ok {
			return textf("done"), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"a": form("Sure?")}}, nil
	})
	h := host(t, s, &gosdk.Options{TrueRevision: true})
	want(t, "modern", hostedtest.CallTool(t, dial(t, h, protocol.Modern, &person{}), "new"), "done")
	want(t, "legacy", hostedtest.CallTool(t, dial(t, h, protocol.Legacy, &person{}), "new"),
		"refused")
}
