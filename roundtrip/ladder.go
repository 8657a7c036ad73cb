package roundtrip

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// This file decides how a form reaches the user: as the client's form, or by the link of a page
// (Options.Page), in the client, the text of the result, or a task's status message.

// OnlyBy limits the ways by which a form may reach the user; the default is all that server and
// client support. Leave out form for a question that the client must not see.
func OnlyBy(ways ...event.Way) QuestionOption {
	return questionOption(func(q *Question) {
		q.ways = noWay
		for _, w := range ways {
			if !slices.Contains(allWays[:], w) {
				q.err = fmt.Errorf("question %q: OnlyBy(%q): no such way", q.key, w)
				return
			}
			q.ways |= setOf(w)
		}
	})
}

type wayset uint8 // zero: all

const noWay wayset = 1

var allWays = [...]event.Way{words.WayForm, words.WayLink, words.WayText, words.WayTask}

func setOf(way event.Way) wayset { return noWay << (1 + slices.Index(allWays[:], way)) }

const (
	// maxLinkShown bounds calls in a row that get the same link in text, as models may not show it.
	maxLinkShown = 10
	// maxUnanswered is how many calls in a row for the same thing ask a client that never responds.
	maxUnanswered = 2
	maxPageNotes  = 4096 // questions remembered by a funnel
	// linkSuffix ends the keys of requests to show a question's link.
	linkSuffix = " (page)"
)

var errNoWay = errors.New("nobody could be asked: the server does not allow any of the ways " +
	"in which this client can be asked")

func noWayEnding() *ending {
	return &ending{err: errNoWay, how: words.EndFailed,
		refusal: &refusal{code: protocol.CodeCannotAsk, text: errNoWay.Error()}}
}

var errNotShown = errors.New("the client does not show the question")

var errLinkGiven = errors.New("the question waits on the page, whose link is in the result")

// A ladder has a call's knowledge of the ways of its questions, shared by its goroutines.
type ladder struct {
	mu     sync.Mutex
	hidden map[string]*answer // by key: the response to a form that the client did not show, or nil
	open   map[string]*openQuestion
	got    map[string]*openQuestion // by key: answered on the page, for the next round
	taken  []*PageQuestion          // answered on the page
	asked  bool                     // the client was asked to show a form in this call
	effect bool                     // the handler may have acted on an answer, in any run
	none   bool                     // the client shows no forms: an answer came from the page

	// Only for the goroutine that serves the call.
	onPage []string // keys asked on the page in this run
	next   *pageRound
	from   []pageAnswer // of the round that begins
}

// An openQuestion is a question on the page.
type openQuestion struct {
	way    event.Way
	asked  *PageQuestion
	link   string
	wake   string // the key that a task waits for
	answer json.RawMessage
}

// pageNotes has a funnel's notes about questions, by binding, and about calls.
type pageNotes struct {
	mu    sync.Mutex
	notes *recent.Map[[32]byte, pageNote]
}

type pageNote struct {
	hidden bool      // the client declares forms but does not show this one
	way    event.Way // the last one used for the link
	link   string    // the last one given in text
	shown  int       // calls in a row that got this link in text
	asked  int       // of a call: forms in a row without a response
}

func newPageNotes(ttl time.Duration) *pageNotes {
	return &pageNotes{notes: recent.New[[32]byte, pageNote](maxPageNotes, ttl)}
}

func (n *pageNotes) noteOf(binding [32]byte) pageNote {
	n.mu.Lock()
	defer n.mu.Unlock()
	note, _ := n.notes.Get(binding)
	return note
}

func (n *pageNotes) changeNote(binding [32]byte, change func(*pageNote)) (note pageNote) {
	n.mu.Lock()
	defer n.mu.Unlock()
	note, _ = n.notes.Get(binding)
	change(&note)
	n.notes.Put(binding, note)
	return note
}

// noteHidden notes that the client did not show a question. said is the client's answer, or nil.
func (l *ladder) noteHidden(key string, said *answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hidden == nil {
		l.hidden = map[string]*answer{}
	}
	l.hidden[key] = said
}

func (l *ladder) findHidden(key string) (said *answer, hidden bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	said, hidden = l.hidden[key]
	return said, hidden
}

// noteOpen notes a question on the page; nil forgets it. keep saves its answer for the next run.
func (l *ladder) noteOpen(key string, q *openQuestion, keep bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open, l.got = map[string]*openQuestion{}, map[string]*openQuestion{}
	}
	delete(l.open, key)
	delete(l.got, key)
	switch {
	case q == nil:
		return
	case q.answer == nil:
		l.open[key] = q
		return
	case keep:
		l.got[key] = q
	}
	if q.asked != nil {
		l.taken = append(l.taken, q.asked)
	}
}

// forgetOpen forgets the questions of the run before.
func (l *ladder) forgetOpen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open, l.got = nil, nil
}

// noteEffect notes that the handler may have acted on an answer, which then is not given back.
func (l *ladder) noteEffect() {
	if l != nil {
		l.mu.Lock()
		l.effect = true
		l.mu.Unlock()
	}
}

// hadEffect reports whether noteEffect was called. A nil ladder had none.
func (l *ladder) hadEffect() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.effect
}

// noteShowsNone notes that the client shows no forms. Asking it again would cost a round each time.
func (l *ladder) noteShowsNone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.none = true
}

func (l *ladder) showsNone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.none
}

// isFirst reports whether this call has not asked for a form to be shown; is notes that it now has.
func (l *ladder) isFirst(is bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.asked
	l.asked = l.asked || is
	return first
}

