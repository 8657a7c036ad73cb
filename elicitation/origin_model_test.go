package elicitation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestOriginModel begins, cancels, ends and confirms calls of several clients on one connection in
// random order, and asks at any time. The model lists the calls that the upstream may still serve:
// only if there is exactly one, its client is asked.
func TestOriginModel(t *testing.T) {
	const steps = 600
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &originModel{rig: newRig(t,
					elicitation.Options{SweepInterval: 24 * time.Hour}),
					rand: rand.New(rand.NewPCG(seed, 1))}
				for range 4 {
					m.addSession()
				}
				asked := 0
				for range steps {
					m.step()
					synctest.Wait()
					asked += m.ask()
					if t.Failed() {
						t.Fatalf("last operations: %v", m.trace[max(0, len(m.trace)-10):])
					}
				}
				if asked == 0 || asked == steps {
					t.Errorf("of %d questions %d were asked", steps, asked)
				}
				for _, c := range m.calls {
					c.Call.End()
				}
				m.settled()
			})
		})
	}
}

type originModel struct {
	*rig
	rand     *rand.Rand
	sessions []*originSession
	calls    []*originCall // calls that the upstream may still serve
	asked    []string      // streams that got a question since the last check
	trace    []string
	// The field abandoned is the end of the last cancelled call; they expire together.
	abandoned time.Time
}

type originSession struct {
	*elicitation.Session
	gone bool
}

type originCall struct {
	*elicitation.Call
	session   *originSession
	stream    string
	cancel    func()
	cancelled bool
	ended     time.Time // zero: the host has not ended it
}

func (m *originModel) stream(name string) elicitation.Via {
	return asker(func(context.Context, elicitation.Question, func()) (string, error) {
		m.asked = append(m.asked, name)
		return yes, nil
	})
}

func (m *originModel) addSession() {
	id := fmt.Sprint("s", len(m.sessions))
	who := []protocol.Principal{alice(), bob()}[m.rand.IntN(2)]
	s := m.attach(elicitation.SessionInfo{ID: id, Principal: who})
	m.sessions = append(m.sessions, &originSession{Session: s})
}

func (m *originModel) step() {
	c, any := m.pickCall()
	switch n := m.rand.IntN(100); {
	case n < 30:
		m.beginOne()
	case !any:
	case n < 45:
		m.note("cancel", c)
		c.cancel()
		c.cancelled = true
	case n < 70:
		m.note("end", c)
		c.Call.End()
		if c.ended.IsZero() {
			c.ended = time.Now()
			if c.cancelled {
				m.abandoned = c.ended
			}
		}
		if !c.cancelled {
			m.forget(c)
		}
	case n < 90:
		m.note("confirm", c)
		c.ConfirmUpstreamEnd()
		m.forget(c)
		m.Cleanup(c.Call.End)
	case n < 95:
		time.Sleep(10 * time.Minute / 3)
	case n < 97:
		i := m.rand.IntN(len(m.sessions))
		m.sessions[i].Detach()
		m.sessions[i].gone = true
		m.addSession()
	}
}

func (m *originModel) note(what string, c *originCall) {
	m.trace = append(m.trace, what+" "+c.stream)
}

func (m *originModel) pickCall() (*originCall, bool) {
	if len(m.calls) == 0 {
		return nil, false
	}
	return m.calls[m.rand.IntN(len(m.calls))], true
}

func (m *originModel) forget(c *originCall) {
	m.calls = slices.DeleteFunc(m.calls, func(other *originCall) bool { return other == c })
}

func (m *originModel) beginOne() {
	s := m.sessions[m.rand.IntN(len(m.sessions))]
	if s.gone {
		return
	}
	ctx, cancel := context.WithCancel(m.Context())
	c := &originCall{session: s, cancel: cancel, stream: fmt.Sprint("request ", len(m.trace))}
	c.Call = m.beginIn(ctx, elicitation.Origin{Session: s.Session}, m.stream(c.stream), "up")
	m.calls = append(m.calls, c)
	m.note("begin", c)
}

// ask makes the upstream ask, and returns 1 if a client was asked.
func (m *originModel) ask() int {
	m.calls = slices.DeleteFunc(m.calls, func(c *originCall) bool {
		return !c.ended.IsZero() && time.Since(m.abandoned) >= 10*time.Minute
	})
	want := []string(nil)
	if len(m.calls) == 1 {
		if c := m.calls[0]; !c.cancelled && c.ended.IsZero() && !c.session.gone {
			want = []string{c.stream}
		}
	}
	m.asked = nil
	_, err := m.ElicitFrom(m.Context(), "up", form("m"))
	if (err == nil) != (want != nil) || !slices.Equal(m.asked, want) {
		m.Errorf("asked %q, %v, want %q", m.asked, err, want)
	}
	return len(want)
}
