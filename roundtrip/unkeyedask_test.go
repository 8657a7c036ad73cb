package roundtrip_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// askPlainly asks like the handler of an SDK, and returns the answer.
func askPlainly(ctx context.Context, message string) (string, error) {
	raw, err := roundtrip.AskUnkeyed(ctx, &protocol.ElicitForm{Message: message,
		Schema: []byte(`{"type":"object","properties":{}}`)})
	if err != nil {
		return "", err
	}
	result, err := protocol.DecodeElicitResult(raw)
	return string(result.Action), err
}

// asksAll asks messages in sequence and says the answers.
func asksAll(messages func(round int) []string) roundtrip.Handler {
	return flow(func(ctx context.Context) string {
		var answers []string
		for _, message := range messages(roundtrip.RoundOf(ctx).Number) {
			answer := must(askPlainly(ctx, message))
			answers = append(answers, answer)
		}
		return strings.Join(answers, " ")
	})
}

const (
	yes = `{"action":"accept","content":{}}`
	no  = `{"action":"decline"}`
)

// The same question twice is two questions; the handler handles their refusals.
func TestEqualQuestionsWithoutKeys(t *testing.T) {
	handler := asksAll(func(int) []string { return []string{"Sure?", "Which?", "Sure?"} })
	for _, tc := range []struct{ name, first, second, want string }{
		{"first refused", no, yes, "decline accept accept"},
		{"second refused", yes, no, "accept accept decline"},
		{"both refused", no, no, "decline accept decline"},
	} {
		answerInOrder(t, tc.name, handler, []string{tc.first, yes, tc.second}, tc.want)
	}
}

// answerInOrder has a handler ask questions without keys, in all revisions.
func answerInOrder(t *testing.T, name string, handler roundtrip.Handler, answers []string,
	want string) {
	t.Run(name+"/modern", func(t *testing.T) {
		c := serve(t, handler)
		for i, answer := range answers {
			key := fmt.Sprint("question-", i+1)
			c.ask(key).answer(key, answer)
		}
		c.says(want)
	})
	for _, m := range modes {
		if m.version.Era() == protocol.Modern {
			continue
		}
		t.Run(name+"/"+m.name, func(t *testing.T) {
			j := newJourney(t, m, roundtrip.Options{}, nil, handler)
			asked := 0
			j.human.answer = func(*pushed) (string, error) {
				asked++
				return answers[asked-1], nil
			}
			if got := j.done(); got != want || asked != len(answers) {
				t.Errorf("got %q after %d questions, want %q", got, asked, want)
			}
		})
	}
}

// An answer is void if the handler asks something else, or in another order; nobody is asked again.
func TestReplayThatAsksSomethingElse(t *testing.T) {
	for _, tc := range []struct {
		name   string
		rounds [][]string // asked by each run
		key    string     // whose answer is void
	}{
		{"other words", [][]string{{"At 12:01?"}, {"At 12:02?"}}, "question-1"},
		{"other words of the second", [][]string{{"Sure?", "At 12:01?"}, {"Sure?", "At 12:01?"},
			{"Sure?", "At 12:02?"}}, "question-2"},
		{"another order", [][]string{{"a?", "b?"}, {"b?", "a?"}}, "question-1"},
		{"another order before a repetition", [][]string{{"a?", "b?", "a?"}, {"a?", "b?", "a?"},
			{"a?", "b?", "a?"}, {"a?", "a?", "b?"}}, "question-3"},
		{"one is left out before a repetition", [][]string{{"b?", "a?", "a?"},
			{"b?", "a?", "a?"}, {"b?", "a?", "a?"}, {"a?", "a?"}}, "question-3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, asksAll(func(round int) []string { return tc.rounds[round-1] }))
			for range 2 {
				c.call = toolCall()
				for n := 1; n < len(tc.rounds); n++ {
					key := fmt.Sprint("question-", n)
					c.ask(key).answer(key, yes)
				}
				c.refused(protocol.CodeFlowEnded, tc.key, "asked something else")
			}
			contains(t, one[event.ServerBug](t, c.events).Err.Error(), tc.key, "Nonce")
		})
	}
}

func TestGoroutinesAskDifferentQuestions(t *testing.T) {
	const n = 4
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			p := person{}
			for i := range n {
				p[fmt.Sprint("concurrent-question-", i+1)] = yes
				p[fmt.Sprint("question-", i+1)] = yes
			}
			j := newJourney(t, m, roundtrip.Options{}, p,
				func(ctx context.Context) (protocol.Result, error) {
					answers, errs := make([]string, n), make([]error, n)
					var all sync.WaitGroup
					for i := range n {
						all.Go(func() { answers[i], errs[i] = askPlainly(ctx, fmt.Sprint(i, "?")) })
					}
					all.Wait()
					for _, err := range errs {
						if err != nil {
							return nil, err
						}
					}
					return say(strings.Join(answers, " "))
				})
			result, err := j.end(p)
			if want := "accept accept accept accept"; err != nil || show(result) != want {
				t.Errorf("got %q, %v, want %q", show(result), err, want)
			}
		})
	}
}

// Equal questions of several goroutines are an error, pending or answered.
func TestGoroutinesAskTheSame(t *testing.T) {
	elsewhere := func(ctx context.Context) (answer string, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			answer, err = askPlainly(ctx, "Sure?")
		}()
		<-done
		return answer, err
	}
	t.Run("pending", func(t *testing.T) {
		c := serve(t, func(ctx context.Context) (protocol.Result, error) {
			_, _ = elsewhere(ctx)
			_, err := elsewhere(ctx)
			return nil, err
		})
		contains(t, c.bug(), "goroutines", "WithKey")
	})
	t.Run("answered", func(t *testing.T) {
		c := serve(t, func(ctx context.Context) (protocol.Result, error) {
			if _, err := elsewhere(ctx); err != nil {
				return nil, err
			}
			_, err := elsewhere(ctx)
			return nil, err
		})
		c.ask("concurrent-question-1")
		contains(t, c.answer("concurrent-question-1", yes).bug(), "goroutines", "WithKey")
	})
}

