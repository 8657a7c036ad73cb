package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/humantime"
	"github.com/rondo-mcp/rondo/protocol"
)

// thinkingSlack is for the clocks of the server, which may be coarse.
const thinkingSlack = 50 * time.Millisecond

// maxRepeats is how often a question may be asked again before the call is given up.
const maxRepeats = 3

// A reply is what a client sends to a question: a result, which need not be a valid one, an error,
// or nothing at all. Only a session has errors: a client of revision 2026-07-28 leaves the answer
// out.
type reply struct {
	result json.RawMessage
	none   bool
	thinks bool // it comes as late as a person's
}

// A script is a call of a tool with what the client does in it. It accepts everything, with forms
// filled from their schemas, but for the question number deviates.
type script struct {
	request  Request
	caps     *protocol.ClientCapabilities
	deviates int // index in expected; -1: nowhere
	with     reply
	// expected and again are the questions of two calls in which everything was accepted, nil in
	// those calls.
	expected, again []askedQuestion

	// forge changes the leg with this number, counted from 0, before it is sent; it may be nil.
	// A session has no legs but one.
	forge func(number int, l *leg)
	// endsAfter is the number of legs after which a question ends the call: what was forged was
	// not taken for an answer then. 0: none.
	endsAfter int
}

// A take is what came of a script.
type take struct {
	asked []askedQuestion
	out   outcome
	legs  int
	// lost names the questions that were asked again after they had been accepted.
	lost []string
	// asksAgain is set when the call was given up because the server asked again where the
	// script deviates, or for the same thing too often, or after what was forged.
	asksAgain bool
}

// A prompter chooses the replies of one call, and records the questions.
type prompter struct {
	*script
	mu    sync.Mutex
	times map[string]int
	take  take
}

func newPrompter(s *script) *prompter { return &prompter{script: s, times: make(map[string]int)} }

// replyTo returns the reply to a question, and false when the call is to be given up. In a session
// questions have no keys.
func (p *prompter) replyTo(key string, q protocol.InputRequest) (reply, bool, error) {
	words, err := describeQuestion(q)
	if err != nil {
		return reply{}, false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.endsAfter > 0 && p.take.legs >= p.endsAfter {
		p.take.asksAgain = true
		return reply{}, false, nil
	}
	id := key
	if id == "" {
		id = words
	}
	p.times[id]++
	index := p.indexOf(key, words, q)
	deviates := p.deviates >= 0 && index == p.deviates
	if index < 0 && p.expected != nil {
		// What was not accepted is asked in other words, or something else instead. Accepting
		// that is no way around the question.
		p.take.asksAgain = true
		return reply{}, false, nil
	}
	if p.times[id] > 1 {
		if !deviates {
			p.take.lost = append(p.take.lost, words)
		}
		if deviates || p.times[id] > maxRepeats {
			p.take.asksAgain = true
			return p.with, false, nil
		}
	}
	if deviates {
		if p.with.thinks {
			time.Sleep(humantime.DefaultMin + thinkingSlack)
		}
		p.take.asked = append(p.take.asked, askedQuestion{key: key, description: words,
			question: q})
		return p.with, true, nil
	}
	filled, err := fillAnswer(q)
	if err != nil {
		return reply{}, false, fmt.Errorf("%s: %w", words, err)
	}
	if p.times[id] == 1 {
		p.take.asked = append(p.take.asked, askedQuestion{key, words, q, Answer{Result: filled}})
	}
	return reply{result: filled}, true, nil
}

// indexOf returns which of the expected questions is asked, -1 if it is none of them. Questions of
// a session have no keys: they are told apart by their words, or else by their forms, since later
// words may repeat earlier answers. The question that was not accepted may come again in other
// words, with the form that it had.
func (p *prompter) indexOf(key, words string, q protocol.InputRequest) int {
	for i, a := range p.expected {
		switch {
		case key != "" && a.key == key:
			return i
		case key == "" && i < len(p.again) &&
			sameButFresh(words, a.description, p.again[i].description):
			return i
		}
	}
	for i, a := range p.expected {
		if key == "" && i > p.deviates && hasSameForm(a.question, q) {
			return i
		}
	}
	return -1
}

func hasSameForm(a, b protocol.InputRequest) bool {
	here, ok := a.(*protocol.ElicitForm)
	there, also := b.(*protocol.ElicitForm)
	return ok && also && string(here.Schema) == string(there.Schema)
}

// playScript plays a script in an era, over a connection of its own.
func (s *Target) playScript(ctx context.Context, era protocol.Era, script *script) (*take, error) {
	peer, err := s.Connect("")
	if err != nil {
		return nil, err
	}
	defer peer.Close() // the connection is of no more use
	p := newPrompter(script)
	if era == protocol.Modern {
		c := &connection{peer: peer, caps: script.caps}
		err = p.playLegs(ctx, c)
	} else {
		err = p.playSession(ctx, peer)
	}
	p.mu.Lock() // a question of a session may still be under way
	defer p.mu.Unlock()
	if err != nil && !p.take.asksAgain {
		return nil, err
	}
	took := p.take
	return &took, nil
}

// playLegs plays the script in revision 2026-07-28.
func (p *prompter) playLegs(ctx context.Context, c *connection) error {
	arguments, err := p.request.encodeArguments()
	if err != nil {
		return err
	}
	l := leg{request: p.request, arguments: arguments}
	for p.take.legs < maxLegs {
		if p.forge != nil {
			p.forge(p.take.legs, &l)
		}
		if p.take.out, err = c.sendLeg(ctx, l); err != nil {
			return err
		}
		p.take.legs++
		asks := p.take.out.asks
		if asks == nil {
			return nil
		}
		l.state, l.responses = asks.RequestState, nil
		for _, q := range asks.InputRequests {
			r, more, err := p.replyTo(q.Key, q.Request)
			if err != nil || !more {
				return err
			}
			if !r.none {
				l.responses = append(l.responses,
					protocol.KeyedResponse{Key: q.Key, Result: r.result})
			}
		}
	}
	p.take.asksAgain = true
	return nil
}

// playSession plays the script in a session of revision 2025-11-25.
func (p *prompter) playSession(ctx context.Context, peer protocol.Peer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	back := &sessionBack{prompter: p, giveUp: cancel}
	session, err := openSession(ctx, peer, back, p.caps)
	if err != nil {
		return err
	}
	defer session.Close() // the connection is of no more use
	p.take.legs = 1
	p.take.out, err = p.request.sendInSession(ctx, session, back)
	return err
}

// sessionBack answers what the server asks in a session.
type sessionBack struct {
	*prompter
	giveUp context.CancelFunc
}

// Notify ignores progress, logs and changes of lists.
func (*sessionBack) Notify(context.Context, *protocol.Notification) error { return nil }

// Call answers a question as the script says, be it valid or not.
func (b *sessionBack) Call(_ context.Context, req *protocol.Request) (*protocol.Response, error) {
	return replyInSession(req, func(q protocol.InputRequest) (json.RawMessage, error) {
		r, more, err := b.replyTo("", q)
		switch {
		case err != nil:
			return nil, errors.New("the question cannot be answered")
		case !more:
			b.giveUp()
			return nil, errors.New("the client gives up")
		case r.none:
			return nil, errors.New("nobody answered")
		}
		return r.result, nil
	}), nil
}
