package gosdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/fleettest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// Whatever a handler makes of the error, nothing is taken for consent.
func TestSwallowedErrorsDoNotFailOpen(t *testing.T) {
	ask := map[string]func(ctx context.Context, req *toolRequest) (*mcp.ElicitResult, error){
		"elicit": func(ctx context.Context, req *toolRequest) (*mcp.ElicitResult, error) {
			return gosdk.Elicit(ctx, req.Session, formQuestion())
		},
		"unmodified": func(ctx context.Context, req *toolRequest) (*mcp.ElicitResult, error) {
			return req.Session.Elicit(ctx, formQuestion())
		},
	}
	type result = mcp.CallToolResult
	wentOn := toolText("proceeding anyway")
	swallow := map[string]func(err error) (*result, error){
		"ignored": func(error) (*result, error) { return wentOn, nil },
		"unwrapped": func(err error) (*result, error) {
			if err != nil {
				return nil, fmt.Errorf("asking: %v", err)
			}
			return wentOn, nil
		},
		"panicked": func(err error) (*result, error) {
			if err != nil {
				panic(err)
			}
			return wentOn, nil
		},
		"recovered": func(err error) (r *result, _ error) {
			defer func() { _ = recover(); r = wentOn }()
			if err != nil {
				panic(err)
			}
			return nil, nil
		},
		"failed": func(err error) (*result, error) {
			if r := (&result{}); err != nil {
				r.SetError(err)
				return r, nil
			}
			return wentOn, nil
		},
	}
	for style, ask := range ask {
		for name, end := range swallow {
			t.Run(style+"/"+name, func(t *testing.T) {
				var deleted atomic.Int32
				var options []option
				if style == "unmodified" {
					options = append(options, withUnmodifiedHandlers())
				}
				w := dialWire(t, single(t, func(ctx context.Context,
					req *toolRequest) (*mcp.CallToolResult, error) {
					_, err := ask(ctx, req)
					if ctx.Err() == nil { // as an effect with the handler's context would
						deleted.Add(1)
					}
					return end(err)
				}, options...))
				first := w.call("t", "")
				key := first.onlyKey()
				if deleted.Load() != 0 {
					t.Error("the effect was there before the answer")
				}
				w.retry("t", first, accepts(key)).wantText("proceeding anyway")
				if deleted.Load() != 1 {
					t.Errorf("%d effects after the answer, want 1", deleted.Load())
				}
			})
		}
	}
}

// A question whose wording or URL changes is not asked again: client and log learn why.
func TestQuestionsThatChange(t *testing.T) {
	ask := map[string]func(context.Context, *toolRequest,
		*mcp.ElicitParams) (*mcp.ElicitResult, error){
		"elicit": func(ctx context.Context, req *toolRequest,
			asked *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return gosdk.Elicit(ctx, req.Session, asked)
		},
		"unmodified": func(ctx context.Context, req *toolRequest,
			asked *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return req.Session.Elicit(ctx, asked)
		},
	}
	questions := map[string]func(n int) *mcp.ElicitParams{
		"words": func(n int) *mcp.ElicitParams {
			return &mcp.ElicitParams{Message: fmt.Sprint("Delete at ", n, "?"),
				RequestedSchema: raw(reasonForm)}
		},
		"URL": func(n int) *mcp.ElicitParams {
			return &mcp.ElicitParams{Mode: "url", Message: "Sign in", ElicitationID: "login",
				URL: fmt.Sprint("https://id.example/#", n)}
		},
	}
	for style, ask := range ask {
		for name, question := range questions {
			t.Run(style+"/"+name, func(t *testing.T) {
				var runs, acted int
				var bugs observer
				options := []option{withFunnel(roundtrip.Options{Observer: &bugs})}
				if style == "unmodified" {
					options = append(options, withUnmodifiedHandlers())
				}
				w := dialWire(t, single(t, func(ctx context.Context,
					req *toolRequest) (*mcp.CallToolResult, error) {
					runs++
					if _, err := ask(ctx, req, question(runs)); err != nil {
						return nil, err
					}
					acted++
					return toolText("done"), nil
				}, options...))
				for range 2 {
					first := w.call("t", "")
					got := w.retry("t", first, accepts(first.onlyKey()))
					if string(got.member("isError")) != "true" ||
						!strings.Contains(string(got.body), "roundtrip.Nonce") {
						t.Errorf("got %s, want an error that says what mends it", got.body)
					}
				}
				if acted != 0 {
					t.Error("consent to one question counted for another")
				}
				if n := bugs.count(func(e event.Event) bool {
					bug, ok := e.(event.ServerBug)
					return ok && strings.Contains(bug.Err.Error(), "roundtrip.Nonce")
				}); n != 1 {
					t.Errorf("the observer was told %d times, want once: %v", n, bugs.all())
				}
			})
		}
	}
}

