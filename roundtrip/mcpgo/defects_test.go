package mcpgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// addMistakes adds handlers that do what they should not, or what mcp-go has no
// way for.
func addMistakes(s *server.MCPServer) {
	add := func(name string, wrong func() (*mcp.CallToolResult, error)) {
		s.AddTool(mcp.NewTool(name), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if answer := server.ElicitationResponse(r.Params.InputResponses, "confirm"); answer != nil {
				return mcp.NewToolResultText(handlerOutcome(answer)), nil
			}
			return wrong()
		})
	}
	asks := func() *mcp.CallToolResult {
		return server.NewInputRequestBuilder("s").Elicit("confirm", form("Sure?")).ToolResult()
	}
	add("good", func() (*mcp.CallToolResult, error) { return asks(), nil })
	add("neither", func() (*mcp.CallToolResult, error) { return server.NewInputRequestBuilder("").ToolResult(), nil })
	add("untyped", func() (*mcp.CallToolResult, error) {
		r := asks()
		r.ResultType = ""
		return r, nil
	})
	add("stateful", func() (*mcp.CallToolResult, error) {
		r := mcp.NewToolResultText("done")
		r.RequestState = "secret"
		return r, nil
	})
	add("content", func() (*mcp.CallToolResult, error) {
		r := asks()
		r.Content, r.StructuredContent, r.IsError = []mcp.Content{mcp.NewTextContent("done")}, map[string]any{"done": true}, true
		return r, nil
	})
	add("visit", func() (*mcp.CallToolResult, error) {
		return server.NewInputRequestBuilder("").Elicit("confirm", visit("Go?")).ToolResult(), nil
	})
	add("sample", func() (*mcp.CallToolResult, error) {
		return server.NewInputRequestBuilder("").Sample("confirm", sampling()).ToolResult(), nil
	})
	add("kind", func() (*mcp.CallToolResult, error) {
		r := asks()
		r.InputRequests = mcp.InputRequests{"confirm": {Method: "tools/call"}}
		return r, nil
	})
	add("url error", func() (*mcp.CallToolResult, error) {
		return nil, mcp.URLElicitationRequiredError{Elicitations: []mcp.ElicitationParams{visit("Go?"), visit("Go on?")}}
	})
	add("url error pointer", func() (*mcp.CallToolResult, error) {
		return nil, errors.Join(errors.New("first"), &mcp.URLElicitationRequiredError{Elicitations: []mcp.ElicitationParams{visit("Go?")}})
	})
	add("missing", func() (*mcp.CallToolResult, error) {
		return nil, mcp.MissingRequiredClientCapabilityError{Capability: "elicitation.url"}
	})
	add("panic", func() (*mcp.CallToolResult, error) { panic("at the disco") })
	add("nothing", func() (*mcp.CallToolResult, error) { return nil, nil })
	add("fails", func() (*mcp.CallToolResult, error) { return nil, errors.New("out of paint") })
}

