package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

const maxLegs = 20

// Played is a flow that was played to its end or up to a leg.
type Played struct {
	flow    Flow
	asked   []askedQuestion
	legs    int               // number of sent legs
	out     outcome           // of the last leg
	effects []error           // repeated effects
	answers map[string]Answer // unused answers

	// The questions of a session or task are compared with modern's.
	modern   *Played // nil: no comparison
	unasked  []askedQuestion
	reworded []rewording

	task   string         // task id, if the flow became a task
	next   leg            // not sent yet
	before map[Effect]int // effects before next
}

type askedQuestion struct {
	key, description string
	question         protocol.InputRequest
	answer           Answer
}

func newPlayed(flow Flow, modern *Played) (p *Played, err error) {
	p = &Played{flow: flow, answers: maps.Clone(flow.Answers), modern: modern,
		next: leg{request: flow.Request}}
	if modern != nil {
		p.unasked = slices.Clone(modern.asked)
	}
	if flow.Request.Arguments == nil {
		return p, nil
	}
	if p.next.arguments, err = json.Marshal(flow.Request.Arguments); err != nil {
		err = fmt.Errorf("arguments of %s: %w", flow.Request.Target, err)
	}
	return p, err
}

// PlayModern plays the flow in revision 2026-07-28, in which questions have keys.
func (s *Target) PlayModern(flow Flow) (*Played, error) {
	if s.Connect == nil {
		return nil, errors.New("roundtriptest: Subject.Connect is required")
	}
	if !s.ServesEra(protocol.Modern) {
		return nil, errors.New("roundtriptest: Subject.Eras must have protocol.Modern: questions " +
			"have keys in it alone")
	}
	peer, err := s.Connect("")
	if err != nil {
		return nil, err
	}
	defer peer.Close() // the connection is no longer needed
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout())
	defer cancel()
	p, err := s.playLegs(ctx, s.newConnection(peer, flow), flow, nil, maxLegs)
	if err != nil {
		return nil, err
	}
	p.effects = s.Effects.findProblems(flow)
	return p, nil
}

func (s *Target) playLegs(ctx context.Context, c *connection, flow Flow, modern *Played,
	legs int) (*Played, error) {
	s.startFlow()
	p, err := newPlayed(flow, modern)
	if err != nil {
		return nil, err
	}
	for p.legs < legs {
		s.Effects.startRound()
		if p.out, err = c.sendLeg(ctx, p.next); err != nil {
			return nil, err
		}
		p.legs++
		p.before = s.Effects.copyCounts()
		switch handle, ok := p.out.result.(*protocol.CreateTaskResult); {
		case ok:
			p.task = handle.Task.ID
			return p, nil
		case p.out.mustBeTask():
			return nil, ErrMustBeTask
		case p.out.asks == nil:
			return p, p.checkUnusedAnswers()
		}
		if p.next, err = p.answerRound(); err != nil {
			return nil, err
		}
	}
	if legs == maxLegs {
		return nil, fmt.Errorf("the flow has not ended after %d legs: the last one %s", legs, p.out)
	}
	return p, nil
}

func (s *Target) startFlow() {
	s.Effects.resetCounts()
	if s.TakeReasons != nil {
		s.TakeReasons()
	}
}

func (p *Played) answerRound() (leg, error) {
	next := p.next
	next.state, next.responses = p.out.asks.RequestState, nil
	for _, q := range p.out.asks.InputRequests {
		result, err := p.answerQuestion(q.Key, q.Request)
		if err != nil {
			return leg{}, err
		}
		next.responses = append(next.responses, protocol.KeyedResponse{Key: q.Key, Result: result})
	}
	return next, nil
}

// answerQuestion returns the user's answer. A session's question has the key "".
func (p *Played) answerQuestion(key string, q protocol.InputRequest) (json.RawMessage, error) {
	words, err := describeQuestion(q)
	if err != nil {
		return nil, fmt.Errorf("question %q: %w", key, err)
	}
	asked := askedQuestion{p.handlerKey(key), words, q, Answer{}}
	a, ok := p.answers[asked.key]
	if p.modern != nil && (ok || key == "") {
		i := p.findModern(asked)
		if i < 0 {
			return nil, fmt.Errorf("%s is asked what revision 2026-07-28 is not, or not as often: "+
				"%q: %s", p.way(), key, words)
		}
		if m := p.unasked[i]; m.description != words {
			p.reworded = append(p.reworded, rewording{m.key, m.description, words})
		}
		asked.key = p.unasked[i].key
		p.unasked = slices.Delete(p.unasked, i, i+1)
		a, ok = p.answers[asked.key]
	}
	switch r := p.flow.refuse; {
	case r != nil && len(p.asked) == r.limit: // this question is a rewording
		err = ErrAsksAgain
	case r != nil && len(p.asked) == r.number:
		a.Result, err = r.giveRefusal()
	case !ok && p.flow.Fill != nil:
		a, err = p.fillQuestion(asked)
	case !ok:
		err = fmt.Errorf("question %q has no answer in the flow: %s", key, words)
		if left := p.unusedAnswers(); len(left) > 0 {
			err = fmt.Errorf("%w; the flow has answers to %q, which was not asked", err, left)
		}
	case a.Err != nil:
		err = fmt.Errorf("answer to %q: %w", key, a.Err)
	case !slices.Contains(a.Kinds, q.Kind()):
		err = fmt.Errorf("question %q is of the kind %s, its answer for %s: %s", key, q.Kind(),
			strings.ReplaceAll(strings.Trim(fmt.Sprint(a.Kinds), "[]"), " ", " or "), words)
	}
	asked.answer = a
	p.asked = append(p.asked, asked)
	if a.Next != nil {
		p.answers[asked.key] = *a.Next
	}
	return a.Result, err
}

