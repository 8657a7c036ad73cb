package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestAPrincipalAtItsShareHindersNobody: where a guard and a store have no more room for one principal, the payments of
// others go through in both eras, and it learns when to come back itself. In sessions neither is needed.
func TestAPrincipalAtItsShareHindersNobody(t *testing.T) {
	for name, opts := range map[string]roundtrip.Options{
		"guard": {Guard: roundtrip.NewMemoryGuard(8)}, // two states for each
		"store": {StateStore: roundtrip.NewMemoryStateStore(8), MaxStateBytes: 250},
	} {
		t.Run(name, func(t *testing.T) {
			srv, watched := mustServe(t, &server.Options{Roundtrip: opts})
			addDiary(srv)
			url := listen(t, serverhttp.New(srv, &serverhttp.Options{Authenticate: authenticate}))
			write := func(user string, era protocol.Era) error {
				peer, err := clienthttp.New(url, &clienthttp.Options{HTTPClient: &http.Client{Transport: transport(t)}, Header: http.Header{userHeader: {user}}})
				if err != nil {
					t.Fatal(err)
				}
				c, err := client.New(peer, &client.Options{Era: era, ElicitForm: func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
					e := ctx.Value(entryKey{}).(entry)
					e.Word = map[string]string{"Well": "first ", "And,": "second "}[q.Message[:4]] + e.Word
					return client.Accept(e)
				}})
				if err != nil {
					return err
				}
				t.Cleanup(func() { _ = c.Close() })
				d := &diarist{user: user, client: c}
				return d.write(within(t, patience), entry{"word", 1})
			}
			var refused error
			for range 3 {
				if refused = write("mallory", protocol.Modern); refused != nil {
					break
				}
			}
			e, ok := protocol.AsError(refused)
			var data struct {
				RetryAfterMs int
				Limit        string
			}
			if !ok || e.Code != protocol.CodeBusy || json.Unmarshal(e.Data, &data) != nil || data.RetryAfterMs <= 0 || data.Limit != "principal" {
				t.Fatalf("mallory gets %v, want to be told when to come back", refused)
			}
			if events := seen[roundtrip.QuotaExceeded](watched); len(events) == 0 || events[0].Resource != name {
				t.Errorf("events %+v", events)
			}
			if bugs := seen[serverBug](watched); len(bugs) > 0 {
				t.Errorf("want of room is reported as a bug: %v", bugs[0])
			}
			if err := write("alice", protocol.Legacy); err != nil {
				t.Errorf("alice in a session: %v", err)
			}
			if err := write("mallory", protocol.Legacy); err != nil {
				t.Errorf("mallory in a session: %v", err)
			}
			if err := write("alice", protocol.Modern); err != nil {
				t.Errorf("alice: %v", err)
			}
		})
	}
}
