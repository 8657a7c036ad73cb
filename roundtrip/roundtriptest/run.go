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

// maxLegs bounds flows that do not end.
const maxLegs = 20

// flowTimeout bounds a flow that hangs.
const flowTimeout = time.Minute

// Run plays each flow in every era that the subject serves, in subtests, and expects the
// same questions and results in all.
func Run(t *testing.T, subject Subject, flows ...Flow) {
	t.Helper()
	for _, flow := range flows {
		t.Run(flow.Name, func(t *testing.T) {
			modern, err := playModern(t, &subject, flow)
			if err != nil {
				t.Fatal(err)
			}
			if subject.servesEra(protocol.Modern) {
				t.Run("modern", func(t *testing.T) { reportProblems(t, modern.checkResult(flow)) })
			}
			if subject.servesEra(protocol.Legacy) {
				t.Run("legacy", func(t *testing.T) {
					legacy, err := subject.playLegacy(t, flow, modern)
					if err != nil {
						t.Fatal(err)
					}
					reportProblems(t, append(legacy.checkResult(flow),
						legacy.compareWithModern(modern)...))
				})
			}
			if flow.Golden != "" {
				compareGolden(t, flow.Golden, modern.formatTranscript())
			}
		})
	}
}

// playModern plays the flow in revision 2026-07-28, in which questions have keys.
func playModern(t testing.TB, subject *Subject, flow Flow) (*playedFlow, error) {
	if subject.Connect == nil {
		return nil, errors.New("roundtriptest: Subject.Connect is required")
	}
	if !subject.servesEra(protocol.Modern) {
		return nil, errors.New("roundtriptest: Subject.Eras must have protocol.Modern: questions " +
			"have keys in it alone")
	}
	return subject.playToEnd(t, flow)
}

func reportProblems(t *testing.T, problems []error) {
	t.Helper()
	for _, problem := range problems {
		t.Error(problem)
	}
}

// playedFlow is a flow that has been played, to its end or up to a leg.
type playedFlow struct {
	request Request
	asked   []askedQuestion
	legs    int     // that were sent
	out     outcome // of the last of them
	effects []error // that happened more than once

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
func (s *Subject) playToEnd(t testing.TB, flow Flow) (*playedFlow, error) {
	peer := s.Connect(t, "")
	defer peer.Close() // the connection is of no more use
	ctx, cancel := context.WithTimeout(context.Background(), flowTimeout)
	defer cancel()
	p, err := s.playLegs(ctx, &connection{peer: peer, caps: flow.clientCapabilities()}, flow,
		maxLegs)
	if err != nil {
		return nil, err
	}
	p.effects = s.Effects.findProblems(flow)
	return p, nil
}

// playLegs sends up to the given number of legs of the flow.
func (s *Subject) playLegs(ctx context.Context, c *connection, flow Flow,
	legs int) (*playedFlow, error) {
	s.Effects.resetCounts()
	arguments, err := flow.Request.encodeArguments()
	if err != nil {
		return nil, err
	}
	p := &playedFlow{request: flow.Request, next: leg{request: flow.Request, arguments: arguments}}
	answers := maps.Clone(flow.Answers)
	for p.legs < legs {
		if p.out, err = c.sendLeg(ctx, p.next); err != nil {
			return nil, err
		}
		p.legs++
		p.before = s.Effects.copyCounts()
		if p.out.asks == nil {
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

// answerQuestions returns the leg that answers the questions of the last one.
func (p *playedFlow) answerQuestions(answers Answers) (leg, error) {
	next := p.next
	next.state, next.responses = p.out.asks.RequestState, nil
	for _, q := range p.out.asks.InputRequests {
		words, err := describeQuestion(q.Request)
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
		p.asked = append(p.asked, askedQuestion{q.Key, words, q.Request, a})
		next.responses = append(next.responses,
			protocol.KeyedResponse{Key: q.Key, Result: a.result})
		if a.next != nil {
			answers[q.Key] = *a.next
		}
	}
	return next, nil
}

// checkUnusedAnswers returns an error if the flow has answers to questions that were not
// asked.
func (p *playedFlow) checkUnusedAnswers(answers Answers) error {
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		if !slices.ContainsFunc(p.asked, func(a askedQuestion) bool { return a.key == key }) {
			return fmt.Errorf("question %q was not asked; the flow ended with %s", key, p.out)
		}
	}
	return nil
}

func (f Flow) clientCapabilities() *protocol.ClientCapabilities {
	if f.Capabilities != nil {
		return f.Capabilities
	}
	return allCapabilities()
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

// checkResult returns how the end of a flow differs from the expected one.
func (p *playedFlow) checkResult(flow Flow) (problems []error) {
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

// compareWithModern returns how the questions and the results of two eras differ. The
// texts of errors may differ.
func (p *playedFlow) compareWithModern(modern *playedFlow) (problems []error) {
	if here, there := p.formatSorted(), modern.formatSorted(); here != there {
		problems = append(problems, fmt.Errorf("the eras ask differently; legacy:\n%s\nmodern:\n%s",
			here, there))
	}
	if !p.out.isComplete() || !modern.out.isComplete() {
		return problems
	}
	here, err := encodeComparable(p.request.method, p.out.result)
	there, also := encodeComparable(p.request.method, modern.out.result)
	if err := errors.Join(err, also); err != nil {
		return append(problems, err)
	}
	if !bytes.Equal(here, there) {
		problems = append(problems, fmt.Errorf("the eras answer differently; "+
			"legacy:\n%s\nmodern:\n%s", here, there))
	}
	return problems
}

// encodeComparable encodes a result in the older revision, which has fewer members.
func encodeComparable(method string, result protocol.Result) ([]byte, error) {
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
