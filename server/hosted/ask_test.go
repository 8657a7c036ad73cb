package hosted_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// The function asking returns a hosted server with handlers that ask in every way.
func asking(effects *atomic.Int32) *fake {
	return &fake{answers: map[string]handler{
		"two": func(ctx context.Context, c *fakeCall) (string, error) {
			first, err := c.ask(ctx, "One?")
			if err != nil {
				return "", err
			}
			second, err := c.ask(ctx, string(first.Action)+" Two?")
			if err != nil {
				return "", err
			}
			effects.Add(1)
			return textResult("%s %s", first.Action, second.Content), nil
		},
		"swallows": func(ctx context.Context, c *fakeCall) (string, error) {
			_, _ = c.ask(ctx, "Sure?")
			return textResult("DELETED"), nil
		},
		"tries": func(ctx context.Context, c *fakeCall) (string, error) {
			if _, err := c.ask(ctx, "Sure?"); err != nil && !errors.Is(err, roundtrip.ErrPending) {
				return textResult("without an answer"), nil
			}
			return textResult("with an answer"), nil
		},
		"equal": func(ctx context.Context, c *fakeCall) (string, error) {
			first, err := c.ask(ctx, "Again?")
			if err != nil {
				return "", err
			}
			second, err := c.ask(ctx, "Again?")
			if err != nil {
				return "", err
			}
			return textResult("%s %s", first.Action, second.Action), nil
		},
		"other goroutine": func(ctx context.Context, c *fakeCall) (string, error) {
			type answer struct {
				*protocol.ElicitResult
				error
			}
			answers := make(chan answer)
			go func() { a, err := c.ask(ctx, "Elsewhere?"); answers <- answer{a, err} }()
			a := <-answers
			if a.error != nil {
				return "", a.error
			}
			return textResult("%s", a.Content), nil
		},
		"rondo": func(ctx context.Context, c *fakeCall) (string, error) {
			a, err := roundtrip.Ask[struct {
				Text string `json:"text"`
			}](ctx, "why", "Why?")
			if err != nil {
				return "", err
			}
			return textResult("%s", a.Text), nil
		},
		"passes on as error": func(ctx context.Context, _ *fakeCall) (string, error) {
			_, err := roundtrip.Ask[struct{}](ctx, "sure", "Sure?")
			return "", protocol.Errorf(protocol.CodeInternalError, "cannot go on: %v", err)
		},
		"passes on as result": func(ctx context.Context, _ *fakeCall) (string, error) {
			_, err := roundtrip.Ask[struct{}](ctx, "sure", "Sure?")
			return fmt.Sprintf(`{"isError":true,"content":[{"type":"text","text":%q}]}`,
				fmt.Sprint("cannot go on: ", err)), nil
		},
		"unknown mode": func(ctx context.Context, c *fakeCall) (string, error) {
			_, err := c.back.Call(ctx, &protocol.Request{ID: protocol.StringID("q"),
				Method: protocol.MethodElicit,
				Params: []byte(`{"mode":"voice","message":"Sure?"}`)})
			return textResult("DELETED %v", err), nil
		},
		"own timeout": func(ctx context.Context, c *fakeCall) (string, error) {
			own, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			_, err := c.ask(own, "Sure?")
			return textResult("DELETED %v", err), nil
		},
		"ended context": func(ctx context.Context, c *fakeCall) (string, error) {
			own, cancel := context.WithCancel(ctx)
			cancel()
			_, err := c.ask(own, "Sure?")
			return textResult("DELETED %v", err), nil
		},
		"not waited": func(ctx context.Context, c *fakeCall) (string, error) {
			asking := make(chan struct{})
			go func() { close(asking); _, _ = c.ask(ctx, "Sure?") }()
			<-asking
			time.Sleep(5 * time.Millisecond) // the question is being asked
			return textResult("DELETED"), nil
		},
		"no call": func(ctx context.Context, c *fakeCall) (string, error) {
			_, err := c.session.back.Call(ctx, &protocol.Request{ID: protocol.StringID("q"),
				Method: protocol.MethodElicit, Params: []byte(`{"message":"Sure?",` +
					`"requestedSchema":{"type":"object","properties":{}}}`)})
			return textResult("DELETED %v", err), nil
		},
		"visit": func(context.Context, *fakeCall) (string, error) {
			if effects.Add(1) > 1 {
				return textResult("signed in"), nil
			}
			return "", protocol.Errorf(protocol.CodeURLElicitationRequired, "Sign in.").WithData(
				map[string]any{"elicitations": []any{map[string]any{"mode": "url",
					"elicitationId": "a", "url": "https://example.com/a", "message": "Sign in"}}})
		},
	}}
}

