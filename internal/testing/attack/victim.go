package attack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Victim is a target under attack, with a flow that it completed honestly.
type Victim struct {
	target *Target
	flow   Flow
	honest *Played
	goesOn bool // continues after a refusal, as far as is known
}

// NewVictim plays the flow, which must complete. In its last round it must not refuse everything.
func NewVictim(target *Target, flow Flow) (*Victim, error) {
	honest, err := target.PlayModern(flow)
	if err != nil {
		return nil, err
	}
	v := &Victim{target: target, flow: flow, honest: honest}
	why := ""
	switch {
	case !honest.out.isComplete():
		why = fmt.Sprintf("must complete; this one ends with %s", honest.out)
	case honest.legs < 2:
		why = "must ask; this one does not"
	case !slices.ContainsFunc(honest.next.responses,
		func(r protocol.KeyedResponse) bool { return gives(r.Result) }):
		why = "must give an answer in its last round; this one refuses"
	default:
		return v, nil
	}
	return nil, errors.New("the flow of an attack " + why + ": play it with Run only")
}

// AttackNames returns the names of the target's attacks. Attacks on links need a Browser.
func (s *Target) AttackNames() (names []string) {
	for _, a := range (&Victim{target: s, honest: &Played{}}).listAttacks() {
		names = append(names, a.name)
	}
	return names
}

// Attack plays the flow anew up to the leg that would complete it, sends that leg as the named
// attack forges it, and returns the target's faults. If the target lacks a needed field, the attack
// sends nothing, and skipped names the missing field. target may be NewVictim's with a new Connect.
func (v *Victim) Attack(target *Target, name string) (problems []error, skipped string) {
	known := &v.goesOn
	v = &Victim{target: target, flow: v.flow, honest: v.honest, goesOn: v.goesOn}
	attacks := v.listAttacks()
	i := slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })
	if i < 0 {
		return []error{fmt.Errorf("there is no attack %q", name)}, ""
	}
	if lacks := attacks[i].lacks; lacks != "" {
		return nil, lacks
	}
	if name == refuseAttack {
		problems = v.refuseQuestions()
		*known = len(problems) > 0
		return problems, ""
	}
	s := &attempt{Victim: v}
	defer s.close()
	if err := s.connect(""); err != nil {
		return []error{err}, ""
	}
	for _, st := range attacks[i].steps {
		found, err := s.runStep(st)
		if problems = append(problems, found...); err != nil {
			return append(problems, fmt.Errorf("%s: %w", st.what, err)), ""
		}
	}
	return problems, ""
}

// An attempt is a flow whose last leg has not been sent.
type attempt struct {
	*Victim
	peers  []protocol.Peer
	conn   *connection // sends the last leg
	last   leg
	want   expectation
	before map[Effect]int
}

func (s *attempt) connect(user string) error {
	peer, err := s.target.Connect(user)
	if err == nil {
		s.peers, s.conn = append(s.peers, peer), s.target.newConnection(peer, s.flow)
	}
	return err
}

func (s *attempt) close() {
	for _, peer := range s.peers {
		_ = peer.Close() // the connection is no longer needed
	}
}

const answerTimeout = 5 * time.Second // within which a server must answer a forged request

// runStep returns the target's faults. An error says why they are unknown.
func (s *attempt) runStep(st step) ([]error, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.target.timeout())
	defer cancel()
	if s.target.Browser != nil { // such a server stops sending unanswered forms
		if err := s.connect(""); err != nil {
			return nil, err
		}
	}
	if err := s.restartFlow(ctx); err != nil {
		return nil, err
	}
	s.want = st.want
	defer func(honest *connection) { s.conn = honest }(s.conn)
	if err := st.forge(ctx, s); err != nil {
		return nil, err
	}
	timeout := s.target.timeout() // again: time may have passed
	if s.want.mayDiffer {
		timeout = min(timeout, answerTimeout)
	}
	ctx, cancel = context.WithTimeout(context.Background(), timeout)
	defer cancel()
	out, err := s.conn.sendLeg(ctx, s.last)
	if err != nil && s.want.mayDiffer {
		ctx, cancel := context.WithTimeout(context.Background(), s.target.timeout())
		defer cancel()
		return nil, s.restartFlow(ctx)
	}
	if err != nil {
		return nil, err
	}
	var problems []error
	var known map[Effect]int
	if s.want.mayDiffer {
		known = s.honest.before
	}
	done := s.target.Effects.effectsSince(s.before, known)
	if !s.want.isMet(s, out) {
		problems = append(problems, fmt.Errorf("%s: got %s, want %s", st.what, out, s.want.words))
	}
	if len(done) > 0 {
		problems = append(problems, fmt.Errorf("%s: these effects happened: %s", st.what,
			strings.Join(done, ", ")))
	}
	return problems, nil
}

func (s *attempt) restartFlow(ctx context.Context) error {
	p, err := s.target.playLegs(ctx, s.conn, s.flow, nil, s.honest.legs-1)
	if err == nil {
		s.last, s.before = p.next, p.before
	}
	return err
}

func (s *attempt) sameAs(o outcome) bool { return o.String() == s.honest.out.String() }
