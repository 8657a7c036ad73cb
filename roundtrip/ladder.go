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

// This file decides by which way a form reaches the person: the client's form, the link of a page
// (Options.Page) that the client shows, that link in the text of the result, or in the status
// message of a task. askpage.go asks the page.

// OnlyBy limits the ways by which a form may reach the person. Without it all are used that the
// server and the client have: a form that a client must not see leaves out form, for example.
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

// A wayset is a set of ways. Zero is that of all.
type wayset uint8

const noWay wayset = 1

var allWays = [...]event.Way{words.WayForm, words.WayLink, words.WayText, words.WayTask}

func setOf(way event.Way) wayset { return noWay << (1 + slices.Index(allWays[:], way)) }

const (
	// maxLinkShown is how many calls in a row get the same link in words: a model that goes on
	// calling does not show it.
	maxLinkShown = 10
	// maxUnanswered is how many calls in a row for the same thing ask a client that never says
	// anything to its forms.
	maxUnanswered = 2
	// maxPageNotes is of how many questions a funnel remembers how their clients were.
	maxPageNotes = 4096
	// linkSuffix ends the keys under which clients are asked to show the link of a question.
	linkSuffix = " (page)"
)

var errNoWay = errors.New("nobody could be asked: the server may not ask this in any of the " +
	"ways that this client has")

func noWayEnding() *ending {
	return &ending{err: errNoWay, how: words.EndFailed,
		refusal: &refusal{code: protocol.CodeCannotAsk, text: errNoWay.Error()}}
}

// errNotShown means that a question has to go another way.
var errNotShown = errors.New("the client does not show the question")

// errLinkGiven ends a run that leaves a question to the page.
var errLinkGiven = errors.New("the question waits on the page, whose link is in the result")

// A ladder has what one call has learned about the ways of its questions. The goroutines of a
// handler share it.
type ladder struct {
	mu     sync.Mutex
	hidden map[string]*answer // by key: what the client did not show, and what it said, or nil
	open   map[string]*openQuestion
	got    map[string]*openQuestion // by key: answered on the page, for the next round
	taken  []*PageQuestion          // whose answers have come from the page
	asked  bool                     // the client was asked to show a form in this call
	effect bool                     // something may have been done that an answer was for

	// Only the goroutine that serves the call uses these.
	onPage []string     // keys that the run asks by the page: what was answered before is over
	next   *pageRound   // that comes next, nil for none
	from   []pageAnswer // of the round that begins
}

// An openQuestion is a question on the page.
type openQuestion struct {
	way    event.Way
	asked  *PageQuestion
	link   string
	wake   string // what a task waits for
	answer json.RawMessage
}

// pageNotes is what a funnel remembers of questions, by their binding, and of calls.
type pageNotes struct {
	mu    sync.Mutex
	notes *recent.Map[[32]byte, pageNote]
}

type pageNote struct {
	hidden bool      // the client declares that it shows forms, and does not show this one
	way    event.Way // by which the link was given last
	link   string    // that was given last in words
	shown  int       // in how many calls in a row
	asked  int       // of a call: how many forms in a row the client has said nothing to
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

// noteHidden notes that the client did not show a question. said is its answer, if it gave one.
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

// noteOpen notes a question that is open on the page, or has been; nil forgets it. keep has its
// answer kept for the next run.
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

// noteEffect notes that the handler may have acted on an answer: then it is not given back.
func (l *ladder) noteEffect() {
	if l != nil {
		l.mu.Lock()
		l.effect = true
		l.mu.Unlock()
	}
}

// isFirst reports whether the client was not asked to show a form before in this call. is says that
// it is now.
func (l *ladder) isFirst(is bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.asked
	l.asked = l.asked || is
	return first
}

// findOnPage returns what is known of a question on the page: that it is open, or the answer that
// is kept for the next run; nil for neither.
func (l *ladder) findOnPage(key string) (open, got *openQuestion) {
	if l == nil {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[key], l.got[key]
}

// canUsePage reports whether questions of the call may go to the page: not those of anonymous
// callers, because nothing would tell who may answer.
func (e *exchange) canUsePage() bool { return e.ladder != nil && !e.call.Principal.Anonymous() }

// wayOf returns the way by which a question goes next, empty if the author allows none of those
// that are left. Without a page all go to the client, which is refused what it cannot show.
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

// isHidden reports whether the client has not shown the form of q, as far as is known.
func (r *run) isHidden(q *Question) bool {
	if r.isHiddenKey(q.key) {
		return true
	}
	r.mu.Lock()
	a := r.findAnswerLocked(q.key)
	hidden := a != nil && a.soon && a.fault != nil || // nobody has typed that
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

// noteForm notes that the client is asked to show a form, or has said something to it.
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

// digestCall returns the digest of what two calls for the same thing have in common.
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

// hideUnseen notes an answer that shows that the client has shown nothing, such as a refusal or an
// empty form in no time, and reports whether another way is tried.
func (r *run) hideUnseen(a *answer) bool {
	isForm := a.kind == protocol.KindElicitForm
	unseen := a.outcome == Unseen && (isForm || strings.HasSuffix(a.key, linkSuffix))
	byItself := a.outcome == Accepted && isForm && a.soon && string(a.content) == "{}"
	if !unseen && !byItself || !r.canUsePage() {
		return false
	}
	r.ladder.noteHidden(a.key, a)
	return true
}

// isNotShown reports whether a question that failed may go another way. What failed because of this
// server, or was withdrawn, may not.
func (r *run) isNotShown(ctx context.Context, kind protocol.InputKind, key string, err error) bool {
	_, busy := errors.AsType[*waitRefusedError](err)
	_, bad := errors.AsType[*urlrule.Refusal](err)
	return r.canUsePage() && ctx.Err() == nil && !busy && !bad &&
		!errors.Is(err, waiting.ErrClosing) &&
		(kind == protocol.KindElicitForm || strings.HasSuffix(key, linkSuffix))
}

// goesElsewhere reports whether returned questions that failed in a session may have another way.
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