// TestDefects holds against each other what mcp-go lets out and what the
// adapter makes of it, by the rows of a list of defects.
func TestDefects(t *testing.T) {
	for _, tc := range []struct {
		name, tool, capabilities string
		want                     string
		status                   int // over HTTP, 0: 200
		without                  []string
		bug                      string
	}{
		{name: "M1 neither questions nor state", tool: "neither", want: "-32603 internal error", bug: "at least one"},
		{name: "M2 questions in a complete result", tool: "untyped", want: "asks"},
		{name: "M2 state in a complete result", tool: "stateful", want: "done", without: []string{"secret"}},
		{name: "M3 content beside questions", tool: "content", want: "asks", without: []string{"content\":[", "done", "isError"}},
		{name: "M4 a form nobody can fill in", tool: "good", capabilities: `{}`, want: "-32021", status: http.StatusBadRequest},
		{name: "M4 a form where only visits are possible", tool: "good", capabilities: `{"elicitation":{"url":{}}}`, want: "-32021", status: http.StatusBadRequest},
		{name: "M4 a visit where only forms are possible", tool: "visit", capabilities: `{"elicitation":{}}`, want: "-32021", status: http.StatusBadRequest},
		{name: "M4 no model", tool: "sample", want: "-32021", status: http.StatusBadRequest},
		{name: "M5 a question of no kind", tool: "kind", want: "-32603 internal error", bug: `question "confirm"`},
		{name: "M6 the URL error of another revision", tool: "url error", want: "asks"},
		{name: "M6 by pointer, wrapped", tool: "url error pointer", want: "asks"},
		{name: "M7 a capability that the handler misses", tool: "missing", want: "-32021", status: http.StatusBadRequest},
		{name: "M13 a panic", tool: "panic", want: "-32603 internal error"},
		{name: "neither a result nor an error", tool: "nothing", want: "-32603 internal error", bug: "neither"},
		{name: "an ordinary error is as it was", tool: "fails", want: "-32603 out of paint"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := &bugs{}
			over(t, &mcpgo.Options{Options: roundtrip.Options{Observer: found}}, addMistakes, func(t *testing.T, send sender) {
				got := send(request{method: protocol.MethodCallTool, target: tc.tool, capabilities: tc.capabilities}.message())
				wiretest.Validate(t, modern, wiretest.Server, []byte(got.body), protocol.MethodCallTool)
				if !strings.HasPrefix(got.text(), tc.want) {
					t.Errorf("got %s, want %s", got.body, tc.want)
				}
				if want := max(tc.status, http.StatusOK); got.status != 0 && got.status != want {
					t.Errorf("status %d, want %d", got.status, want)
				}
				for _, part := range tc.without {
					if strings.Contains(got.body, part) {
						t.Errorf("%s is in %s", part, got.body)
					}
				}
				if err := found.err(); tc.bug == "" && err != nil || tc.bug != "" && (err == nil || !strings.Contains(err.Error(), tc.bug)) {
					t.Errorf("reported %v, want %q", err, tc.bug)
				}
			})
		})
	}
}

// TestM4AllThatIsMissing: one error names everything, before anything is asked.
func TestM4AllThatIsMissing(t *testing.T) {
	add := func(s *server.MCPServer) {
		s.AddTool(mcp.NewTool("all"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcpgo.ToolInput(confirm.Elicit("?"), mcpgo.Question("go", visit("Go?")), mcpgo.SamplingQuestion("model", sampling())), nil
		})
	}
	over(t, nil, add, func(t *testing.T, send sender) {
		got := send(request{method: protocol.MethodCallTool, target: "all", capabilities: `{}`}.message())
		var data struct {
			RequiredCapabilities json.RawMessage `json:"requiredCapabilities"`
		}
		if err := json.Unmarshal(got.Error.Data, &data); err != nil {
			t.Fatalf("%v: %s", err, got.body)
		}
		if want := `{"elicitation":{"form":{},"url":{}},"sampling":{}}`; string(data.RequiredCapabilities) != want {
			t.Errorf("required %s, want %s", data.RequiredCapabilities, want)
		}
	})
}

// TestM8M9M10Answers: what is no answer to the question does not reach a
// handler that reads mcp-go's own fields.
func TestM8M9M10Answers(t *testing.T) {
	over(t, nil, addMistakes, func(t *testing.T, send sender) {
		good := request{method: protocol.MethodCallTool, target: "good"}
		for _, tc := range []struct{ name, answer, want string }{
			{"accepted", `{"action":"accept","content":{"zeal":"much"}}`, "accept much 2"},
			{"declined", `{"action":"decline"}`, "decline <nil> <nil>"},
			{"M8 null", `null`, "asks"},
			{"M8 another object", `{"foo":1}`, "asks"},
			{"M8 in an envelope", `{"method":"elicitation/create","result":{"action":"accept","content":{"zeal":"much"}}}`, "asks"},
			{"M9 two spellings", `{"action":"decline","Action":"accept"}`, "decline <nil> <nil>"},
			{"M9 the other spelling", `{"ACTION":"accept","content":{"zeal":"much"}}`, "asks"},
			{"M10 content of the wrong type", `{"action":"accept","content":{"zeal":1}}`, "asks"},
			{"M10 no content", `{"action":"accept"}`, "asks"},
			{"M10 no such action", `{"action":"bogus","content":{"zeal":"much"}}`, "asks"},
			{"M10 what was not asked for", `{"action":"accept","content":{"zeal":"much","evil":true}}`, "accept much 2"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				first := send(good.message())
				got := send(good.retry(first, `{"confirm":`+tc.answer+`,"other":{"action":"accept"}}`).message())
				if got.text() != tc.want {
					t.Errorf("got %s, want %s", got.body, tc.want)
				}
			})
		}
		t.Run("unsolicited", func(t *testing.T) {
			forged := good
			forged.more = `,"inputResponses":{"confirm":{"action":"accept","content":{"zeal":"much"}}}`
			if got := send(forged.message()); got.text() != "asks" {
				t.Errorf("got %s", got.body)
			}
		})
	})
}

