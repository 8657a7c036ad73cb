package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// maxLegs bounds flows that do not end.
const maxLegs = 20

// PlayModern plays the flow in revision 2026-07-28, in which questions have keys.
func (s *Target) PlayModern(flow Flow) (*Played, error) {
	if s.Connect == nil {
		return nil, errors.New("roundtriptest: Subject.Connect is required")
	}
	if !s.ServesEra(protocol.Modern) {
		return nil, errors.New("roundtriptest: Subject.Eras must have protocol.Modern: questions " +
			"have keys in it alone")
	}
	return s.playToEnd(flow)
}

// Played is a flow that has been played, to its end or up to a leg.
type Played struct {
	request Request
	asked   []askedQuestion
	legs    int     // that were sent
	out     outcome // of the last of them
	effects []error // that happened more than once

	reworded []rewording     // questions of a session
	unasked  []askedQuestion // by a session

	fill func(protocol.InputRequest) (json.RawMessage, error) // of the flow

	task string            // the id, where the flow has become a task
	left map[string]Answer // for what it asks then

	next   leg            // the one that was not sent
	before map[string]int // effects by then
}

// askedQuestion is a question and what was answered.
type askedQuestion struct {
	key, description string
	question         protocol.InputRequest
	answer           Answer
}

// playToEnd plays the flow to its end in revision 2026-07-28.
func (s *Target) playToEnd(flow Flow) (*Played, error) {
	peer, err := s.Connect("")
	if err != nil {
		return nil, err
	}
	defer peer.Close() // the connection is of no more use
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout())
	defer cancel()
	p, err := s.playLegs(ctx, s.newConnection(peer, flow), flow, maxLegs)
	if err != nil {
		return nil, err
	}
	p.effects = s.Effects.findProblems(flow)
	return p, nil
}

// playLegs sends up to the given number of legs of the flow.
func (s *Target) playLegs(ctx context.Context, c *connection, flow Flow,
	legs int) (*Played, error) {
	s.startFlow()
	arguments, err := flow.Request.encodeArguments()
	if err != nil {
		return nil, err
	}
	p := &Played{request: flow.Request, fill: flow.Fill,
		next: leg{request: flow.Request, arguments: arguments}}
	answers := maps.Clone(flow.Answers)
	for p.legs < legs {
		s.Effects.startRound()
		if p.out, err = c.sendLeg(ctx, p.next); err != nil {
			return nil, err
		}
		p.legs++
		p.before = s.Effects.copyCounts()
		switch handle, ok := p.out.result.(*protocol.CreateTaskResult); {
		case ok:
			p.task, p.left = handle.Task.ID, answers
			return p, nil
		case p.out.mustBeTask():
			return nil, ErrMustBeTask
		case p.out.asks == nil:
			return p, p.checkUnusedAnswers(answers)
		}
		if p.next, err = p.answerQuestions(answers); err != nil {
			return nil, err
		}
	}
	if legs == maxLegs {
		return nil, fmt.Errorf("the flow has not ended after %d legs: the last one %s", legs, p.out)
	}
	return p, nil
}

// startFlow forgets what the last flow left.
func (s *Target) startFlow() {
	s.Effects.resetCounts()
	if s.TakeReasons != nil {
		s.TakeReasons()
	}
}

// answerQuestions returns the leg that answers the questions of the last one.
func (p *Played) answerQuestions(answers map[string]Answer) (leg, error) {
	next := p.next
	next.state, next.responses = p.out.asks.RequestState, nil
	for _, q := range p.out.asks.InputRequests {
		words, err := describeQuestion(q.Request)
		if err != nil {
			return leg{}, fmt.Errorf("question %q: %w", q.Key, err)
		}
		key := handlerKey(q.Key, answers)
		a, ok := answers[key]
		if !ok && p.fill != nil {
			if a, err = fillQuestion(p.fill, q.Request, key, words, p.asked); err != nil {
				return leg{}, err
			}
			ok = true
		}
		switch {
		case !ok:
			return leg{}, fmt.Errorf("question %q has no answer in the flow: %s", q.Key, words)
		case a.Err != nil:
			return leg{}, fmt.Errorf("answer to %q: %w", q.Key, a.Err)
		case !slices.Contains(a.Kinds, q.Request.Kind()):
			return leg{}, fmt.Errorf("question %q is of the kind %s, its answer for %s: %s", q.Key,
				q.Request.Kind(), a.listKinds(), words)
		}
		p.asked = append(p.asked, askedQuestion{key, words, q.Request, a})
		next.responses = append(next.responses,
			protocol.KeyedResponse{Key: q.Key, Result: a.Result})
		if a.Next != nil {
			answers[key] = *a.Next
		}
	}
	return next, nil
}

// fillQuestion returns what fill answers to a question that has not been asked before.
func fillQuestion(fill func(protocol.InputRequest) (json.RawMessage, error),
	q protocol.InputRequest, key, words string, asked []askedQuestion) (Answer, error) {
	if slices.ContainsFunc(asked, func(a askedQuestion) bool {
		return a.description == words || key != "" && a.key == key // sessions have no keys
	}) {
		return Answer{}, fmt.Errorf("%w: %s", ErrAsksAgain, words)
	}
	result, err := fill(q)
	return Answer{Kinds: []protocol.InputKind{q.Kind()}, Result: result}, err
}

// listKinds names the kinds of questions that an answer is for.
func (a Answer) listKinds() string {
	names := make([]string, len(a.Kinds))
	for i, kind := range a.Kinds {
		names[i] = string(kind)
	}
	return strings.Join(names, " or ")
}

// checkUnusedAnswers returns an error if the flow has answers to questions that were not
// asked.
func (p *Played) checkUnusedAnswers(answers map[string]Answer) error {
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		if !slices.ContainsFunc(p.asked, func(a askedQuestion) bool { return a.key == key }) {
			return fmt.Errorf("question %q was not asked; the flow ended with %s", key, p.out)
		}
	}
	return nil
}

// describeQuestion returns the text of a question as a person sees it.
func describeQuestion(q protocol.InputRequest) (string, error) {
	switch q := q.(type) {
	case *protocol.ElicitForm:
		return "form: " + q.Message, nil
	case *protocol.ElicitURL:
		return "visit: " + q.Message + " " + q.URL, nil
	case *protocol.CreateMessage:
		var text string
		for _, m := range q.Messages {
			for _, c := range m.Content {
				if t, ok := c.(*protocol.TextContent); ok {
					text += " " + t.Text
				}
			}
		}
		return "sample:" + text, nil
	case *protocol.ListRoots:
		return "roots", nil
	}
	return "", fmt.Errorf("a %T is not known", q)
}

// CheckResult returns how the end of a flow differs from the expected one.
func (p *Played) CheckResult(flow Flow) (problems []error) {
	problems = append(problems, p.effects...)
	got := p.out.String()
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