// findOnPage returns the question's state on the page: open, or answered and kept for the next run.
func (l *ladder) findOnPage(key string) (open, got *openQuestion) {
	if l == nil {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[key], l.got[key]
}

// canUsePage excludes anonymous callers, because nothing identifies the user who may answer.
func (e *exchange) canUsePage() bool { return e.ladder != nil && !e.call.Principal.Anonymous() }

// wayOf returns the next way of a question, or "". Without a page it is always the client.
func (r *run) wayOf(q *Question) event.Way {
	if _, isForm := q.request.(*protocol.ElicitForm); !isForm {
		return words.WayForm
	}
	canAsk := func(way event.Way, request protocol.InputRequest) bool {
		return (q.ways == 0 || q.ways&setOf(way) != 0) &&
			(request == nil || r.askingMode().checkAskable(&r.questioner, request) == nil)
	}
	inTask, link := r.taskRun() != nil, q.key+linkSuffix
	switch usable := r.canUsePage(); {
	case canAsk(words.WayForm, q.request) && !(usable && r.isHidden(q)):
		return words.WayForm
	case usable && canAsk(words.WayLink, &protocol.ElicitURL{}) && !r.isHiddenKey(link):
		return words.WayLink
	case usable && inTask && canAsk(words.WayTask, nil):
		return words.WayTask
	case usable && !inTask && !q.optional && canAsk(words.WayText, nil):
		return words.WayText
	case canAsk(words.WayForm, nil):
		return words.WayForm
	}
	return ""
}

// isHidden reports whether the client is known not to have shown the form of q.
func (r *run) isHidden(q *Question) bool {
	if r.isHiddenKey(q.key) || r.ladder.showsNone() {
		return true
	}
	r.mu.Lock()
	a := r.findAnswerLocked(q.key)
	hidden := a != nil && a.soon && a.fault != nil || // too fast to be typed
		r.wasAskedLocked(q.key+linkSuffix)
	r.mu.Unlock()
	call, err := r.digestCall()
	if hidden || err == nil && r.prior == nil && r.ladder.isFirst(false) &&
		r.funnel.pages.noteOf(call).asked >= maxUnanswered {
		return true
	}
	binding, err := r.bindQuestion(q)
	return err == nil && r.funnel.pages.noteOf(binding).hidden
}

// noteForm notes that the client is asked to show a form, or has responded to it.
func (r *run) noteForm(answered bool) {
	if !r.canUsePage() || !answered && !r.ladder.isFirst(true) {
		return
	}
	call, err := r.digestCall()
	if err == nil {
		r.funnel.pages.changeNote(call, func(n *pageNote) {
			if n.asked++; answered {
				n.asked = 0
			}
		})
	}
}

// digestCall returns a digest that is the same for repeated calls.
func (e *exchange) digestCall() (digest [32]byte, err error) {
	if !e.digested { // Do has tried
		return digest, protocol.Errorf(protocol.CodeInvalidParams, "the arguments cannot be read")
	}
	c := claims.Claims{Principal: e.call.Principal, Method: e.call.Method, Target: e.call.Target,
		Arguments: e.arguments, Audience: e.funnel.opts.Audience}
	return sha256.Sum256(c.AppendTo([]byte("rondo page 1\x00"))), nil
}

func (r *run) isHiddenKey(key string) bool {
	_, hidden := r.ladder.findHidden(key)
	return hidden || len(r.responses) == 0 && r.taskRun() == nil && r.findAsked(key) != nil
}

// hideUnseen notes an answer that a client gave without showing the form, such as an instant
// refusal or empty form, and reports whether another way is tried.
func (r *run) hideUnseen(a *answer) bool {
	isForm := a.kind == protocol.KindElicitForm
	unseen := a.outcome == Unseen && (isForm || strings.HasSuffix(a.key, linkSuffix))
	byItself := a.outcome == Accepted && isForm && a.soon && string(a.content) == "{}"
	if !unseen && !byItself || !r.canUsePage() {
		return false
	}
	if byItself { // no consent, even if no other way is left
		unseen := *a
		unseen.outcome = Unseen
		a = &unseen
	}
	r.ladder.noteHidden(a.key, a)
	return true
}

// isNotShown reports whether a failed question may go another way: only if the client failed.
func (r *run) isNotShown(ctx context.Context, kind protocol.InputKind, key string, err error) bool {
	_, busy := errors.AsType[*waitRefusedError](err)
	_, bad := errors.AsType[*urlrule.Refusal](err)
	return r.canUsePage() && ctx.Err() == nil && !busy && !bad &&
		!errors.Is(err, waiting.ErrClosing) &&
		(kind == protocol.KindElicitForm || strings.HasSuffix(key, linkSuffix))
}

// goesElsewhere reports whether failed questions of a session may go another way.
//
//go:noinline
func (r responder) goesElsewhere(ctx context.Context, asks *protocol.InputRequiredResult,
	err error) bool {
	if !slices.ContainsFunc(asks.InputRequests, func(q protocol.KeyedRequest) bool {
		return r.isNotShown(ctx, q.Request.Kind(), q.Key, err) && !r.isHiddenKey(q.Key)
	}) {
		return false
	}
	r.observe(ctx, event.PushFailed{Where: r.where, Kind: asks.InputRequests[0].Request.Kind(),
		Err: err, Tolerated: true})
	return true
}

func (d *draft) limitsWays() bool {
	return slices.ContainsFunc(d.questions, func(q Question) bool { return q.ways != 0 })
}