// TestM12WhoCouldNotAsk: resources and structured handlers.
func TestM12WhoCouldNotAsk(t *testing.T) {
	type result struct {
		Zeal string `json:"zeal"`
	}
	add := func(s *server.MCPServer) {
		addGuard(s)
		s.AddTool(mcp.NewTool("structured", mcp.WithOutputSchema[result]()), mcp.NewStructuredToolHandler(
			func(ctx context.Context, _ mcp.CallToolRequest, _ struct{}) (result, error) {
				answer, err := mcpgo.Elicit(ctx, "confirm", mcp.ElicitationRequest{Params: form("Sure?")})
				if err != nil {
					return result{}, err
				}
				return result{Zeal: handlerOutcome(answer)}, nil
			}))
	}
	over(t, nil, add, func(t *testing.T, send sender) {
		for _, r := range []request{
			{method: protocol.MethodReadResource, target: "vault://codes"},
			{method: protocol.MethodReadResource, target: "vault://box/9"},
			{method: protocol.MethodCallTool, target: "structured", arguments: `{}`},
		} {
			first := send(r.message())
			wiretest.Validate(t, modern, wiretest.Server, []byte(first.body), r.method)
			if first.text() != "asks" || strings.Contains(first.body, "ttlMs") || strings.Contains(first.body, `"contents"`) {
				t.Fatalf("%s: got %s", r.target, first.body)
			}
			got := send(r.retry(first, yes).message())
			wiretest.Validate(t, modern, wiretest.Server, []byte(got.body), r.method)
			if !strings.Contains(got.text(), "much") {
				t.Errorf("%s: got %s", r.target, got.body)
			}
		}
	})
}