// Without keys they are asked one after the other, each once, whatever the
// order in which the handler comes to them.
func TestConcurrentQuestionsWithoutKeys(t *testing.T) {
	const n = 5
	ask := map[string]func(ctx context.Context, req *toolRequest, p *mcp.ElicitParams) error{
		"elicit": func(ctx context.Context, req *toolRequest, p *mcp.ElicitParams) error {
			_, err := gosdk.Elicit(ctx, req.Session, p)
			return err
		},
		"unmodified": func(ctx context.Context, req *toolRequest, p *mcp.ElicitParams) error {
			_, err := req.Session.Elicit(ctx, p)
			return err
		},
	}
	for name, ask := range ask {
		for _, revision := range []string{modern, legacy} {
			t.Run(name+"/"+revision, func(t *testing.T) {
				answers := map[string]string{}
				for i := range n {
					answers[fmt.Sprint("Number ", i, "?")] = `{"reason":"because"}`
				}
				who := newPerson(t, answers)
				var options []option
				if name == "unmodified" {
					options = append(options, withUnmodifiedHandlers())
				}
				server := single(t, func(ctx context.Context,
					req *toolRequest) (*mcp.CallToolResult, error) {
					var wg sync.WaitGroup
					errs := make([]error, n)
					for i := range n {
						wg.Go(func() {
							errs[i] = ask(ctx, req, &mcp.ElicitParams{Message: fmt.Sprint("Number ",
								i, "?"), RequestedSchema: raw(reasonForm)})
						})
					}
					wg.Wait()
					return toolText("done"), errors.Join(errs...)
				}, options...)
				if got, err := sdkOver(t, server, who, revision).do(within(t), "t"); err != nil ||
					got != "done" {
					t.Errorf("got %q, %v", got, err)
				}
				who.wantAsked(1)
			})
		}
	}
}

// A handler that swallows the error and goes on to its next question, which it
// makes of an answer that is not there, does not get that asked.
func TestNoQuestionsFromMissingAnswers(t *testing.T) {
	who := newPerson(t,
		map[string]string{"Which region?": `{"name":"eu"}`, "How big in eu?": `{"cores":4}`})
	server := single(t, func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		region, _ := gosdk.Elicit(ctx, req.Session,
			&mcp.ElicitParams{Message: "Which region?", RequestedSchema: raw(regionForm)})
		name, _ := region.Content["name"].(string)
		size, _ := gosdk.Elicit(ctx, req.Session,
			&mcp.ElicitParams{Message: "How big in " + name + "?", RequestedSchema: raw(sizeForm)})
		return toolText(fmt.Sprint(size.Content["cores"], " in ", name)), nil
	})
	if got, err := sdkOver(t, server, who, modern).do(within(t), "t"); err != nil ||
		got != "4 in eu" {
		t.Errorf("got %q, %v", got, err)
	}
	who.wantAsked(1)
}

// The same question twice is two questions, in both eras: a refusal is the handler's to
// handle, and a person who mistypes gets another try.
func TestAskingTwice(t *testing.T) {
	for _, unmodified := range []bool{false, true} {
		var options []option
		if unmodified {
			options = append(options, withUnmodifiedHandlers())
		}
		handler := func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			said := make([]string, 2)
			for i := range said {
				ask := req.Session.Elicit
				if !unmodified {
					ask = func(ctx context.Context,
						p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
						return gosdk.Elicit(ctx, req.Session, p)
					}
				}
				answer, err := ask(ctx, formQuestion())
				if err != nil {
					return nil, err
				}
				said[i] = answer.Action
			}
			return toolText(strings.Join(said, " ")), nil
		}
		for _, revision := range []string{modern, legacy} {
			t.Run(fmt.Sprintf("%s/unmodified %v", revision, unmodified), func(t *testing.T) {
				who := newPerson(t, map[string]string{"Sure?": "decline"})
				got, err := sdkOver(t, single(t, handler, options...), who, revision).do(within(t),
					"t")
				if err != nil || got != "decline decline" {
					t.Errorf("got %q, %v", got, err)
				}
				who.wantAsked(2)
			})
		}
		t.Run(fmt.Sprintf("refused, then accepted/unmodified %v", unmodified), func(t *testing.T) {
			w := dialWire(t, single(t, handler, options...))
			first := w.call("t", "")
			first.wantAsks("question-1") // no digest
			second := w.retry("t", first, declines("question-1"))
			second.wantAsks("question-2")
			w.retry("t", second, accepts("question-2")).wantText("decline accept")
		})
	}
}

