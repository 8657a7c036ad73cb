package rpc_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
)

// The envelope of a transport equals that of AppendMessage.
func TestCompletesToMessage(t *testing.T) {
	const object = `{"a":1}`
	id := protocol.StringID("a\"b")
	for _, test := range []struct {
		name    string
		begun   []byte
		message protocol.Message
	}{
		{"request", rpc.BeginRequest(nil, id.String(), "x/\"y"),
			&protocol.Request{ID: id, Method: "x/\"y", Params: []byte(object)}},
		{"response", rpc.BeginResult(nil, id.String()),
			&protocol.Response{ID: id, Result: []byte(object)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want, err := protocol.AppendMessage(nil, test.message)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(test.begun) + object + "}"; got != string(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