// live calls a tool in revision 2025-11-25 on a session of the process.
func live(ctx context.Context, s *server.MCPServer, client server.ElicitationHandler, tool string) answered {
	session := server.NewInProcessSessionWithHandlers("test", nil, client, nil)
	session.SetProtocolVersion(v20251125)
	session.SetClientCapabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}})
	message := s.HandleMessage(s.WithContext(ctx, session), json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`))
	raw, err := json.Marshal(message)
	a := answered{body: string(raw)}
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		a.body = err.Error()
	}
	return a
}

type elicitFunc func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error)

func (f elicitFunc) Elicit(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return f(ctx, r)
}

// TestM6Legacy: the revision that has the error gets it unchanged.
func TestM6Legacy(t *testing.T) {
	s := newHostServer()
	addMistakes(s)
	install(t, s, nil)
	got := live(t.Context(), s, nil, "url error")
	if got.Error.Code != -32042 || !strings.Contains(got.body, `"elicitationId":"visit-1"`) {
		t.Errorf("got %s", got.body)
	}
}

// TestM19VisitWithoutID: the id that only one revision has is made up for it.
func TestM19VisitWithoutID(t *testing.T) {
	s := newHostServer()
	s.AddTool(mcp.NewTool("away"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, ok := mcpgo.Elicitation(ctx, "go")
		if !ok {
			return mcpgo.ToolInput(roundtrip.ElicitURL("go", "Go?", visitURL)), nil
		}
		return mcp.NewToolResultText(string(answer.Action)), nil
	})
	install(t, s, nil)
	id := ""
	got := live(t.Context(), s, elicitFunc(func(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
		id = r.Params.ElicitationID
		return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept}}, nil
	}), "away")
	if got.text() != "accept" || id == "" {
		t.Errorf("got %s, id %q", got.body, id)
	}
}

// TestM20StateAlone: a handler that only wants to be called again is, and a
// client that says nothing is not waited for for ever.
func TestM20StateAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHostServer()
		addGuard(s)
		s.AddTool(mcp.NewTool("poll"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if n, _ := roundtrip.State[int](ctx); n < 3 {
				return mcpgo.ToolInput(roundtrip.WithState(n + 1)), nil
			}
			return mcp.NewToolResultText("ready"), nil
		})
		install(t, s, nil)
		if got := live(t.Context(), s, nil, "poll"); got.text() != "ready" {
			t.Errorf("got %s", got.body)
		}
		start := time.Now()
		silent := elicitFunc(func(ctx context.Context, _ mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		got := live(t.Context(), s, silent, "typed")
		if got.text() != "error: nobody answered in time; start the call again when somebody can answer" || time.Since(start) != roundtrip.DefaultHumanTimeout {
			t.Errorf("after %s: got %s", time.Since(start), got.body)
		}
	})
}

// TestSwallowed: whatever a handler makes of the error that stands for a
// pending question, nothing happens before the answer.
func TestSwallowed(t *testing.T) {
	for _, style := range []string{"changed", "unmodified"} {
		for name, react := range map[string]func(err error) (*mcp.CallToolResult, error){
			"goes on":   func(error) (*mcp.CallToolResult, error) { return nil, nil },
			"wraps":     func(err error) (*mcp.CallToolResult, error) { return nil, errors.New("oh: " + err.Error()) },
			"falls":     func(error) (*mcp.CallToolResult, error) { return mcp.NewToolResultText("went ahead without"), nil },
			"reports":   func(err error) (*mcp.CallToolResult, error) { return mcp.NewToolResultError(err.Error()), nil },
			"panics":    func(err error) (*mcp.CallToolResult, error) { panic(err) },
			"asks more": func(error) (*mcp.CallToolResult, error) { return mcpgo.ToolInput(roundtrip.ListRoots("dirs")), nil },
		} {
			t.Run(style+"/"+name, func(t *testing.T) {
				deleted := 0
				add := func(s *server.MCPServer) {
					ask := changed()
					if style == "unmodified" {
						ask = unchanged(s)
					}
					s.AddTool(mcp.NewTool("delete"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						answer, err := ask.elicit(ctx, "confirm", form("Delete?"))
						if err != nil {
							if result, err := react(err); result != nil || err != nil {
								return result, err
							}
						}
						if ctx.Err() != nil { // as anything does that takes a context
							return nil, ctx.Err()
						}
						if answer == nil || answer.Action != mcp.ElicitationResponseActionAccept {
							return mcp.NewToolResultText("left alone"), nil
						}
						deleted++
						return mcp.NewToolResultText("deleted"), nil
					})
				}
				over(t, &mcpgo.Options{UnmodifiedHandlers: style == "unmodified"}, add, func(t *testing.T, send sender) {
					deleted = 0
					r := request{method: protocol.MethodCallTool, target: "delete", capabilities: `{"elicitation":{},"roots":{}}`}
					first := send(r.message())
					if first.text() != "asks" || deleted != 0 || len(first.Result.Content) > 0 {
						t.Fatalf("deleted %d times: %s", deleted, first.body)
					}
					key := ""
					for k := range first.Result.InputRequests {
						if k != "dirs" {
							key = k
						}
					}
					if got := send(r.retry(first, `{"`+key+`":{"action":"decline"}}`).message()); got.text() != "left alone" || deleted != 0 {
						t.Errorf("deleted %d times: %s", deleted, got.body)
					}
					if got := send(r.retry(first, `{"`+key+`":{"action":"accept","content":{"zeal":"much"}}}`).message()); got.text() != "deleted" || deleted != 1 {
						t.Errorf("deleted %d times: %s", deleted, got.body)
					}
				})
			})
		}
	}
}

// TestLiveFailures: what a question that cannot be answered comes to where the
// handler waits for it.
func TestLiveFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHostServer()
		addFlow(s, changed())
		install(t, s, nil)
		failing := elicitFunc(func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			return nil, errors.New("no eyes")
		})
		silent := elicitFunc(func(ctx context.Context, _ mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		unfit := elicitFunc(func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: "accept", Content: map[string]any{"zeal": 1}}}, nil
		})
		for name, tc := range map[string]struct {
			client elicitFunc
			want   string
		}{"fails": {failing, "error: the client could not be asked"}, "is silent": {silent, "error: nobody answered in time"}, "does not fit": {unfit, "error: not asking again: 3 answers to "}} {
			if got := live(t.Context(), s, tc.client, "steps"); !strings.HasPrefix(got.text(), tc.want) {
				t.Errorf("%s: got %s, want %s", name, got.body, tc.want)
			}
		}
	})
}
