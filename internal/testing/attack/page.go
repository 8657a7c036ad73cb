package attack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// This file plays and attacks flows whose user answers on the server's page, through links.

type pageLink struct{ url, words string }

// A Browser sends a request like a user's browser. For a POST it sends form. It keeps cookies.
type Browser func(method, link string, form url.Values) (status int, page string, err error)

// A tab is a browser tab with the form behind a link.
type tab struct {
	browser Browser
	link    string
	hidden  url.Values
}

const (
	statusOK      = 200
	statusInvalid = 422
)

var (
	hiddenInput = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]+)">`)
	linkLine    = regexp.MustCompile(`(?m)^https?://\S+$`)
)

// The method links returns the links in a result that asks for a repetition of the call.
func (o outcome) links() (links []pageLink) {
	text := o.resultText()
	for _, at := range linkLine.FindAllStringIndex(text, -1) {
		if !o.isComplete() {
			links = append(links, pageLink{text[at[0]:at[1]], strings.TrimSpace(text[at[1]:])})
		}
	}
	return links
}

func (s *Target) openTab(user, link string) (*tab, error) {
	t := &tab{browser: s.Browser(user), link: link, hidden: url.Values{}}
	status, page, err := t.browser("GET", link, nil)
	if err != nil || status != statusOK {
		return nil, cmp.Or(err, fmt.Errorf("the link gets status %d", status))
	}
	for _, found := range hiddenInput.FindAllStringSubmatch(page, -1) {
		t.hidden.Set(found[1], found[2])
	}
	return t, nil
}

// answer fills in the form and sends it. Valid content gets status 200.
func (t *tab) answer(result json.RawMessage) (int, error) {
	given, err := protocol.DecodeElicitResult(result)
	if err != nil {
		return 0, err
	}
	var content map[string]any
	if err := json.Unmarshal(contentOf(result), &content); err != nil {
		return 0, err
	}
	form := url.Values{"action": {string(given.Action)}}
	for name, value := range content {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, v := range list {
			form.Add("field."+name, fmt.Sprint(v))
		}
	}
	for name, values := range t.hidden {
		form[name] = append(values, form[name]...)
	}
	status, _, err := t.browser("POST", t.link, form)
	return status, err
}

// CanUsePage reports whether a page can ask all questions of the flow and accept all its answers.
func (p *Played) CanUsePage() bool {
	return !slices.ContainsFunc(p.asked, func(a askedQuestion) bool {
		given, err := protocol.DecodeElicitResult(a.answer.Result)
		return err != nil || a.question.Kind() != protocol.KindElicitForm ||
			given.Action == protocol.ActionCancel
	})
}

func (p *Played) findByWords(words string) (askedQuestion, error) {
	for _, a := range p.asked {
		if strings.HasPrefix(words, strings.TrimPrefix(a.description, "form: ")) {
			return a, nil
		}
	}
	return askedQuestion{}, fmt.Errorf("the page asks what the client was not asked: %q", words)
}

