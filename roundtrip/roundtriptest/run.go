package roundtriptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// maxLegs ends flows that never do.
const maxLegs = 20

// patience is how long one flow may take. It bounds hangs only.
const patience = time.Minute

// Run takes each flow through the eras that the subject serves, each in a
// subtest of its own, and wants the same of them.
func Run(t *testing.T, subject Subject, flows ...Flow) {
	t.Helper()
	for _, flow := range flows {
		t.Run(flow.Name, func(t *testing.T) {
			modern, err := learn(t, &subject, flow)
			if err != nil {
				t.Fatal(err)
			}
			if subject.serves(protocol.Modern) {
				t.Run("modern", func(t *testing.T) { report(t, modern.judge(flow)) })
			}
			if subject.serves(protocol.Legacy) {
				t.Run("legacy", func(t *testing.T) {
					legacy, err := subject.legacy(t, flow, modern)
					if err != nil {
						t.Fatal(err)
					}
					report(t, append(legacy.judge(flow), legacy.differs(modern)...))
				})
			}
			if flow.Golden != "" {
				golden(t, flow.Golden, modern.transcript())
			}
		})
	}
}

// learn takes the flow through revision 2026-07-28, where questions have keys.
func learn(t testing.TB, subject *Subject, flow Flow) (*played, error) {
	if subject.Connect == nil {
		return nil, errors.New("roundtriptest: Subject.Connect is required")
	}
	if !subject.serves(protocol.Modern) {
		return nil, errors.New("roundtriptest: Subject.Eras must have protocol.Modern: questions have keys in it alone")
	}
	return subject.modern(t, flow)
}

func report(t *testing.T, problems []error) {
	t.Helper()
	for _, problem := range problems {
		t.Error(problem)
	}
}

// played is a flow that has been played, to its end or up to a leg.
type played struct {
	request Request
	asked   []asked
	legs    int     // that were sent
	out     outcome // of the last of them
	effects []error // that happened more than once

	next   leg            // the one that was not sent
	before map[string]int // effects by then
}

// asked is a question and what was answered.
type asked struct {
	key, words string
	question   protocol.InputRequest
	answer     Answer
}

// modern plays the flow to its end in revision 2026-07-28.
func (s *Subject) modern(t testing.TB, flow Flow) (*played, error) {
	peer := s.Connect(t, "")
	defer peer.Close() // the connection is of no more use
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := s.play(ctx, &connection{peer: peer, caps: flow.capabilities()}, flow, maxLegs)
	if err != nil {
		return nil, err
	}
	p.effects = s.Effects.problems(flow)
	return p, nil
}

// play sends so many legs of the flow, or fewer if it ends before.
func (s *Subject) play(ctx context.Context, c *connection, flow Flow, legs int) (*played, error) {
	s.Effects.reset()
	arguments, err := flow.Request.raw()
	if err != nil {
		return nil, err
	}
	p := &played{request: flow.Request, next: leg{request: flow.Request, arguments: arguments}}
	answers := maps.Clone(flow.Answers)
	for p.legs < legs {
		if p.out, err = c.send(ctx, p.next); err != nil {
			return nil, err
		}
		p.legs++
		p.before = s.Effects.counts()
		if p.out.asks == nil {
			return p, p.unused(answers)
		}
		if p.next, err = p.answer(answers); err != nil {
			return nil, err
		}
	}
	if legs == maxLegs {
		return nil, fmt.Errorf("the flow has not ended after %d legs: the last one %s", legs, p.out)
	}
	return p, nil
}

// answer returns the leg that answers what was asked.
func (p *played) answer(answers Answers) (leg, error) {
	next := p.next
	next.state, next.responses = p.out.asks.RequestState, nil
	for _, q := range p.out.asks.InputRequests {
		words, err := wordsOf(q.Request)
		if err != nil {
			return leg{}, fmt.Errorf("question %q: %w", q.Key, err)
		}
		a, ok := answers[q.Key]
		switch {
		case !ok:
			return leg{}, fmt.Errorf("question %q has no answer in the flow: %s", q.Key, words)
		case a.err != nil:
			return leg{}, fmt.Errorf("answer to %q: %w", q.Key, a.err)
		}
		p.asked = append(p.asked, asked{q.Key, words, q.Request, a})
		next.responses = append(next.responses, protocol.KeyedResponse{Key: q.Key, Result: a.result})
		if a.next != nil {
			answers[q.Key] = *a.next
		}
	}
	return next, nil
}

// unused returns an error when there are answers to what nobody asked.
func (p *played) unused(answers Answers) error {
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		if !slices.ContainsFunc(p.asked, func(a asked) bool { return a.key == key }) {
			return fmt.Errorf("question %q was not asked; the flow ended with %s", key, p.out)
		}
	}
	return nil
}

func (f Flow) capabilities() *protocol.ClientCapabilities {
	if f.Capabilities != nil {
		return f.Capabilities
	}
	return everything()
}

// wordsOf is a question as a person sees it.
func wordsOf(q protocol.InputRequest) (string, error) {
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

// judge holds the end of a flow against what was wanted of it.
func (p *played) judge(flow Flow) (problems []error) {
	problems = append(problems, p.effects...)
	got := p.out.String()
	switch {
	case flow.Fails != "" && p.out.completed():
		problems = append(problems, fmt.Errorf("the flow completes with %q, want an error that says %q", got, flow.Fails))
	case flow.Fails != "" && !strings.Contains(got, flow.Fails):
		problems = append(problems, fmt.Errorf("got %q, want an error that says %q", got, flow.Fails))
	case flow.Fails == "" && (!p.out.completed() || got != flow.Want):
		problems = append(problems, fmt.Errorf("got %q, want %q", got, flow.Want))
	}
	return problems
}

// differs compares what two eras made of a flow. Where it fails, each fails in
// words of its own.
func (p *played) differs(modern *played) (problems []error) {
	if here, there := p.sorted(), modern.sorted(); here != there {
		problems = append(problems, fmt.Errorf("the eras ask differently; legacy:\n%s\nmodern:\n%s", here, there))
	}
	if !p.out.completed() || !modern.out.completed() {
		return problems
	}
	here, err := spelled(p.request.method, p.out.result)
	there, also := spelled(p.request.method, modern.out.result)
	if err := errors.Join(err, also); err != nil {
		return append(problems, err)
	}
	if !bytes.Equal(here, there) {
		problems = append(problems, fmt.Errorf("the eras answer differently; legacy:\n%s\nmodern:\n%s", here, there))
	}
	return problems
}

// spelled is a result as the older revision has it, which knows fewer members.
func spelled(method string, result protocol.Result) ([]byte, error) {
	switch r := result.(type) {
	case *protocol.CallToolResult:
		plain := *r
		plain.Meta = nil
		result = &plain
	case *protocol.GetPromptResult:
		plain := *r
		plain.Meta = nil
		result = &plain
	case *protocol.ReadResourceResult:
		plain := *r
		plain.Meta = nil
		result = &plain
	}
	return protocol.EncodeResult(protocol.V20251125, method, result)
}