// A goroutine's changing question is asked twice, and then the flow ends.
func TestGoroutineThatAsksSomethingElse(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err = askPlainly(ctx, fmt.Sprint("Number ", roundtrip.RoundOf(ctx).Number, "?"))
		}()
		<-done
		return nil, err
	})
	c.ask("concurrent-question-1").answer("concurrent-question-1", yes).ask("concurrent-question-2")
	c.answer("concurrent-question-2", yes).refused(protocol.CodeFlowEnded, "asked something else")
}

// A handler that ignores the error cannot ask a question built from a missing answer.
func TestNoQuestionWithoutAKeyBehindAPendingOne(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		first, _ := askPlainly(ctx, "First?")
		second, _ := askPlainly(ctx, "After "+first+"?")
		return say(first + " " + second)
	})
	c.ask("question-1").answer("question-1", no).ask("question-2")
	c.answer("question-2", yes).says("decline accept")
}

// A handler that can do without an answer uses the first free key for its next question in every
// round.
func TestQuestionsWithoutKeysThatCannotBeAsked(t *testing.T) {
	c := serve(t, flow(func(ctx context.Context) string {
		_, err := roundtrip.AskUnkeyed(ctx, &protocol.ListRoots{}, roundtrip.IfPossible())
		if err == nil {
			t.Error("the client was asked for its roots")
		}
		for range 2 {
			must(askPlainly(ctx, "Sure?"))
		}
		return "done"
	}))
	c.call.Capabilities.Roots = nil
	c.ask("question-1").answer("question-1", yes).ask("question-2")
	c.answer("question-2", yes).says("done")
}

// TestRefusalThatTheRunDoesNotComeTo: the user finishes the task, but refuses. The handler does not
// ask again. Its own error reaches the client, but its success does not.
func TestRefusalThatTheRunDoesNotComeTo(t *testing.T) {
	signIn := &protocol.ElicitURL{Message: "Sign in", URL: "https://example.com/login",
		ElicitationID: "login"}
	for _, refusal := range []string{no, `{"action":"cancel"}`, yes} {
		for _, ending := range []string{"acts", "fails", "asks something else"} {
			t.Run(refusal+"/"+ending, func(t *testing.T) {
				token, committed := false, 0
				c := serve(t, func(ctx context.Context) (protocol.Result, error) {
					if !token {
						token = true // finished before the client answers
						_, err := roundtrip.AskUnkeyed(ctx, signIn)
						return nil, err
					}
					switch ending {
					case "fails":
						return nil, errors.New("no such book")
					case "asks something else":
						if _, err := askPlainly(ctx, "Sure?"); err != nil {
							return nil, err
						}
					}
					if err := roundtrip.OnCommit(ctx, func(context.Context) {
						committed++
					}); err != nil {
						return nil, err
					}
					return say("ACTED")
				})
				c.ask("question-1").answer("question-1", refusal)
				ignored := 0
				switch {
				case ending == "fails":
					contains(t, c.done(), "no such book")
				case ending == "asks something else":
					c.refused(protocol.CodeFlowEnded, "question-1")
				case refusal == yes:
					if got := c.done(); got != "ACTED" || committed != 1 {
						t.Errorf("got %q, committed %d times", got, committed)
					}
				default:
					c.refused(protocol.CodeRefused, "withheld", "question-1", "not undone")
					ignored = 1
				}
				if ignored == 1 && committed != 0 {
					t.Error("what was left to OnCommit was done")
				}
				if got := len(all[event.DeclineIgnored](c.events)); got != ignored {
					t.Errorf("%d refusals reported, want %d", got, ignored)
				}
			})
		}
	}
}

// TestRefusalThatALaterRunDoesNotComeTo: the handler handled the refusal in one run, not in the
// next.
func TestRefusalThatALaterRunDoesNotComeTo(t *testing.T) {
	rounds := [][]string{{"a?"}, {"a?", "b?"}, {"b?"}}
	c := serve(t, asksAll(func(round int) []string { return rounds[round-1] }))
	c.ask("question-1").answer("question-1", no)
	c.ask("question-2").answer("question-2", yes)
	c.refused(protocol.CodeRefused, "question-1")
	if ignored := one[event.DeclineIgnored](t, c.events); ignored.Key != "question-1" {
		t.Errorf("%+v", ignored)
	}
}

func TestQuestionsWithoutKeysFromDeepInTheHandler(t *testing.T) {
	for _, depth := range []int{0, 50, 300, 5000} {
		handler := flow(func(ctx context.Context) string {
			var answers []string
			for range 2 {
				answer := must(askBelow(ctx, depth))
				answers = append(answers, answer)
			}
			return strings.Join(answers, " ")
		})
		answerInOrder(t, fmt.Sprint(depth), handler, []string{no, yes}, "decline accept")
	}
}

func askBelow(ctx context.Context, depth int) (string, error) {
	if depth == 0 {
		return askPlainly(ctx, "Sure?")
	}
	answer, err := askBelow(ctx, depth-1)
	return answer, err
}

func TestAContextWithoutARoundIsExplainedAtAnyDepth(t *testing.T) {
	for _, depth := range []int{0, 300, 5000} {
		c := serve(t, func(context.Context) (protocol.Result, error) {
			_, err := askBelow(context.Background(), depth)
			return nil, err
		})
		contains(t, c.done(), "this is a handler")
	}
}
