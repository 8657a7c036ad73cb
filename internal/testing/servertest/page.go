package servertest

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A Page is a [roundtrip.QuestionPage] in memory. The test answers its questions.
type Page struct {
	Full bool // takes no question; set before use

	mu     sync.Mutex
	asked  []*roundtrip.PageReply // by link number
	owners []protocol.Principal
	calls  []*roundtrip.PageCall
	used   []string // ids of answers
}

// OpenQuestion implements [roundtrip.QuestionPage].
func (p *Page) OpenQuestion(_ context.Context, q *roundtrip.PageQuestion) (*roundtrip.PageReply,
	error) {
	if p.Full {
		return nil, quota.Refuse(quota.Share, time.Millisecond, "too many questions")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := fmt.Sprint(len(p.asked) + 1)
	reply := &roundtrip.PageReply{ID: id, Link: "https://page.example/?visit=" + id,
		Message: q.Message, Form: q.Form}
	p.asked, p.owners = append(p.asked, reply), append(p.owners, q.Principal)
	return new(*reply), nil
}

// FindQuestion implements [roundtrip.QuestionPage].
func (p *Page) FindQuestion(_ context.Context, owner protocol.Principal, id string) (
	*roundtrip.PageReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, reply := range p.asked {
		if reply.ID == id && p.owners[i] == owner {
			return new(*reply), nil
		}
	}
	return nil, nil
}

// TakeAnswer implements [roundtrip.QuestionPage].
func (p *Page) TakeAnswer(_ context.Context, _ protocol.Principal, id string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := slices.Contains(p.used, id)
	p.used = append(p.used, id)
	return !taken, nil
}

// ReturnAnswer implements [roundtrip.QuestionPage].
func (p *Page) ReturnAnswer(_ context.Context, _ protocol.Principal, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = slices.DeleteFunc(p.used, func(used string) bool { return used == id })
	return nil
}

// KeepCall implements [roundtrip.QuestionPage].
func (p *Page) KeepCall(_ context.Context, c *roundtrip.PageCall) (kept bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.First && slices.ContainsFunc(p.calls, isLike(c)) {
		return false, nil
	}
	p.calls = append(p.calls, c)
	return true, nil
}

func isLike(c *roundtrip.PageCall) func(*roundtrip.PageCall) bool {
	return func(kept *roundtrip.PageCall) bool {
		return kept.Principal == c.Principal && kept.Digest == c.Digest
	}
}

// TakeCall implements [roundtrip.QuestionPage].
func (p *Page) TakeCall(_ context.Context, c *roundtrip.PageCall,
	wanted func(state []byte) bool) ([]byte, error) {
	p.mu.Lock()
	calls := slices.Clone(p.calls)
	p.mu.Unlock()
	for _, kept := range calls {
		if isLike(c)(kept) && wanted(kept.State) {
			p.mu.Lock()
			defer p.mu.Unlock()
			i := slices.Index(p.calls, kept)
			if i < 0 {
				return nil, nil
			}
			p.calls = slices.Delete(p.calls, i, i+1)
			return kept.State, nil
		}
	}
	return nil, nil
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
	reply := p.asked[number-1]
	reply.Given, reply.Answer = time.Now(), json.RawMessage(
		`{"action":"accept","content":`+content(reply.Message)+`}`)
	return true
}
