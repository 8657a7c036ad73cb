package interop_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
)

// The type answers has a user's answers by question: the JSON of a form, {} to visit a URL,
// "decline" or "cancel"; for the model its text; and for "roots" directories, separated by spaces.
type answers map[string]string

// A person is the user of any client, and answers its questions.
type person struct {
	t       testing.TB
	answers answers
	// progress gets a value for every report of progress.
	progress chan struct{}
	// changed gets a value whenever the server reports changed tools.
	changed chan struct{}
	// whenAsked, unless nil, runs before a question is answered.
	whenAsked func()
	// The function before, if not nil, runs before a form or URL is answered, until ctx ends.
	before func(ctx context.Context, question string)
	// The function open, if not nil, gets a visit's URL before the question is answered.
	open func(ctx context.Context, url string)

	mu    sync.Mutex
	asked map[string]int
}

func newPerson(t testing.TB, a answers) *person {
	return &person{t: t, answers: a, progress: make(chan struct{}, 100),
		changed: make(chan struct{}, 100), asked: map[string]int{}}
}

func (p *person) answer(question string) string {
	if p.whenAsked != nil {
		p.whenAsked()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[question]++
	answer, ok := p.answers[question]
	if !ok {
		p.t.Errorf("the person is asked %q", question)
	}
	return answer
}

// elicit answers a form or, if url is set, a visit. It returns an action, and the content, if any.
func (p *person) elicit(ctx context.Context,
	question, url string) (action string, content map[string]any) {
	if p.before != nil {
		p.before(ctx, question)
	}
	if p.open != nil && url != "" {
		p.open(ctx, url)
	}
	switch answer := p.answer(question); answer {
	case "decline", "cancel":
		return answer, nil
	case "": // the question is unexpected
		return "cancel", nil
	case "{}":
		return "accept", nil
	default:
		if err := json.Unmarshal([]byte(answer), &content); err != nil {
			p.t.Errorf("answer to %q: %v", question, err)
		}
		return "accept", content
	}
}

func (p *person) roots() []string { return strings.Fields(p.answer("roots")) }

// wantAsked checks that each question that has an answer was asked n times.
func (p *person) wantAsked(n int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for question := range p.answers {
		if p.asked[question] != n {
			p.t.Errorf("%q was asked %d times, want %d", question, p.asked[question], n)
		}
	}
}
