package clienthttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// A flow of two legs, many at a time, over bodies and over streams. The server
// gives every call a state of its own and insists on getting it back.
func TestTwoLegs(t *testing.T) {
	for _, kind := range []string{media, stream} {
		t.Run(kind, func(t *testing.T) {
			tr := serve(t, func(w http.ResponseWriter, r *http.Request) { twoLegs(t, kind, w, r) }, nil)
			c := client.New(tr, &client.Options{
				Era: protocol.Modern,
				ElicitForm: func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
					return client.Accept(map[string]any{"ok": true})
				},
				Notification: func(context.Context, *protocol.Notification) {},
			})
			var wait sync.WaitGroup
			for range 16 {
				wait.Go(func() {
					r, err := c.CallTool(t.Context(), "deploy", nil)
					if err != nil || len(r.Content) != 1 {
						t.Errorf("got %+v, %v", r, err)
					}
				})
			}
			wait.Wait()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func twoLegs(t *testing.T, kind string, w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	m, err := protocol.DecodeMessage(data)
	if err != nil {
		t.Error(err)
		return
	}
	req := m.(*protocol.Request)
	p, err := protocol.DecodeParams(req.Method, req.Params)
	if err != nil {
		t.Error(err)
		return
	}
	call := p.(*protocol.CallToolParams)
	answer := `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`
	switch state, present := call.RequestState.Text(); {
	case !present:
		answer = fmt.Sprintf(`{"resultType":"input_required","requestState":"for %s","inputRequests":{"sure":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}}}}`, req.ID)
	case state == "for "+req.ID.String() || !strings.HasPrefix(state, "for ") || string(call.InputResponses.Get("sure")) != `{"action":"accept","content":{"ok":true}}`:
		t.Errorf("request %s has state %q and answers %s", req.ID, state, call.InputResponses)
	}
	body := `{"jsonrpc":"2.0","id":` + req.ID.String() + `,"result":` + answer + `}`
	w.Header().Set("Content-Type", kind)
	if kind == stream {
		body = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\ndata: " + body + "\n\n"
	}
	_, _ = io.WriteString(w, body)
}