// findModern returns the index of the same question in revision 2026-07-28, or -1. A session pushes
// questions without keys and in any order: match equal texts first, then the next question of the
// same kind, whose text may vary.
func (p *Played) findModern(asked askedQuestion) int {
	if asked.key != "" {
		return slices.IndexFunc(p.unasked, func(a askedQuestion) bool { return a.key == asked.key })
	}
	i := slices.IndexFunc(p.unasked,
		func(a askedQuestion) bool { return a.description == asked.description })
	if i >= 0 {
		return i
	}
	return slices.IndexFunc(p.unasked, func(a askedQuestion) bool {
		return reflect.TypeOf(a.question) == reflect.TypeOf(asked.question)
	})
}

// fillQuestion returns Fill's answer to a question that was not asked before.
func (p *Played) fillQuestion(asked askedQuestion) (Answer, error) {
	if slices.ContainsFunc(p.asked, func(a askedQuestion) bool {
		return a.description == asked.description || asked.key != "" && a.key == asked.key
	}) {
		return Answer{}, fmt.Errorf("%w: %s", ErrAsksAgain, asked.description)
	}
	result, err := p.flow.Fill(asked.question)
	return Answer{Kinds: []protocol.InputKind{asked.question.Kind()}, Result: result}, err
}

func (p *Played) checkUnusedAnswers() error {
	left := p.unusedAnswers()
	if len(left) == 0 {
		return nil
	}
	err := fmt.Errorf("question %q was not asked; the flow ended with %s", left[0], p.out)
	for i, a := range p.asked {
		if slices.ContainsFunc(p.asked[:i], func(b askedQuestion) bool {
			return a.key == b.key && bytes.Equal(a.answer.Result, b.answer.Result)
		}) {
			return fmt.Errorf("question %q was asked again after the answer %s: %s; so %w", a.key,
				a.answer.Result, a.description, err)
		}
	}
	return err
}

func (p *Played) unusedAnswers() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.answers)), func(key string) bool {
		return slices.ContainsFunc(p.asked, func(a askedQuestion) bool { return a.key == key })
	})
}

func describeQuestion(q protocol.InputRequest) (string, error) {
	switch q := q.(type) {
	case *protocol.ElicitForm:
		return "form: " + q.Message, nil
	case *protocol.ElicitURL:
		return "visit: " + q.Message + " " + q.URL, nil
	case *protocol.CreateMessage:
		words := []string{"sample:"}
		for _, m := range q.Messages {
			words = append(words, textsOf(m.Content)...)
		}
		return strings.Join(words, " "), nil
	case *protocol.ListRoots:
		return "roots", nil
	}
	return "", fmt.Errorf("a %T is not known", q)
}

// CheckResult returns the differences between a flow's end and the expected end.
func (p *Played) CheckResult(flow Flow) (problems []error) {
	problems = append(problems, p.effects...)
	got := p.out.String()
	if strings.HasPrefix(got, "error: unseen: ") {
		got += " (a refusal that comes at once: set roundtrip.Options.MinHumanTime of the server " +
			"to -1)"
	}
	switch {
	case flow.Fails != "" && p.out.isComplete():
		problems = append(problems, fmt.Errorf("the flow completes with %q, want an error that "+
			"says %q", got, flow.Fails))
	case flow.Fails != "" && !strings.Contains(got, flow.Fails):
		problems = append(problems, fmt.Errorf("got %q, want an error that says %q", got,
			flow.Fails))
	case flow.Fails == "" && (!p.out.isComplete() || got != flow.Want):
		problems = append(problems, fmt.Errorf("got %q, want %q", got, flow.Want))
	}
	return problems
}

// Transcript returns questions, answers and result as text.
func (p *Played) Transcript() string {
	var b strings.Builder
	b.WriteString(p.flow.Request.Method + " " + p.flow.Request.Target + "\n")
	for _, a := range p.asked {
		b.WriteString("? " + a.key + ": " + a.description + "\n! " + string(a.answer.Result) + "\n")
	}
	b.WriteString("= " + strings.ReplaceAll(p.out.String(), "\n", "\n  ") + "\n")
	return b.String()
}
