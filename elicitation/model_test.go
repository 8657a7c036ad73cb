package elicitation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestModel compares a router with a simple model, a list of questions, after each of many random
// operations: pending questions, dispositions, outcomes and metrics must match.
func TestModel(t *testing.T) {
	const steps = 400
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &model{rig: newRig(t, modelOptions()), rand: rand.New(rand.NewPCG(seed, 0)),
					ends: map[string]int{}}
				for range steps {
					m.step()
					synctest.Wait()
					m.check()
					if t.Failed() {
						t.Fatalf("last operations: %v", m.trace[max(0, len(m.trace)-10):])
					}
				}
				for _, c := range m.calls {
					c.End()
				}
				m.settled()
			})
		})
	}
}

func modelOptions() elicitation.Options {
	return elicitation.Options{
		Timeout: 60 * time.Second, MaxPending: 12, MaxPerPrincipal: 4,
	}
}

type model struct {
	*rig
	authenticated bool // a session with a principal was attached
	rand          *rand.Rand
	sessions      []*modelSession
	calls         []*modelCall
	questions     []*modelQuestion
	ends          map[string]int
	created       int
	refused       int
	trace         []string
}

type modelSession struct {
	*elicitation.Session
	who  protocol.Principal
	gone bool
}

type modelCall struct {
	*elicitation.Call
	session *modelSession
	up      elicitation.UpstreamKey
	over    bool
}

type modelQuestion struct {
	*offered
	call     *modelCall
	born     time.Time
	due      time.Time
	end      string // empty while pending
	answered bool
	mu       sync.Mutex
	outcomes []outcome
}

func pick[T any](m *model, of []T) (v T, ok bool) {
	if len(of) == 0 {
		return v, false
	}
	return of[m.rand.IntN(len(of))], true
}

func (m *model) step() {
	ops := []struct {
		name   string
		weight int
		do     func()
	}{
		{"attach", 2, m.attachOne}, {"detach", 1, m.detach}, {"begin", 4, m.beginOne},
		{"end", 2, m.end},
		{"offer", 14, m.offer}, {"stranger", 4, m.stranger}, {"progress", 3, m.progress},
		{"answer", 8, m.toOne(func(q *modelQuestion) {
			m.reply(q, yes, elicitation.Accepted)
			m.finish("completed", true, q.is)
		})},
		{"malformed", 1, m.toOne(func(q *modelQuestion) {
			m.reply(q, `{"action":"maybe"}`, elicitation.Invalid)
			m.finish("error", true, q.is)
		})},
		{"failed", 1, m.toOne(func(q *modelQuestion) {
			q.FailDelivery(context.DeadlineExceeded)
			m.finish("error", false, q.is)
		})},
		{"delivered", 3, m.toOne(func(q *modelQuestion) { q.ConfirmDelivery() })},
		{"withdraw", 2, m.toOne(func(q *modelQuestion) {
			q.Cancel()
			m.finish("cancelled", false, q.is)
		})},
		{"wait", 5, m.wait},
	}
	total := 0
	for _, op := range ops {
		total += op.weight
	}
	n := m.rand.IntN(total)
	for _, op := range ops {
		if n -= op.weight; n < 0 {
			m.trace = append(m.trace, op.name)
			op.do()
			return
		}
	}
}

func (m *model) toOne(do func(*modelQuestion)) func() {
	return func() {
		if q, ok := pick(m, m.questions); ok {
			do(q)
		}
	}
}

func (m *model) attachOne() {
	who := protocol.Principal{Subject: []string{"", "ann", "bob"}[m.rand.IntN(3)]}
	m.authenticated = m.authenticated || !who.Anonymous()
	m.sessions = append(m.sessions,
		&modelSession{Session: m.attach(elicitation.SessionInfo{Principal: who}), who: who})
}

func (m *model) detach() {
	if s, ok := pick(m, m.sessions); ok {
		s.Detach()
		s.gone = true
		m.finish("cancelled", false, func(q *modelQuestion) bool { return q.call.session == s })
	}
}

func (m *model) beginOne() {
	s, ok := pick(m, m.sessions)
	if !ok {
		return
	}
	up := elicitation.UpstreamKey([]string{"", "a", "b"}[m.rand.IntN(3)])
	c, err := m.Begin(m.Context(), elicitation.Origin{Session: s.Session}, byHand(), up)
	if (err != nil) != s.gone {
		m.Errorf("Begin: %v, session gone: %v", err, s.gone)
	}
	if err != nil {
		m.refused++
	}
	if err == nil {
		m.calls = append(m.calls, &modelCall{Call: c, session: s, up: up})
	}
}

func (m *model) end() {
	if c, ok := pick(m, m.calls); ok {
		c.End()
		c.over = true
		m.finish("cancelled", false, func(q *modelQuestion) bool { return q.call == c })
	}
}

