package gatewaytest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
)

// A Begun begins a call for the request of a handler.
type Begun func(elicitation.UpstreamKey) (*elicitation.Call, error)

// AcceptForgotten holds that a call whose handler forgets to end it makes nothing ambiguous that
// comes on its connection later. build returns a gateway with [ToolPlain] and [ToolAsk], whose text
// is what handle returns.
func AcceptForgotten(t *testing.T, build func(t *testing.T, router *elicitation.Router,
	handle func(ctx context.Context, tool string, begin Begun) (string, error)) http.Handler) {
	router := newRouter(t, nil)
	handler := build(t, router, func(ctx context.Context, tool string, begin Begun) (string,
		error) {
		call, err := begin("up")
		if err != nil || tool == ToolPlain {
			return "forgotten", err
		}
		defer call.End()
		answer, err := router.ElicitFrom(ctx, "up", json.RawMessage(plain), nil)
		if err != nil {
			return "", err
		}
		text, err := answer.MarshalJSON()
		return string(text), err
	})
	served := httptest.NewServer(handler)
	t.Cleanup(served.Close)
	alice := Connect(t, served.URL, forms, "", nil)
	bob := Connect(t, served.URL, forms, `"result":`+because, nil)
	if got := alice.Call(t, ToolPlain, plain); got != "forgotten" {
		t.Errorf("got %s", got)
	}
	if got := bob.Call(t, ToolAsk, plain); got != because {
		t.Errorf("the upstream reads %s, want %s", got, because)
	}
}
