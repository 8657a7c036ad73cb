package elicitation_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// A mapStore is a store in memory. fail makes that many calls fail; those that are done
// first fail all the same.
type mapStore struct {
	mu      sync.Mutex
	records map[string][2][]byte
	fail    atomic.Int32
	calls   atomic.Int32
}

func newMapStore() *mapStore { return &mapStore{records: make(map[string][2][]byte)} }

var errStoreDown = errors.New("the store is down")

func (s *mapStore) end(err error) error {
	s.calls.Add(1)
	if s.fail.Add(-1) >= 0 {
		return errStoreDown
	}
	return err
}

func (s *mapStore) Put(_ context.Context, key string, record []byte, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[key] = [2][]byte{bytes.Clone(record), nil}
	return s.end(nil)
}

func (s *mapStore) Get(_ context.Context, key string) (record, end []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[key]
	if !ok {
		return nil, nil, s.end(elicitation.ErrNoRecord)
	}
	return r[0], r[1], s.end(nil)
}

func (s *mapStore) End(_ context.Context, key string, end []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[key]
	if !ok {
		return nil, s.end(elicitation.ErrNoRecord)
	}
	if r[1] == nil {
		r[1] = bytes.Clone(end)
		s.records[key] = r
	}
	return r[1], s.end(nil)
}

// A forwarder's question: it knows the upstream's id of it.
func (r *rig) forwarded(
	s *elicitation.Session, outcome *elicitation.Outcome,
) *elicitation.Offered {
	r.Helper()
	call := r.begin(elicitation.Origin{Session: s}, elicitation.Via{}, "up")
	r.Cleanup(call.End)
	offered, err := call.Offer(context.Background(), form("m"),
		&elicitation.ElicitOptions{UpstreamID: protocol.IntID(7)},
		func(o elicitation.Outcome) { *outcome = o })
	if err != nil {
		r.Fatal(err)
	}
	offered.ConfirmDelivery()
	return offered
}

func (r *rig) wantResolved(from elicitation.Sender, reply *protocol.Response,
	want elicitation.Disposition, text string) {
	r.Helper()
	got, d, err := r.Resolve(context.Background(), from, reply)
	if d != want || err != nil {
		r.Errorf("Resolve is %v, %v, want %v", d, err, want)
	}
	if text == "" {
		if got != nil {
			r.Errorf("resolved %+v", got)
		}
		return
	}
	if got == nil {
		r.Error("nothing is resolved")
		return
	}
	raw, err := protocol.AppendMessage(nil, got.Response)
	if err != nil || got.Upstream != "up" || string(raw) != text {
		r.Errorf("resolved %s for %q, want %s", raw, got.Upstream, text)
	}
}

const resolvedYes = `{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":{"ok":true}}}`

func TestResolveHere(t *testing.T) {
	for name, o := range map[string]elicitation.Options{
		"no store": {}, "store": {Store: newMapStore()},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, o)
			s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
			var outcome elicitation.Outcome
			id := r.forwarded(s, &outcome).Request().ID
			r.wantResolved(elicitation.Sender{Session: "s2", Principal: alice()}, result(id, yes),
				elicitation.WrongSession, "")
			r.wantResolved(elicitation.Sender{Session: "s1", Principal: bob()}, result(id, yes),
				elicitation.WrongPrincipal, "")
			r.wantResolved(s.Sender(), result(id, yes), elicitation.Accepted, resolvedYes)
			r.wantResolved(s.Sender(), result(id, yes), elicitation.Duplicate, "")
			if !outcome.Resolved || outcome.Err != nil || outcome.Result.Action != "accept" {
				t.Errorf("outcome is %+v", outcome)
			}
			r.settled()
		})
	}
}

// The reply arrives at a replica that has never heard of the question.
func TestResolveAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMapStore()
		a := newRig(t, elicitation.Options{Store: store})
		b := newRig(t, elicitation.Options{Store: store})
		s := a.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
		var outcome elicitation.Outcome
		id := a.forwarded(s, &outcome).Request().ID
		b.wantResolved(elicitation.Sender{Session: "s2", Principal: alice()}, result(id, yes),
			elicitation.WrongSession, "")
		b.wantResolved(elicitation.Sender{Session: "s1", Principal: bob()}, result(id, yes),
			elicitation.WrongPrincipal, "")
		b.wantResolved(s.Sender(), result(id, yes), elicitation.Accepted, resolvedYes)
		b.wantResolved(s.Sender(), result(id, yes), elicitation.Duplicate, "")
		a.wantResolved(s.Sender(), result(id, yes), elicitation.Duplicate, "")
		for _, r := range store.records {
			if strings.Contains(string(r[0]), "alice") {
				t.Error("the store can be read")
			}
		}
		time.Sleep(2 * time.Minute) // in the bubble: its owner's timeout
		synctest.Wait()             // the outcome is reported in the timer's goroutine
		if !outcome.Resolved || outcome.Err != nil || outcome.Result.Action != "accept" {
			t.Errorf("outcome is %+v", outcome)
		}
		if n := a.value("elicitation_completed_total", "action", "accept"); n != 1 {
			t.Errorf("%v completed, want 1", n)
		}
		s.Detach()
		a.settled()
	})
}

