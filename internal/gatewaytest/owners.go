package gatewaytest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
)

// AcceptOwners holds that who knows the id of another user's session, and authenticates as
// somebody else, can do nothing with it: above all not answer. build returns the URL of a gateway
// that has ToolAsk.
func AcceptOwners(t *testing.T, build func(t *testing.T, router *elicitation.Router,
	up *Upstream) (url string), owner, other http.Header) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	up := NewUpstream(t)
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
		response := mallory.send(t, message.method, message.body)
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: mallory gets %d", name, response.StatusCode)
		}
	}
	if n := router.Pending(); n != 1 {
		t.Errorf("%d questions are pending, want alice's", n)
	}
	alice.answer(t, question)
	if m, ok := stream.next(); !ok || resultText(m) != because {
		t.Errorf("the upstream reads %s, want %s", resultText(m), because)
	}
	if got := alice.Delete(t); got >= http.StatusMultipleChoices {
		t.Errorf("alice gets %d", got)
	}
}
