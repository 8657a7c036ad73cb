package gatewaytest

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
)

// An Endpoint is what a test builds: a gateway that authenticates its users, and has ToolAsk and
// ToolPlain. It returns its URL.
type Endpoint func(t *testing.T, router *elicitation.Router, up *Upstream) (url string)

// AcceptOwners holds that who knows the id of another user's session, and authenticates as
// somebody else, can do nothing with it: above all not answer.
func AcceptOwners(t *testing.T, build Endpoint, owner, other http.Header) {
	router, up := newRouter(t, nil), NewUpstream(t)
	alice := Connect(t, build(t, router, up), forms, `"result":`+because, owner)
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
// not put to another whose call is in flight. The gateway's connections are PerPrincipal.
func AcceptPerPrincipal(t *testing.T, build Endpoint, one, other http.Header) {
	router, up := newRouter(t, nil), NewUpstream(t)
	url := build(t, router, up)
	alice := Connect(t, url, forms, `"result":`+because, one)
	bob := Connect(t, url, forms, `"result":`+because, other)
	defer alice.Delete(t)
	defer bob.Delete(t)
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
