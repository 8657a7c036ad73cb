package client_test

import (
	"context"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// FuzzResult feeds the driver what a hostile server may answer. It must come
// back with a result or an error, prompt nobody for a round that it refuses
// before the retry, and never send more than one retry here.
func FuzzResult(f *testing.F) {
	seeds := []string{
		done,
		ask(`"requestState":"s"`),
		ask(`"inputRequests":{"who":` + nameForm + `},"requestState":""`),
		ask(`"inputRequests":{"in":` + visitURL + `,"say":` + sampling + `,"dirs":` + listRoots + `}`),
		ask(`"inputRequests":{"who":null}`),
	}
	for _, seed := range seeds {
		if seed == "" {
			f.Fatal("empty seed")
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, result string) {
		peer := script(result, done)
		asked := false
		c := client.New(peer, &client.Options{
			MinPause: 1, MaxPause: 1,
			ElicitForm: func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
				asked = true
				return acceptName(ctx, q)
			},
		})
		defer func() { _ = c.Close() }()
		r, err := c.CallTool(context.Background(), "t", nil)
		if (r == nil) == (err == nil) {
			t.Fatalf("got %v and %v", r, err)
		}
		n := len(peer.requests())
		if n > 2 || (n == 2 && err != nil) {
			t.Errorf("got %v after %d requests", err, n)
		}
		if _, refused := err.(*client.QuestionError); refused && asked {
			t.Error("somebody was asked a question of a refused round")
		}
	})
}
