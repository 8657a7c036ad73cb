package gatewaytest

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/elicitation"
)

// AcceptOwners holds that who knows the id of another user's session, and authenticates as
// somebody else, can do nothing with it: above all not answer.
func AcceptOwners(t *testing.T, build Build, owner, other http.Header) {
	router := newRouter(t, nil)
	url := serve(t, build, router, &Backend{Upstream: NewUpstream(t)})
	alice := Connect(t, url, forms, `"result":`+because, owner)
	stream := alice.StartCall(t, ToolAsk, plain)
	defer stream.Close()
	question := stream.WaitForQuestion(t)
	mallory := alice.As(other)
	for name, message := range map[string]struct{ method, body string }{
		"answer": {http.MethodPost,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, question.ID)},
		"call": {http.MethodPost, `{"jsonrpc":"2.0","id":77,"method":"tools/call",` +
			`"params":{"name":"` + ToolAsk + `","arguments":{}}}`},
		"cancellation": {http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0",`+
			`"method":"notifications/cancelled","params":{"requestId":%d}}`, stream.id)},
		"stream": {http.MethodGet, ""},
		"delete": {http.MethodDelete, ""},
	} {
		response := mallory.send(t, message.method, "%s", message.body)
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: mallory gets %d", name, response.StatusCode)
		}
	}
	expectPending(t, router, 1) // alice's
	alice.Send(t, question)
	if got := stream.Result(t); got != because {
		t.Errorf("the upstream reads %s, want %s", got, because)
	}
	if got := alice.Delete(t); got >= http.StatusMultipleChoices {
		t.Errorf("alice gets %d", got)
	}
}

// AcceptPerPrincipal holds that what a server asks over lines, after the end of one user's call, is
// not put to another whose call is in flight, where connections are PerPrincipal.
func AcceptPerPrincipal(t *testing.T, build Build) {
	router, up := newRouter(t, nil), NewUpstream(t)
	url := serve(t, build, router, &Backend{Upstream: up, Lines: true, PerPrincipal: true})
	alice := Connect(t, url, forms, `"result":`+because, As("alice"))
	bob := Connect(t, url, forms, `"result":`+because, As("bob"))
	alice.Call(t, ToolPlain, plain)
	askLate := up.lateAsker()
	stream := bob.StartCall(t, ToolAsk, plain)
	defer stream.Close()
	question := stream.WaitForQuestion(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	const want = `{"code":-32601,"message":"No client session available"}`
	if got := askLate(ctx, plain); !matchesJSON(got, want) {
		t.Errorf("the late question gets %s, want %s", got, want)
	}
	bob.Send(t, question)
	if got := stream.Result(t); got != because {
		t.Errorf("bob's upstream reads %s", got)
	}
	if got := alice.Call(t, ToolAsk, plain); got != because {
		t.Errorf("alice's upstream reads %s", got)
	}
}

// AcceptAbandoned holds that a question about a call whose client has given it up ends, and that
// what the upstream asks about it afterwards is not put to the next client on the connection.
func AcceptAbandoned(t *testing.T, build Gateway) {
	for _, mode := range []Mode{SharedHTTP, TurnsLines} {
		t.Run(string(mode), func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			router, up := newRouter(t, &elicitation.Options{Logger: zap.New(core)}), NewUpstream(t)
			url := build(t, router, up, mode)
			alice := Connect(t, url, forms, "", nil)
			bob := Connect(t, url, forms, `"result":`+because, nil)
			stream := alice.StartCall(t, ToolAsk, plain)
			defer stream.Close()
			stream.WaitForQuestion(t)
			askLate := up.lateAsker()
			alice.cancel(t, stream.id)
			result := make(chan string, 1)
			go func() { result <- bob.Call(t, ToolWait, plain) }()
			up.steps <- struct{}{}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			const want = `{"code":-32601,"message":"No client session available"}`
			if got := askLate(ctx, plain); !matchesJSON(got, want) {
				t.Errorf("the late question gets %s, want %s", got, want)
			}
			for logs.FilterMessage("elicitation.cancelled").Len() == 0 && ctx.Err() == nil {
				runtime.Gosched()
			}
			if logs.FilterMessage("elicitation.cancelled").Len() != 1 ||
				logs.FilterMessage("elicitation.delivered").Len() != 0 {
				t.Errorf("logged %v", logs.All())
			}
			up.steps <- struct{}{}
			if got := <-result; got != "done" {
				t.Errorf("bob gets %s", got)
			}
			expectPending(t, router, 0)
		})
	}
}
