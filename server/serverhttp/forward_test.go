package serverhttp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func TestAForwarderThatShutsDownLeavesTheOutcomeUnknown(t *testing.T) {
	f, c := newPair(t)
	done := make(chan *reply, 1)
	go func() { done <- c.call(1, "wait") }()
	<-f.all["a"].steps.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantIs(t, "Shutdown", f.all["b"].h.Shutdown(ctx), context.Canceled)
	got := <-done
	wantStatus(t, "the call", got, 502)
	if got.Error == nil || !strings.HasPrefix(got.Error.Message, "outcome unknown") {
		t.Errorf("got %s", got.body)
	}
	// The owner goes on with it: a call that was answered with 503 would run twice.
	f.all["a"].steps.allow <- struct{}{}
	if hops := forwards(f.all["b"]); len(hops) != 1 || hops[0].Outcome != words.ForwardUnknown {
		t.Errorf("reported as %+v", hops)
	}
}

// A client of a legacy revision cancels with a notification, not by leaving.
func TestAClientThatLeavesAForwarderDoesNotCancel(t *testing.T) {
	f := newFleet(t, nil, "a", "b", "c")
	owner := f.all["a"]
	c := openSession(t, owner.ts, "2025-11-25").through(f.all["b"])
	leave := c.startCall(1, "wait")
	ctx := <-owner.steps.entered
	leave()
	if hops := forwards(f.all["b"]); len(hops) != 1 ||
		hops[0].Outcome != words.ForwardAbandoned {
		t.Errorf("reported as %+v", hops)
	}
	noError(t, context.Cause(ctx))
	select {
	case owner.steps.allow <- struct{}{}: // it still runs
	case err := <-owner.steps.ended:
		t.Errorf("the call has ended: %v", err)
	}
}

func TestNothingOfASessionIsForAnotherPrincipalThroughAnyReplica(t *testing.T) {
	f := newFleet(t, &serverhttp.Options{Authenticate: func(r *http.Request) (
		protocol.Principal, error) {
		subject, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			return protocol.Principal{}, errors.New("no token")
		}
		return protocol.Principal{Issuer: "i", Subject: subject}, nil
	}}, "a", "b", "c")
	ada := openAs(t, f.all["a"].ts, "Bearer ada").through(f.all["b"])
	asked := ada.callFlow(1, "elicit")
	question := asked.expect("elicitation/create")
	ran := ada.startCall(2, "wait")
	ctx := <-f.all["a"].steps.entered

	mallory := *ada.through(f.all["c"])
	mallory.bearer = "Bearer mallory"
	for what, response := range map[string]*http.Response{
		"an answer": mallory.post(`{"jsonrpc":"2.0","id":` + string(question.ID) +
			`,"result":{"action":"accept","content":{"name":"Mallory"}}}`),
		"a cancellation": mallory.post(`{"jsonrpc":"2.0","method":"notifications/cancelled",` +
			`"params":{"requestId":2}}`),
		"a stream":     mallory.do(t.Context(), "GET", "", "Content-Type", ""),
		"a resumption": mallory.do(t.Context(), "GET", "", "Last-Event-ID", asked.LastEventID()),
		"a deletion":   mallory.do(t.Context(), "DELETE", ""),
	} {
		wantStatus(t, what, read(t, response), 404)
	}
	mallory.bearer = ""
	wantStatus(t, "nobody", mallory.call(3, "echo"), 401)
	wantEqual(t, "the owner was asked times", len(forwards(f.all["c"])), 5)
	ada.answer(question.ID, `{"action":"accept","content":{"name":"Ada"}}`)
	asked.expect("Ada")
	asked.end()
	noError(t, ctx.Err())
	f.all["a"].steps.allow <- struct{}{}
	ran()
}
