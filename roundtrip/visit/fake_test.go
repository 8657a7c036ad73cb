package visit_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/roundtrip"
)

type fakePage struct {
	mu   sync.Mutex
	url  string
	rows map[string]*fakeRow
}
type fakeRow struct {
	n      int
	answer string
	taker  string
}

func newQuestions(t *testing.T, url string, local bool) *fakePage {
	return &fakePage{url: url, rows: map[string]*fakeRow{}}
}
func (p *fakePage) AskOnPage(_ context.Context, q *roundtrip.PageQuestion) (*roundtrip.PageReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := hex.EncodeToString(q.Binding[:])
	r := p.rows[id]
	if r == nil || r.taker != "" && r.taker != q.Taker {
		r = &fakeRow{}
		p.rows[id] = r
	}
	if r.answer != "" {
		r.taker = q.Taker
		return &roundtrip.PageReply{Answer: json.RawMessage(r.answer)}, nil
	}
	return &roundtrip.PageReply{Link: p.url + "?visit=" + id, Key: id}, nil
}
func (p *fakePage) ReturnAnswer(_ context.Context, q *roundtrip.PageQuestion, answer json.RawMessage) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows[hex.EncodeToString(q.Binding[:])] = &fakeRow{answer: string(answer)}
	return nil
}
func (p *fakePage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows[r.URL.Query().Get("visit")].answer = fmt.Sprintf(`{"action":"accept","content":{"target":%q}}`, r.FormValue("target"))
}
func (b *browser) fill(link, name, value string) {
	res, err := http.Get(link + "&" + name + "=" + value)
	if err != nil {
		b.t.Error(err)
		return
	}
	res.Body.Close()
}
