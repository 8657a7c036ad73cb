package visit_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
)

// A desk is two replicas of a page for questions behind one address. Browsers come to the second.
type desk struct {
	t     *testing.T
	url   string
	pages [2]*visit.Questions
}

func newDesk(t *testing.T, shared store.StateStore, opts visit.QuestionOptions) *desk {
	t.Helper()
	d := &desk{t: t}
	at, mux := listen(t)
	d.url = at + "/questions"
	opts.Visitor = cookieLogin
	for i := range d.pages {
		o := opts
		o.Store, o.Keys = shared, servertest.NewKeyring("k")
		var err error
		if d.pages[i], err = visit.NewQuestions(d.url, &o); err != nil {
			t.Fatal(err)
		}
	}
	mux.Handle("/questions", d.pages[1])
	return d
}

const yesForm = `{"type":"object","properties":{"yes":{"type":"boolean"}},"required":["yes"]}`

func ask(taker string) *roundtrip.PageQuestion {
	return &roundtrip.PageQuestion{Binding: [32]byte{1}, Taker: taker, Principal: principal("ann"),
		Method: "tools/call", Target: "deploy", Message: "Deploy it?",
		Form: json.RawMessage(yesForm)}
}

// ask asks at one of the replicas.
func (d *desk) ask(replica int, q *roundtrip.PageQuestion) *roundtrip.PageReply {
	d.t.Helper()
	reply, err := d.pages[replica].AskOnPage(d.t.Context(), q)
	if err != nil {
		d.t.Fatal(err)
	}
	return reply
}

// answer answers an open question.
func (d *desk) answer(link, action string, fields url.Values) {
	d.t.Helper()
	b := newBrowser(d.t, d.url, "ann")
	form := b.open(link)
	form.Set("action", action)
	for name, values := range fields {
		form[name] = values
	}
	if status, text := b.send(http.MethodPost, link, form, nil); status != http.StatusOK {
		d.t.Fatalf("%d %s", status, text)
	}
}

// TestAQuestionIsAskedAndItsAnswerTakenOnce at any replica.
func TestAQuestionIsAskedAndItsAnswerTakenOnce(t *testing.T) {
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{})
	first := d.ask(0, ask("a"))
	if first.Answer != nil || first.Link == "" || first.Key == "" {
		t.Fatalf("got %+v", first)
	}
	for i := range 4 {
		if again := d.ask(i%2, ask("ab"[i/2:i/2+1])); again.Link != first.Link {
			t.Errorf("asked again: %+v", again)
		}
	}
	d.answer(first.Link, "accept", url.Values{"field.yes": {"false"}})
	const want = `{"action":"accept","content":{"yes":false}}`
	for i := range 4 {
		if got := d.ask(i%2, ask("b")); string(got.Answer) != want {
			t.Errorf("got %s, want %s", got.Answer, want)
		}
	}
	second := d.ask(0, ask("a"))
	if second.Answer != nil || second.Link == first.Link || second.Link == "" {
		t.Fatalf("got %+v", second)
	}
	if err := d.pages[1].ReturnAnswer(context.Background(), ask("b"), nil); err != nil {
		t.Fatal(err)
	}
	if got := d.ask(1, ask("c")); string(got.Answer) != want {
		t.Errorf("what was given back: %+v", got)
	}
	for _, taker := range []string{"a", "b"} {
		if got := d.ask(0, ask(taker)); got.Answer != nil {
			t.Errorf("%s got %s", taker, got.Answer)
		}
	}
}
