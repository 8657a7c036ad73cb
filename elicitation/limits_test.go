package elicitation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// limitOf returns the limit that refused a question, if any.
func limitOf(t *testing.T, err error) string {
	t.Helper()
	e, ok := errors.AsType[*elicitation.Error](err)
	if !ok {
		return ""
	}
	var data struct {
		RetryAfterMs int
		Limit        string
	}
	if err := json.Unmarshal(e.Wire.Data, &data); err != nil || data.RetryAfterMs != 5000 ||
		e.RetryAfter != 5*time.Second {
		t.Errorf("refused with %s", e.Wire.Data)
	}
	return data.Limit
}

func TestLimits(t *testing.T) {
	type where struct{ session, subject, upstream string }
	spread := func(i int) where {
		return where{fmt.Sprint("s", i), fmt.Sprint("p", i), fmt.Sprint("u", i)}
	}
	for _, test := range []struct {
		name    string
		options elicitation.Options
		place   func(i int) where
		fits    int
		limit   string
	}{
		{"global", elicitation.Options{}, spread, 100, "global"},
		{"principal", elicitation.Options{},
			func(i int) where { w := spread(i); w.subject = "p"; return w }, 16, "principal"},
		{"anonymous callers are not one", elicitation.Options{MaxPending: 30},
			func(i int) where { w := spread(i); w.subject = ""; return w }, 30, "global"},
		{"anonymous session", elicitation.Options{},
			func(i int) where { return where{"s", "", fmt.Sprint("u", i)} }, 16, "session"},
		{"one upstream has no limit of its own", elicitation.Options{},
			func(i int) where { w := spread(i); w.upstream = "u"; return w }, 100, "global"},
		{"own connections are not one upstream", elicitation.Options{MaxPending: 60},
			func(i int) where { w := spread(i); w.upstream = ""; return w }, 60, "global"},
		{"configured", elicitation.Options{MaxPending: 3}, spread, 3, "global"},
		{"unlimited", elicitation.Options{MaxPending: -1, MaxPerPrincipal: -1},
			func(int) where { return where{"s", "p", "u"} }, 300, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, test.options)
			sessions := map[string]*elicitation.Session{}
			var offers []*offered
			ask := func(i int) error {
				w := test.place(i)
				if sessions[w.session] == nil {
					sessions[w.session] = r.attach(elicitation.SessionInfo{ID: w.session,
						Principal: protocol.Principal{Subject: w.subject}})
				}
				call := r.begin(elicitation.Origin{Session: sessions[w.session]}, byHand(),
					elicitation.UpstreamKey(w.upstream))
				o, err := offer(call, t.Context(), form("m"), func(outcome) {})
				if err == nil {
					offers = append(offers, o)
				}
				return err
			}
			for i := range test.fits {
				if err := ask(i); err != nil {
					t.Fatalf("question %d is refused: %v", i, err)
				}
			}
			if test.limit != "" {
				err := ask(test.fits)
				refused(t, err, elicitation.ReasonCapacity, protocol.CodeBusy,
					"Too many elicitations are pending")
				wantEqual(t, "refused by", limitOf(t, err), test.limit)
			}
			wantEqual(t, "pending, of which none is evicted", r.Pending(), test.fits)
			offers[0].Cancel()
			if err := ask(0); err != nil {
				t.Errorf("a slot that is free is not given: %v", err)
			}
			for _, o := range offers {
				o.Cancel()
			}
			r.settled()
		})
	}
}

// At the defaults neither a principal with many sessions nor all anonymous callers take all.
func TestNoPrincipalTakesAllQuestions(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	asked := 0
	ask := func(s *elicitation.Session) (limit string) {
		asked++
		call := r.begin(elicitation.Origin{Session: s}, byHand(),
			elicitation.UpstreamKey(fmt.Sprint("up", asked)))
		_, err := offer(call, t.Context(), form("m"), nil)
		return limitOf(t, err)
	}
	fill := func(p protocol.Principal) (n int, limit string) {
		for range 20 {
			s := r.attach(elicitation.SessionInfo{Principal: p})
			for range 16 {
				if limit = ask(s); limit != "" {
					return n, limit
				}
				n++
			}
		}
		return n, ""
	}
	bobs := r.attach(elicitation.SessionInfo{Principal: bob()})
	if n, limit := fill(protocol.Principal{}); n != 75 || limit != "principal" {
		t.Errorf("anonymous callers have %d questions, then limit %q, want 75", n, limit)
	}
	if n, limit := fill(alice()); n != 16 || limit != "principal" {
		t.Errorf("alice has %d questions, then limit %q, want 16", n, limit)
	}
	wantEqual(t, "bob is refused by", ask(bobs), "")
}