func TestQuestionsAreAskedInBothEras(t *testing.T) {
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		var effects atomic.Int32
		h := host(t, asking(&effects), nil)
		c := open(t, r.open(t, h), era, hostedtest.Answering(protocol.ActionAccept))
		for tool, want := range map[string]string{
			"two":             `accept {"text":"accept Two?"}`,
			"swallows":        "DELETED",
			"equal":           "accept accept",
			"other goroutine": `{"text":"Elsewhere?"}`,
			"rondo":           "Why?",
		} {
			wantText(t, c, tool, want)
		}
		if n := effects.Load(); n != 1 {
			t.Errorf("%d effects of one call", n)
		}
	})
}

func TestRefusalsReachTheHandler(t *testing.T) {
	for _, action := range []protocol.ElicitAction{protocol.ActionDecline,
		protocol.ActionCancel} {
		eachWay(t, func(t *testing.T, r route, era protocol.Era) {
			h := host(t, asking(&atomic.Int32{}), nil)
			c := open(t, r.open(t, h), era, hostedtest.Answering(action))
			wantText(t, c, "equal", string(action)+" "+string(action))
		})
	}
}

func TestARefusalThatTheHandlerPassesOnTellsTheModelWhatItMeans(t *testing.T) {
	const want = "cannot go on: declined: sure; the person does not want this: do not call " +
		"again unless they ask for it"
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		h := host(t, asking(&atomic.Int32{}), &hosted.Options{
			Server: server.Options{Roundtrip: roundtrip.Options{MinHumanTime: -1}}})
		c := open(t, r.open(t, h), era, hostedtest.Answering(protocol.ActionDecline))
		for _, tool := range []string{"passes on as error", "passes on as result"} {
			wantText(t, c, tool, "failed: "+want)
		}
	})
}

// The user never answers, and the handlers continue.
func TestNothingLeavesAHandlerWhoseQuestionHasNoAnswer(t *testing.T) {
	tools := []string{"unknown mode", "own timeout", "ended context", "not waited", "no call"}
	for _, park := range [][]string{nil, tools} {
		eachWay(t, func(t *testing.T, r route, era protocol.Era) {
			h := host(t, asking(&atomic.Int32{}), &hosted.Options{Park: park})
			for _, tool := range tools {
				c := open(t, r.open(t, h), era, client.Options{ElicitForm: func(
					ctx context.Context, _ *client.FormQuestion) (*protocol.ElicitResult, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}})
				ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
				result, err := c.CallTool(ctx, tool, nil)
				cancel()
				if err == nil && !result.IsError {
					t.Errorf("%s: got %s", tool, result.Content[0].(*protocol.TextContent).Text)
				}
			}
		})
	}
}

func TestACallIsRefusedWhereNobodyCanBeAsked(t *testing.T) {
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		var effects atomic.Int32
		h := host(t, asking(&effects), &hosted.Options{Optional: []string{"tries"}})
		c := open(t, r.open(t, h), era, client.Options{})
		for _, tool := range []string{"two", "swallows"} {
			got, code := hostedtest.CallTool(t, c, tool), ""
			if era == protocol.Modern {
				code = fmt.Sprint(protocol.CodeMissingRequiredClientCapability)
			}
			if !failed(got) || !strings.Contains(got, "elicitation") ||
				!strings.Contains(got, code) || strings.Contains(got, "DELETED") {
				t.Errorf("%s: got %q, want the capability that lacks", tool, got)
			}
		}
		wantText(t, c, "tries", "without an answer")
		if effects.Load() != 0 {
			t.Error("a handler went on without an answer")
		}
	})
}

func TestURLErrorsAreAskedOrPassedOn(t *testing.T) {
	visits := client.Options{ElicitURL: func(context.Context, *client.URLQuestion) (
		*protocol.ElicitResult, error) {
		return &protocol.ElicitResult{Action: protocol.ActionAccept}, nil
	}}
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		h := host(t, asking(&atomic.Int32{}), nil)
		c := open(t, r.open(t, h), era, visits)
		wantText(t, c, "visit", "signed in") // a client of 2025-11-25 visits and calls again
	})
}
