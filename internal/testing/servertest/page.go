package servertest

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"

	"github.com/rondo-mcp/rondo/roundtrip"
)

// A Page is a [roundtrip.QuestionPage] in memory. The test answers its questions.
type Page struct {
	mu    sync.Mutex
	links []*roundtrip.PageQuestion // by link number
	ends  map[[32]byte]pageEnd
}

type pageEnd struct {
	answer, taker string
}

// AskOnPage implements [roundtrip.QuestionPage].
func (p *Page) AskOnPage(_ context.Context, q *roundtrip.PageQuestion) (
	*roundtrip.PageReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if end, ok := p.ends[q.Binding]; ok && (end.taker == "" || end.taker == q.Taker) {
		p.ends[q.Binding] = pageEnd{end.answer, q.Taker}
		return &roundtrip.PageReply{Answer: json.RawMessage(end.answer)}, nil
	}
	p.links = append(p.links, q)
	return &roundtrip.PageReply{Link: fmt.Sprintf("https://page.example/?visit=%d", len(p.links)),
		Key: fmt.Sprint(len(p.links))}, nil
}

// ReturnAnswer implements [roundtrip.QuestionPage].
func (p *Page) ReturnAnswer(_ context.Context, q *roundtrip.PageQuestion) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends[q.Binding] = pageEnd{answer: p.ends[q.Binding].answer}
	return nil
}

var pageLink = regexp.MustCompile(`https://page\.example/\?visit=(\d+)`)

// Answer accepts the question of the first link in a text. It reports whether there is a link.
func (p *Page) Answer(text string, content func(message string) string) bool {
	found := pageLink.FindStringSubmatch(text)
	if found == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var number int
	_, _ = fmt.Sscan(found[1], &number)
	q := p.links[number-1]
	if p.ends == nil {
		p.ends = map[[32]byte]pageEnd{}
	}
	p.ends[q.Binding] = pageEnd{answer: `{"action":"accept","content":` + content(q.Message) + `}`}
	return true
}
