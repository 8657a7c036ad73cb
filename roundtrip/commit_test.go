package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// TestOnCommit runs functions in the round that completes, in order, in a context that has not
// ended.
func TestOnCommit(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			var ran []string
			j := newJourney(t, m, roundtrip.Options{Guard: store.NewMemoryGuard(0)}, nil,
				flow(func(ctx context.Context) string {
					note := func(text string) {
						err := roundtrip.OnCommit(ctx, func(cleanup context.Context) {
							if limit, ok := cleanup.Deadline(); !ok ||
								time.Until(limit) > 5*time.Second || cleanup.Err() != nil {
								t.Errorf("context until %v, %v", limit, cleanup.Err())
							}
							ran = append(ran, text)
						})
						if err != nil {
							t.Error(err)
						}
					}
					note("first")
					must(reasonOf(ctx, "a"))
					note("second")
					return "done"
				}))
			if result, err := j.end(nil); err != nil || show(result) != "done" {
				t.Fatalf("got %q, %v", show(result), err)
			}
			if fmt.Sprint(ran) != "[first second]" {
				t.Errorf("ran %v", ran)
			}
			if m.version.Era() == protocol.Modern {
				if result, err := j.end(nil); err != nil || show(result) != "done" ||
					len(ran) != 2 {
					t.Errorf("a replay got %q, %v; ran %v", show(result), err, ran)
				}
			}
		})
	}
}

// TestOnCommitNotAfterFailure: a run that does not complete commits nothing.
func TestOnCommitNotAfterFailure(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context) (protocol.Result, error){
		"error": func(context.Context) (protocol.Result, error) { return nil, errors.New("no") },
		"protocol error": func(context.Context) (protocol.Result, error) {
			return nil, protocol.Errorf(4711, "no")
		},
		"error result": func(context.Context) (protocol.Result, error) {
			return &protocol.CallToolResult{IsError: true,
				Content: []protocol.Content{&protocol.TextContent{Text: "no"}}}, nil
		},
		"panic": func(context.Context) (protocol.Result, error) { panic("no") },
		"wrong type": func(context.Context) (protocol.Result, error) {
			return &protocol.ListToolsResult{}, nil
		},
		"bad output": func(context.Context) (protocol.Result, error) {
			return &protocol.CallToolResult{StructuredContent: json.RawMessage(`{}`)}, nil
		},
		"question": func(ctx context.Context) (protocol.Result, error) {
			_, err := reasonOf(ctx, "a")
			return nil, err
		},
		"guard style": func(context.Context) (protocol.Result, error) {
			return ask(whyNow.Elicit("?"))
		},
		"ignored": func(ctx context.Context) (protocol.Result, error) {
			_, _ = reasonOf(ctx, "a")
			return say("done")
		},
		"journal": func(ctx context.Context) (protocol.Result, error) {
			_, _ = roundtrip.Memo(ctx, "m",
				func(context.Context) (func(), error) { return nil, nil })
			return say("done")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(ctx context.Context) (protocol.Result, error) {
				if err := roundtrip.OnCommit(ctx,
					func(context.Context) { t.Error("committed") }); err != nil {
					t.Error(err)
				}
				return end(ctx)
			})
			if name == "bad output" {
				c.call.CheckOutput = func(json.RawMessage) error { return errors.New("no") }
			}
			_, _ = c.send()
		})
	}
}

func TestOnCommitPanics(t *testing.T) {
	ran := false
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		_ = roundtrip.OnCommit(ctx, func(context.Context) { panic("no") })
		_ = roundtrip.OnCommit(ctx, func(context.Context) { ran = true })
		return say("done")
	})
	if got := c.done(); got != "done" || !ran ||
		one[event.HandlerPanicked](t, c.events).Value != "no" {
		t.Errorf("got %q, %v", got, ran)
	}
}

// TestOnCommitWithoutRecord: the client gets the outcome, so the functions run; the state is spent.
func TestOnCommitWithoutRecord(t *testing.T) {
	ran := 0
	guard := newSpy()
	guard.commit = errors.New("no space")
	c := newClient(t, roundtrip.Options{Guard: guard}, flow(func(ctx context.Context) string {
		must(reasonOf(ctx, "k"))
		check(roundtrip.OnCommit(ctx, func(context.Context) { ran++ }))
		return "done"
	}))
	c.ask("k").answer("k", accepted).says("done")
	c.fails(protocol.CodeBusy) // the guard considers the leg in flight
	if one[event.StoreFailed](t, c.events); ran != 1 {
		t.Errorf("ran %d times", ran)
	}
}
