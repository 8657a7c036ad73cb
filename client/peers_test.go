package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// Each test of this file guards against a defect that another client has or had;
// the numbers tell the defects apart.

// countingForm returns options whose form handler counts.
func countingForm(n *atomic.Int32) *client.Options {
	return &client.Options{ElicitForm: func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
		n.Add(1)
		return acceptName(ctx, q)
	}}
}

func TestG24NullQuestion(t *testing.T) {
	for name, questions := range map[string]string{
		"null": `{"c":null}`, "number": `{"c":1}`, "null params": `{"c":{"method":"elicitation/create","params":null}}`,
		"no method": `{"c":{}}`, "null map": `null`, "list": `[]`, "unknown kind": `{"c":{"method":"tools/call","params":{}}}`,
		"beside a good one": `{"who":` + nameForm + `,"c":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			var prompts atomic.Int32
			_, err := callOnce(t, script(ask(`"inputRequests":`+questions)), countingForm(&prompts))
			if _, ok := errors.AsType[*client.ResponseError](err); !ok || prompts.Load() != 0 {
				t.Errorf("got %v after %d prompts, want a response error", err, prompts.Load())
			}
		})
	}
}

func TestG25RetriedReadsAreNotReused(t *testing.T) {
	var prompts atomic.Int32
	content := `{"resultType":"complete","contents":[{"uri":"u:1","text":"x"}],"ttlMs":60000,"cacheScope":"public"}`
	peer := &fakePeer{handle: func(_ context.Context, req *protocol.Request, _ protocol.Back) (*protocol.Response, error) {
		result := content
		if !strings.Contains(string(req.Params), "inputResponses") {
			result = ask(`"inputRequests":{"who":` + nameForm + `}`)
		}
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(result)}, nil
	}}
	c := newClient(t, peer, countingForm(&prompts))
	for range 2 {
		if _, err := c.ReadResource(t.Context(), "u:1"); err != nil {
			t.Fatal(err)
		}
	}
	if prompts.Load() != 2 || len(peer.requests()) != 4 {
		t.Errorf("got %d prompts and %d requests, want 2 and 4", prompts.Load(), len(peer.requests()))
	}
}

func TestG27StateOnlyIsNotFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := script(ask(`"requestState":"busy"`), done)
		r, err := callOnce(t, peer, nil)
		wantDone(t, r, err)
		if got := member(t, peer.requests()[1], "requestState"); got != `"busy"` {
			t.Errorf("got state %s", got)
		}
		if got := member(t, peer.requests()[1], "inputResponses"); got != "" {
			t.Errorf("got answers %s to no question", got)
		}
	})
}

func TestG28M17NeitherFieldIsAnError(t *testing.T) {
	for name, result := range map[string]string{
		"neither": `{"resultType":"input_required"}`, "empty map": ask(`"inputRequests":{}`), "content": ask(`"content":[]`),
	} {
		t.Run(name, func(t *testing.T) {
			peer := script(result)
			_, err := callOnce(t, peer, nil)
			if _, ok := errors.AsType[*client.ResponseError](err); !ok || len(peer.requests()) != 1 {
				t.Errorf("got %v after %d requests, want a response error after 1", err, len(peer.requests()))
			}
		})
	}
}

func TestG29M18UnknownResultType(t *testing.T) {
	_, err := callOnce(t, script(`{"resultType":"deferred","content":[{"type":"text","text":"x"}]}`), nil)
	if unknown, ok := errors.AsType[*protocol.UnknownResultTypeError](err); !ok || unknown.ResultType != "deferred" {
		t.Errorf("got %v, want an unknown result type", err)
	}
}

func TestG30CompleteWithQuestionsIsComplete(t *testing.T) {
	var prompts atomic.Int32
	peer := script(strings.Replace(done, `"content"`, `"inputRequests":{"who":`+nameForm+`},"requestState":"s","content"`, 1))
	r, err := callOnce(t, peer, countingForm(&prompts))
	wantDone(t, r, err)
	if prompts.Load() != 0 || len(peer.requests()) != 1 {
		t.Errorf("got %d prompts and %d requests, want 0 and 1", prompts.Load(), len(peer.requests()))
	}
}

func TestG31M16EmptyStateIsEchoed(t *testing.T) {
	peer := script(ask(`"inputRequests":{"who":`+nameForm+`},"requestState":""`), done)
	r, err := callOnce(t, peer, &client.Options{ElicitForm: acceptName})
	wantDone(t, r, err)
	if got := member(t, peer.requests()[1], "requestState"); got != `""` {
		t.Errorf("got state %q, want the empty string", got)
	}
}

func TestG32RootsWithoutParams(t *testing.T) {
	peer := script(ask(`"inputRequests":{"dirs":{"method":"roots/list"}}`), done)
	r, err := callOnce(t, peer, &client.Options{ListRoots: func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
		return nil, nil
	}})
	wantDone(t, r, err)
}

func TestG33M15StateOnlyRoundsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := ask(`"requestState":"busy"`)
		start := time.Now()
		peer := script(busy, busy, busy, busy, busy, busy, done)
		r, err := callOnce(t, peer, nil)
		wantDone(t, r, err)
		if took := time.Since(start); took < 600*time.Millisecond {
			t.Errorf("six rounds took %v, want them paced", took)
		}
	})
}

func TestG34CapIsKnownBeforePrompting(t *testing.T) {
	for name, limit := range map[string]int{"default": 0, "one": 1, "never": -1} {
		t.Run(name, func(t *testing.T) {
			var prompts atomic.Int32
			opts := countingForm(&prompts)
			opts.MaxRounds = limit
			want := map[int]int{0: client.DefaultMaxRounds, 1: 1, -1: 0}[limit]
			peer := script(ask(`"inputRequests":{"who":` + nameForm + `},"requestState":"s"`))
			_, err := callOnce(t, peer, opts)
			exceeded, ok := errors.AsType[*client.RoundsExceededError](err)
			if !ok || exceeded.Rounds != want || len(exceeded.Last.InputRequests) != 1 {
				t.Fatalf("got %v (%+v), want %d rounds", err, exceeded, want)
			}
			// Every prompt's answer was sent: nobody was asked in vain.
			if int(prompts.Load()) != want || len(peer.requests()) != want+1 {
				t.Errorf("got %d prompts and %d requests, want %d and %d", prompts.Load(), len(peer.requests()), want, want+1)
			}
		})
	}
}

func TestG35UndeclaredURLIsNotHandedOver(t *testing.T) {
	var prompts atomic.Int32
	_, err := callOnce(t, script(ask(`"inputRequests":{"who":`+nameForm+`,"in":`+visitURL+`}`)), countingForm(&prompts))
	refused, ok := errors.AsType[*client.QuestionError](err)
	if !ok || !errors.Is(err, client.ErrUndeclared) || refused.Kind != protocol.KindElicitURL || prompts.Load() != 0 {
		t.Errorf("got %v after %d prompts, want an undeclared URL question", err, prompts.Load())
	}
}

func TestG36NilAnswer(t *testing.T) {
	_, err := callOnce(t, script(ask(`"inputRequests":{"who":`+nameForm+`}`)), &client.Options{
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) { return nil, nil },
	})
	if _, ok := errors.AsType[*client.AnswerError](err); !ok {
		t.Errorf("got %v, want an answer error", err)
	}
}

func TestG37ProgressTokens(t *testing.T) {
	t.Run("the caller's is kept", func(t *testing.T) {
		peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
		p := &protocol.CallToolParams{Name: "greet"}
		p.ProgressToken = protocol.StringID("p")
		_, err := newClient(t, peer, &client.Options{ElicitForm: acceptName}).CallToolParams(t.Context(), p)
		if err != nil || p.Version != "" || p.Capabilities != nil || p.InputResponses != nil {
			t.Errorf("got %v, params %+v", err, p)
		}
		for i, req := range peer.requests() {
			if got := metaOf(t, req).ProgressToken; got != p.ProgressToken {
				t.Errorf("leg %d: got token %s", i, got)
			}
		}
	})
	t.Run("the client's own are new each time", func(t *testing.T) {
		peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
		r, err := callOnce(t, peer, &client.Options{ElicitForm: acceptName, Progress: func(context.Context, *protocol.Progress) {}})
		wantDone(t, r, err)
		a, b := metaOf(t, peer.requests()[0]).ProgressToken, metaOf(t, peer.requests()[1]).ProgressToken
		if a == b || a.IsZero() || b.IsZero() {
			t.Errorf("got tokens %s and %s, want two", a, b)
		}
	})
}

func TestM14ManualRetryIsSent(t *testing.T) {
	peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
	p := &protocol.CallToolParams{Name: "greet", Retry: protocol.Retry{
		InputResponses: protocol.InputResponses{{Key: "old", Result: json.RawMessage(`{"action":"decline"}`)}},
		RequestState:   protocol.StateText("resumed"),
	}}
	_, err := newClient(t, peer, &client.Options{ElicitForm: acceptName}).CallToolParams(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	first, second := peer.requests()[0], peer.requests()[1]
	if got := member(t, first, "inputResponses") + member(t, first, "requestState"); got != `{"old":{"action":"decline"}}"resumed"` {
		t.Errorf("first leg: got %s", got)
	}
	// The retry carries nothing of what is over.
	if got := member(t, second, "inputResponses") + member(t, second, "requestState"); strings.Contains(got, "old") || strings.Contains(got, "resumed") {
		t.Errorf("second leg: got %s", got)
	}
}