// PlayPage repeats modern's flow with a client that shows only links, or nothing at all.
func (s *Target) PlayPage(flow Flow, modern *Played, showsLinks bool) (*Played, error) {
	peer, err := s.Connect("")
	if err != nil {
		return nil, err
	}
	defer peer.Close() // the connection is no longer needed
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout())
	defer cancel()
	flow.Capabilities = &protocol.ClientCapabilities{}
	if showsLinks {
		flow.Capabilities.Elicitation = &protocol.ElicitationCapability{URL: true}
	}
	s.startFlow()
	p, err := newPlayed(flow, nil)
	if err != nil {
		return nil, err
	}
	c, first := s.newConnection(peer, flow), p.next
	for p.legs = 1; p.legs <= maxLegs; p.legs++ {
		if p.out, err = c.sendLeg(ctx, p.next); err != nil {
			return nil, err
		}
		p.next = first
		links := p.out.links()
		if asks := p.out.asks; asks != nil {
			p.next.state = asks.RequestState
			for _, q := range asks.InputRequests {
				visit, ok := q.Request.(*protocol.ElicitURL)
				if !ok {
					return nil, fmt.Errorf("the client cannot be asked for %s", q.Key)
				}
				links = append(links, pageLink{visit.URL, visit.Message})
				p.next.responses = append(p.next.responses, protocol.KeyedResponse{Key: q.Key,
					Result: json.RawMessage(`{"action":"accept"}`)})
			}
		}
		if len(links) == 0 {
			return p, nil
		}
		for _, link := range links {
			asked, err := modern.findByWords(link.words)
			if err == nil {
				err = s.answerLink(link, asked, p.answers)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("the flow has not ended after %d legs: the last one %s", maxLegs, p.out)
}

// answerLink answers as the flow does, and once more if the page refuses invalid content.
func (s *Target) answerLink(link pageLink, asked askedQuestion, answers map[string]Answer) error {
	a, ok := answers[asked.key]
	if !ok {
		a = asked.answer
	}
	for {
		t, err := s.openTab("", link.url)
		if err != nil {
			return err
		}
		status, err := t.answer(a.Result)
		if status == statusInvalid && a.Next != nil {
			a = *a.Next
			continue
		}
		if err != nil || status != statusOK {
			return cmp.Or(err, fmt.Errorf("the page answers to %s with status %d", a.Result, status))
		}
		return nil
	}
}

// attackLink calls the function forge with the last link's tab. The next call must not complete.
func attackLink(what string, forge func(context.Context, *attempt, *tab) error) step {
	return step{what, func(ctx context.Context, s *attempt) error {
		nothing := *s.conn
		nothing.caps = &protocol.ClientCapabilities{}
		s.conn, s.last.state, s.last.responses = &nothing, protocol.RequestState{}, nil
		link, err := s.findLastLink(ctx, s.honest.findByWords)
		if err != nil {
			return err
		}
		if link == "" {
			return errors.New("no call has got the link of the last question")
		}
		t, err := s.target.openTab("", link)
		if err == nil {
			err = forge(ctx, s, t)
		}
		s.before = s.target.Effects.copyCounts()
		return err
	}, failed}
}

// findLastLink repeats the call, and answers its questions, up to the link of the last one. The
// first calls go on with what the attack before has left.
func (s *attempt) findLastLink(ctx context.Context,
	find func(words string) (askedQuestion, error)) (string, error) {
	last := s.honest.asked[len(s.honest.asked)-1]
	for range maxLegs {
		out, err := s.conn.sendLeg(ctx, s.last)
		if err != nil {
			return "", err
		}
		for _, link := range out.links() {
			asked, err := find(link.words)
			if err == nil && asked.key == last.key {
				return link.url, nil
			}
			if err == nil {
				err = s.target.answerLink(link, asked, nil)
			}
			if err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

// startAgain repeats the call, perhaps changed, up to its last question.
func startAgain(ctx context.Context, s *attempt) error {
	asked := slices.CompactFunc(slices.Clone(s.honest.asked),
		func(a, b askedQuestion) bool { return a.key == b.key })
	_, err := s.findLastLink(ctx, func(string) (askedQuestion, error) {
		next := asked[0]
		asked = asked[min(1, len(asked)-1):]
		return next, nil
	})
	return err
}

// answerIn sends the flow's answer to the last question, and checks whether the page accepts it.
func (s *attempt) answerIn(t *tab, taken bool) error {
	a := s.honest.asked[len(s.honest.asked)-1].answer
	for a.Next != nil {
		a = *a.Next
	}
	status, err := t.answer(a.Result)
	if err == nil && taken != (status == statusOK) {
		err = fmt.Errorf("the page answers with status %d", status)
	}
	return err
}

func attackLinks() []step {
	return []step{
		attackLink("a link that was fetched only", func(_ context.Context, _ *attempt, t *tab) error {
			_, _, err := t.browser("HEAD", t.link, nil)
			return err
		}),
		attackLink("a forged token", func(_ context.Context, s *attempt, t *tab) error {
			for name := range t.hidden {
				t.hidden.Set(name, tamper(t.hidden.Get(name))[2])
			}
			return s.answerIn(t, false)
		}),
		attackDeclined(),
		attackLink("an answer for other arguments",
			func(ctx context.Context, s *attempt, t *tab) error {
				return cmp.Or(s.answerIn(t, true), changeArguments(ctx, s), startAgain(ctx, s))
			}),
		attackLink("an answer that was used", func(ctx context.Context, s *attempt, t *tab) error {
			return cmp.Or(s.answerIn(t, true), sendFirst(ctx, s), startAgain(ctx, s))
		}),
	}
}

// attackDeclined accepts on the page after a decline. The tool may answer a decline with a result.
func attackDeclined() step {
	attack := attackLink("a form that was declined in another tab",
		func(_ context.Context, s *attempt, t *tab) error {
			if _, err := t.answer(json.RawMessage(decline)); err != nil {
				return err
			}
			return s.answerIn(t, false)
		})
	attack.want = expectation{"what a decline in the client's form gives", asDeclined, true}
	return attack
}

// asDeclined declines in the client's form, twice, because results may have fresh parts.
func asDeclined(s *attempt, o outcome) bool {
	if !o.isComplete() {
		return true
	}
	var texts [2]string
	for i := range texts {
		flow, last := s.flow, len(s.honest.asked)-1
		flow.refuse = &refusing{refusal: refusal{answer: decline, thinks: true}, number: last,
			limit: last + 1, effects: s.target.Effects}
		p, err := s.target.PlayModern(flow)
		if err != nil || !p.out.isComplete() {
			return false
		}
		texts[i] = p.out.String()
	}
	return sameButFresh(o.String(), texts[0], texts[1])
}

func attackLinkOfOther() step {
	return attackLink("the browser of another user",
		func(_ context.Context, s *attempt, t *tab) error {
			other, err := s.target.openTab("other", t.link)
			if err != nil {
				return nil
			}
			return s.answerIn(other, false)
		})
}
