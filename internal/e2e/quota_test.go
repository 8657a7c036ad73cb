package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// writeOnce pays for one entry of a diary, with a client of its own.
func writeOnce(t *testing.T, url, user string, era protocol.Era) error {
	peer, err := clienthttp.New(url, &clienthttp.Options{
		HTTPClient: &http.Client{Transport: transport(t)}, Header: http.Header{userHeader: {user}},
	})
	if err != nil {
		return err
	}
	form := func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
		e := ctx.Value(entryKey{}).(entry)
		e.Word = map[string]string{"Well": "first ", "And,": "second "}[q.Message[:4]] + e.Word
		return client.Accept(e)
	}
	c, err := client.New(peer, &client.Options{Era: era, ElicitForm: form, NoBusyRetry: true})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	d := &diarist{user: user, client: c}
	return d.write(within(t, patience), entry{"word", 1})
}

// TestAPrincipalAtItsShareHindersNobody: where a guard and a store have no more room for one
// principal, the payments of others go through in both eras, and it learns when to come back
// itself. In sessions neither is needed.
func TestAPrincipalAtItsShareHindersNobody(t *testing.T) {
	for name, opts := range map[string]roundtrip.Options{
		"guard": {Guard: store.NewMemoryGuard(8)}, // two states for each
		"store": {StateStore: store.NewMemoryStateStore(8),
			Limits: roundtrip.Limits{StateBytes: 250}},
	} {
		t.Run(name, func(t *testing.T) {
			srv, watched := mustServe(t, &server.Options{Roundtrip: opts})
			addDiary(srv)
			url := listen(t,
				servertest.NewHandler(t, srv, &serverhttp.Options{Authenticate: authenticate}))
			write := func(user string, era protocol.Era) error {
				return writeOnce(t, url, user,
					era)
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
			if !ok || e.Code != protocol.CodeBusy || json.Unmarshal(e.Data, &data) != nil ||
				data.RetryAfterMs <= 0 || data.Limit != "principal" {
				t.Fatalf("mallory gets %v, want to be told when to come back", refused)
			}
			if events := seen[event.QuotaExceeded](watched); len(events) == 0 ||
				events[0].Resource != name {
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

// TestPaymentsAtTheMomentAtWhichAnotherReachesItsShare go through, in both eras, and the share is
// kept to the last state.
func TestPaymentsAtTheMomentAtWhichAnotherReachesItsShare(t *testing.T) {
	srv, watched := mustServe(t,
		&server.Options{Roundtrip: roundtrip.Options{Guard: store.NewMemoryGuard(40)}})
	addDiary(srv)
	url := listen(t, servertest.NewHandler(t, srv, &serverhttp.Options{Authenticate: authenticate}))
	const share, legs = 10, 2 // an entry takes two questions, and so two states
	var paid, refused atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			err := writeOnce(t, url, "mallory", protocol.Modern)
			if err == nil {
				paid.Add(1)
			} else if e, ok := protocol.AsError(err); ok && e.Code == protocol.CodeBusy {
				refused.Add(1)
			} else {
				t.Errorf("mallory: %v", err)
			}
		})
		if i%4 == 0 {
			era := []protocol.Era{protocol.Modern, protocol.Legacy}[i/4%2]
			all.Go(func() {
				if err := writeOnce(t, url, "alice", era); err != nil {
					t.Errorf("alice, %s: %v", era, err)
				}
			})
		}
	}
	all.Wait()
	if paid.Load() > share/legs || refused.Load() == 0 {
		t.Errorf("%d payments of mallory went through and %d were refused, want at most %d of 20",
			paid.Load(), refused.Load(), share/legs)
	}
	if bugs := seen[serverBug](watched); len(bugs) > 0 {
		t.Errorf("want of room is reported as a bug: %v", bugs[0])
	}
}