// Without Install, Elicit is the session's; builders say what is missing.
func TestNotInstalled(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "t", InputSchema: raw(`{"type":"object"}`)},
		func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			if _, err := gosdk.ToolInput(ctx, roundtrip.ListRoots("r")); !errors.Is(err,
				roundtrip.ErrNoRound) || !strings.Contains(err.Error(), "Adapter.Install") {
				t.Errorf("got %v, want ErrNoRound", err)
			}
			answer, err := gosdk.Elicit(ctx, req.Session, formQuestion())
			if err != nil {
				return nil, err
			}
			return toolText(answer.Action), nil
		})
	who := newPerson(t, map[string]string{"Sure?": `{"reason":"because"}`})
	if got, err := sdkOver(t, server, who, legacy).do(within(t), "t"); err != nil ||
		got != "accept" {
		t.Errorf("in a session: got %q, %v", got, err)
	}
	if got, err := sdkOver(t, server, newPerson(t, nil), modern).do(within(t), "t"); err == nil {
		t.Errorf("got %q, want the SDK's refusal", got)
	}
	contradiction := roundtrip.Options{RequireSharedKey: true, Sealer: keys.EphemeralKeyring()}
	if _, err := gosdk.New(&gosdk.Options{Options: contradiction}); err == nil {
		t.Error("the options contradict each other, and there is no error")
	}
	ring := fleettest.NewKeyring("k1")
	if _, err := gosdk.New(&gosdk.Options{Options: roundtrip.Options{Sealer: ring}}); err == nil ||
		!strings.Contains(err.Error(), "set Audience") {
		t.Errorf("a shared key without an audience: %v", err)
	}
}

// With a guard, a state counts once: the same again gets the same outcome.
func TestGuard(t *testing.T) {
	runs := 0
	w := dialWire(t, single(t, func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult,
		error) {
		runs++
		if _, err := gosdk.Elicit(ctx, req.Session, formQuestion()); err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: toolText("charged").Content,
			StructuredContent: map[string]any{"run": runs}}, nil
	}, withFunnel(roundtrip.Options{Guard: store.NewMemoryGuard(0)})))
	first := w.call("t", "")
	key := first.onlyKey()
	once := w.retry("t", first, accepts(key))
	once.wantText("charged")
	again := w.retry("t", first, accepts(key))
	again.wantText("charged")
	if string(once.member("structuredContent")) != string(again.member("structuredContent")) ||
		runs != 2 {
		t.Errorf("got %s, and again %s, in %d runs", once.body, again.body, runs)
	}
	w.retry("t", first, declines(key)).wantError(protocol.CodeInvalidParams, 400)
}

// smallSession is what handlers hold that are tested without the SDK's session.
type smallSession struct{ gosdk.Elicitor }

// otherSession is one that has the id of another client's session.
type otherSession struct{ smallSession }

func (otherSession) ID() string { return "other" }

// Elicit takes the interface that a handler holds in place of the session.
func TestElicitTakesAnInterface(t *testing.T) {
	server := single(t, func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		answer, err := gosdk.Elicit(ctx, smallSession{req.Session}, formQuestion())
		if err != nil {
			return nil, err
		}
		return toolText(answer.Action), nil
	})
	for _, r := range routes() {
		t.Run(r.name, func(t *testing.T) {
			who := newPerson(t, map[string]string{formQuestion().Message: `{"reason":"because"}`})
			p, _ := r.open(t, server, who, false)
			if got, err := p.do(within(t), "t"); err != nil || got != "accept" {
				t.Errorf("got %q, %v", got, err)
			}
			who.wantAsked(1)
		})
	}
}

// An interface that says it is another client's session is not taken for the caller's.
func TestSessionsOfOthersAreNotTheCallers(t *testing.T) {
	asked := false
	server := single(t, func(ctx context.Context, _ *toolRequest) (*mcp.CallToolResult, error) {
		answer, err := gosdk.Elicit(ctx,
			otherSession{smallSession{elicitFunc(func() { asked = true })}},
			formQuestion())
		if err != nil {
			return nil, err
		}
		return toolText("the other said " + answer.Action), nil
	})
	dialWire(t, server).call("t", "").wantText("the other said decline")
	if !asked {
		t.Error("the method of the session was not called")
	}
}

type elicitFunc func()

func (f elicitFunc) Elicit(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	f()
	return &mcp.ElicitResult{Action: "decline"}, nil
}