// Whoever ends a question decides whether an answer can be claimed.
func TestResolveAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMapStore()
		a := newRig(t, elicitation.Options{Store: store})
		b := newRig(t, elicitation.Options{Store: store})
		s := a.attach(elicitation.SessionInfo{ID: "s1"})
		var timedOut, cancelled, failed elicitation.Outcome
		late := a.forwarded(s, &timedOut)
		time.Sleep(2 * time.Minute)
		synctest.Wait() // the outcome is reported in the timer's goroutine
		withdrawn := a.forwarded(s, &cancelled)
		withdrawn.Cancel()
		invalid := a.forwarded(s, &failed)
		for _, id := range []protocol.ID{late.Request().ID, withdrawn.Request().ID} {
			b.wantResolved(s.Sender(), result(id, yes), elicitation.Expired, "")
		}
		if !errors.Is(timedOut.Err, elicitation.ReasonTimeout) ||
			!errors.Is(cancelled.Err, elicitation.ReasonCancelled) {
			t.Errorf("outcomes are %+v, %+v", timedOut, cancelled)
		}
		b.wantResolved(s.Sender(), result(invalid.Request().ID, `{"action":"perhaps"}`),
			elicitation.Invalid, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,`+
				`"message":"The client's answer is not valid"}}`)
		s.Detach()
		if !failed.Resolved || failed.Err == nil {
			t.Errorf("outcome is %+v", failed)
		}
		a.settled()
	})
}

// Of many replies at many replicas one is claimed, also when the store loses its answers.
func TestResolveIsClaimedOnce(t *testing.T) {
	store := newMapStore()
	var rigs [3]*rig
	for i := range rigs {
		rigs[i] = newRig(t, elicitation.Options{Store: store})
	}
	s := rigs[0].attach(elicitation.SessionInfo{ID: "s1"})
	var outcome elicitation.Outcome
	id := rigs[0].forwarded(s, &outcome).Request().ID
	store.fail.Store(10)
	var claimed atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			got, d, err := rigs[i%3].Resolve(t.Context(), s.Sender(), result(id, yes))
			if (got != nil) != (d == elicitation.Accepted) || err != nil {
				t.Errorf("resolved %v, %v, %v", got, d, err)
			}
			if got != nil {
				claimed.Add(1)
			}
		})
	}
	wg.Wait()
	if n := claimed.Load(); n != 1 {
		t.Errorf("%d replies were claimed, want 1", n)
	}
	rigs[0].settled()
}

// A question whose record cannot be stored is refused, and one that Elicit waits for is not
// resolved.
func TestResolveRefuses(t *testing.T) {
	store := newMapStore()
	r := newRig(t, elicitation.Options{Store: store})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	store.fail.Store(1)
	call := r.begin(elicitation.Origin{Session: s}, elicitation.Via{}, "up")
	_, err := call.Offer(t.Context(), form("m"), nil, nil)
	refused(t, err, elicitation.ReasonStore, protocol.CodeBusy,
		"The other replicas of the gateway cannot be reached")
	call.End()
	before := store.calls.Load()
	r.wantResolved(s.Sender(), result(protocol.StringID("made up"), yes), elicitation.Unknown, "")
	if n := store.calls.Load() - before; n != 0 {
		t.Errorf("%d calls of the store for an id that somebody made up", n)
	}
	sc := &screen{t: t, answer: func(q *protocol.Request) {
		r.wantResolved(s.Sender(), result(q.ID, yes), elicitation.Unknown, "")
		r.complete(s.Sender(), result(q.ID, yes), elicitation.Accepted)
	}}
	waits := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
	defer waits.End()
	if _, err := waits.Elicit(t.Context(), form("m"), nil); err != nil {
		t.Error(err)
	}
	r.settled()
}

// A hookStore calls after when a claim of an answer has been stored.
type hookStore struct {
	*mapStore
	after func()
}

func (s *hookStore) End(ctx context.Context, key string, end []byte) ([]byte, error) {
	ended, err := s.mapStore.End(ctx, key, end)
	if strings.HasPrefix(string(end), "answered ") {
		s.after()
	}
	return ended, err
}

// The question is cancelled between the claim in the store and the end of the question here.
func TestResolveReturnsItsClaimWhenTheQuestionEnds(t *testing.T) {
	store := &hookStore{mapStore: newMapStore()}
	r := newRig(t, elicitation.Options{Store: store})
	s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
	var outcome elicitation.Outcome
	offered := r.forwarded(s, &outcome)
	store.after = offered.Cancel
	r.wantResolved(s.Sender(), result(offered.Request().ID, yes), elicitation.Accepted, resolvedYes)
	if !outcome.Resolved {
		t.Errorf("outcome is %+v", outcome)
	}
}

// Whoever can write to the store cannot put the record of one question in the place of another.
func TestResolveRefusesARecordOfAnotherQuestion(t *testing.T) {
	store := newMapStore()
	a := newRig(t, elicitation.Options{Store: store})
	b := newRig(t, elicitation.Options{Store: store})
	s := a.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
	var one, other elicitation.Outcome
	id := a.forwarded(s, &one).Request().ID
	a.forwarded(s, &other)
	keys := slices.Collect(maps.Keys(store.records))
	first, second := store.records[keys[0]], store.records[keys[1]]
	store.records[keys[0]], store.records[keys[1]] = second, first
	got, d, err := b.Resolve(t.Context(), s.Sender(), result(id, yes))
	if got != nil || d == elicitation.Accepted || err == nil {
		t.Errorf("Resolve is %+v, %v, %v", got, d, err)
	}
	store.records[keys[0]], store.records[keys[1]] = first, second
	b.wantResolved(s.Sender(), result(id, yes), elicitation.Accepted, resolvedYes)
}

// Only ids that the keys of the fleet have sealed are looked for in the store.
func TestForeignIDsAskNoStore(t *testing.T) {
	store := newMapStore()
	owner := newRig(t, elicitation.Options{Store: store})
	other := newRig(t, elicitation.Options{Store: store})
	foreign := newRig(t, elicitation.Options{
		Store: newMapStore(), Keys: fleetKeys(t, "elsewhere")})
	s, offered, _ := owner.offered()
	_, elsewhere, _ := foreign.offered()
	good := strings.Trim(offered.Request().ID.String(), `"`)
	flip := map[byte]string{'A': "B"}
	changed := good[:40] + cmp.Or(flip[good[40]], "A") + good[41:]
	sealed := func(plaintext string) protocol.ID {
		text, err := fleetKeys(t, "k1").Seal(t.Context(), []byte(plaintext))
		if err != nil {
			t.Fatal(err)
		}
		return protocol.StringID(text)
	}
	for name, id := range map[string]protocol.ID{
		"another fleet": elsewhere.Request().ID,
		"changed":       protocol.StringID(changed),
		"cut":           protocol.StringID(good[:len(good)-4]),
		"extended":      protocol.StringID(good + "AAAA"),
		"too long":      sealed("\x01" + strings.Repeat("a", 48)),
		"another kind":  sealed("\x02" + strings.Repeat("a", 16)),
		"former format": protocol.StringID(strings.Repeat("0", 32)),
		"number":        protocol.IntID(1),
		"empty":         protocol.StringID(""),
		"escapes":       protocol.StringID("\"\x00\n"),
		"very long":     protocol.StringID(strings.Repeat("A", 1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			before := store.calls.Load()
			other.wantResolved(s.Sender(), result(id, yes), elicitation.Unknown, "")
			if store.calls.Load() != before {
				t.Error("the store was asked")
			}
		})
	}
	elsewhere.Cancel()
	offered.Cancel()
	owner.settled()
}

// Ids are opened with every key, so that keys rotate while questions are pending.
func TestFleetKeysRotate(t *testing.T) {
	store := newMapStore()
	before := newRig(t, elicitation.Options{Store: store, Keys: fleetKeys(t, "k1", "k2")})
	after := newRig(t, elicitation.Options{Store: store, Keys: fleetKeys(t, "k2", "k1")})
	for asks, resolves := range map[*rig]*rig{before: after, after: before} {
		s := asks.attach(elicitation.SessionInfo{ID: "s1"})
		var outcome elicitation.Outcome
		offered := asks.forwarded(s, &outcome)
		resolves.wantResolved(s.Sender(), result(offered.Request().ID, yes), elicitation.Accepted,
			`{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":{"ok":true}}}`)
		offered.Cancel()
	}
}