func (m *model) pending(fits func(*modelQuestion) bool) (n int) {
	for _, q := range m.questions {
		if q.end == "" && fits(q) {
			n++
		}
	}
	return n
}

// The method share returns a principal's limit. Anonymous callers leave a quarter to others.
func (m *model) share(who protocol.Principal) int {
	o := modelOptions()
	switch {
	case !who.Anonymous():
		return o.MaxPerPrincipal
	case m.authenticated:
		return o.MaxPending * 3 / 4
	}
	return o.MaxPending
}

func (m *model) offer() {
	c, ok := pick(m, m.calls)
	if !ok {
		return
	}
	o := modelOptions()
	var want error
	switch {
	case c.over || c.session.gone:
		want = elicitation.ReasonNoSession
	case m.pending(func(*modelQuestion) bool { return true }) >= o.MaxPending,
		m.pending(func(q *modelQuestion) bool {
			return q.call.session.who == c.session.who
		}) >= m.share(c.session.who),
		m.pending(func(q *modelQuestion) bool {
			return q.call.session == c.session
		}) >= o.MaxPerPrincipal:
		want = elicitation.ReasonCapacity
	}
	q := &modelQuestion{call: c, born: time.Now(),
		due: time.Now().Add(o.Timeout)}
	var err error
	q.offered, err = offer(c.Call, m.Context(), form("m"),
		func(o outcome) {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.outcomes = append(q.outcomes, o)
		})
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		m.Errorf("Offer: %v, want %v", err, want)
	}
	if err != nil {
		m.refused++
		return
	}
	m.created++
	m.questions = append(m.questions, q)
}

func (m *model) finish(end string, answered bool, fits func(*modelQuestion) bool) {
	for _, q := range m.questions {
		if q.end == "" && fits(q) {
			q.end, q.answered = end, answered
			m.ends[end]++
		}
	}
}

func (q *modelQuestion) is(other *modelQuestion) bool { return q == other }

func (m *model) reply(q *modelQuestion, text string, then elicitation.Disposition) {
	want := then
	switch {
	case q.answered:
		want = elicitation.Duplicate
	case q.end != "":
		want = elicitation.Expired
	}
	m.complete(q.call.session.Sender(), result(q.Request().ID, text), want)
}

func (m *model) stranger() {
	q, ok := pick(m, m.questions)
	if !ok {
		return
	}
	s, _ := pick(m, m.sessions)
	switch {
	case m.rand.IntN(4) == 0:
		from := q.call.session.Sender()
		from.Principal.Issuer = "elsewhere"
		m.complete(from, result(q.Request().ID, yes), elicitation.WrongPrincipal)
	case s != q.call.session:
		m.complete(s.Sender(), result(q.Request().ID, yes), elicitation.WrongSession)
	}
}

func (m *model) progress() {
	q, ok := pick(m, m.questions)
	if !ok {
		return
	}
	want := elicitation.Accepted
	switch {
	case q.answered:
		want = elicitation.Duplicate
	case q.end != "":
		want = elicitation.Expired
	default:
		o := modelOptions()
		q.due = time.Now().Add(o.Timeout)
		if last := q.born.Add(10 * time.Minute); q.due.After(last) {
			q.due = last
		}
	}
	wantEqual(m, "progress", m.HandleProgress(q.call.session.Sender(), progress(q.Request().ID, 1)),
		want)
}

func (m *model) wait() {
	time.Sleep(time.Duration(m.rand.IntN(40)) * time.Second)
	now := time.Now()
	m.finish("timeout", false, func(q *modelQuestion) bool { return !now.Before(q.due) })
}

func (m *model) check() {
	waiting := m.pending(func(*modelQuestion) bool { return true })
	wantEqual(m, "pending", m.Pending(), waiting)
	sums := books(m.TB, m.registry)
	for name, want := range map[string]int{
		"requests_total": m.created, "pending": waiting, "rejected_total": m.refused,
		"completed_total": m.ends["completed"], "timeout_total": m.ends["timeout"],
		"errors_total": m.ends["error"], "cancelled_total": m.ends["cancelled"],
	} {
		wantEqual(m, "elicitation_"+name, int(sums[name]), want)
	}
	for i, q := range m.questions {
		q.mu.Lock()
		defer q.mu.Unlock()
		if want := min(len(q.end), 1); len(q.outcomes) != want || want == 1 &&
			(q.outcomes[0].Result != nil) != (q.end == "completed") {
			m.Errorf("question %d ended as %q with outcomes %+v", i, q.end, q.outcomes)
		}
	}
	// Forget old questions to stay within the bound of the remembered ended ones.
	if len(m.questions) > 100 {
		m.questions = slices.DeleteFunc(m.questions,
			func(q *modelQuestion) bool { return q.end != "" })
	}
}
