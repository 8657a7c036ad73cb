package e2e_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// TestZeroOfATypedHandler: what a handler of AddToolOut returns beside an ignored
// ErrPending fits its output schema, and goes nowhere.
func TestZeroOfATypedHandler(t *testing.T) {
	srv, err := server.New(&server.Options{Info: protocol.Implementation{Name: "typed",
		Version: "1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	runs := 0
	server.AddToolOut(srv, server.Tool{Name: "provision"},
		func(ctx context.Context, _ *server.ToolCall, _ struct{}) (database, error) {
			runs++
			where, _ := roundtrip.Ask[region](ctx, "region", "Which region?")
			return database{Region: where.Name, Cores: 4711}, nil
		})
	peer := &recordedPeer{Peer: srv, t: t}
	c, err := client.New(peer, person{"region": `{"name":"eu"}`}.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	got, err := tool("provision", `{}`)(within(t, patience), c)
	if want := `{"region":"eu","cores":4711}`; err != nil || got != want || runs != 2 {
		t.Errorf("got %q, %v in %d runs, want %q in 2", got, err, runs, want)
	}
	said := 0
	for _, m := range peer.log.Messages() {
		if strings.Contains(string(m.Body), "4711") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%d messages hold a result, want the last alone", said)
	}
}
