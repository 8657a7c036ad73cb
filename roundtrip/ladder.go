package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// This file decides how a form reaches the user: as the client's form, or by the link of a page
// (Options.Page), in the client, the text of the result, or a task's status message.

// OnlyBy limits the ways by which a form may reach the user; the default is all that server and
// client support. Leave out form for a question that the client must not see. In guard style check
// Reply.Unsolicited too, if the host accepts unsolicited answers.
func OnlyBy(ways ...event.Way) QuestionOption {
	return questionOption(func(q *Question) {
		q.ways = append([]event.Way{}, ways...)
		for _, w := range ways {
			if !slices.Contains(allWays[:], w) {
				q.err = fmt.Errorf("question %q: OnlyBy(%q): no such way", q.key, w)
			}
		}
	})
}

var allWays = [...]event.Way{words.WayForm, words.WayLink, words.WayText, words.WayTask}

func (q *Question) allowsWay(way event.Way) bool {
	return q.ways == nil || slices.Contains(q.ways, way)
}

const (
	// maxLinkShown bounds calls in a row that get the same link in text, as models may not show it.
	maxLinkShown = 10
	// maxUnanswered is how many calls in a row for the same thing ask a client that never responds.
	maxUnanswered = 2
	maxPageNotes  = 4096 // calls remembered by a funnel
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

// A ladder has a call's knowledge of the ways of its questions, shared by its goroutines.
type ladder struct {
	mu     sync.Mutex
	hidden map[string]*answer       // by key: the response to a form that was not shown, or nil
	open   map[string]*openQuestion // the run's, by key
	asked  atomic.Bool              // the client was asked to show a form in this call
	words  atomic.Bool              // the host returns what is not to be pushed

	// Only for the goroutine that serves the call.
	earlier *keptCall // that this call is to go on with, or nil
	taken   *PageCall // the earlier call of this run, or nil
	used    []string  // ids of the answers that this run has taken in flow style
	keep    *PageCall // to be kept when this call ends, or nil
	unused  bool      // so that the answers are to be returned then
}

// An openQuestion is a question on the page.
type openQuestion struct {
	question Question
	way      event.Way
	lacks    bool // see pageMark
	reply    *PageReply
}

// pageNotes has a funnel's notes about calls, by digest.
type pageNotes struct {
	mu    sync.Mutex
	notes *recent.Map[[32]byte, pageNote]
}

type pageNote struct {
	asked int      // forms in a row without a response
	links [32]byte // digest of the last ones given in text
	shown int      // calls in a row that got them
}

func (n *pageNotes) changeNote(call [32]byte, change func(*pageNote)) (note pageNote) {
	n.mu.Lock()
	defer n.mu.Unlock()
	note, _ = n.notes.Get(call)
	change(&note)
	n.notes.Put(call, note)
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

// noteOpen notes a question on the page; nil forgets it.
func (l *ladder) noteOpen(key string, q *openQuestion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[string]*openQuestion{}
	}
	delete(l.open, key)
	if q != nil {
		l.open[key] = q
	}
}

// forgetOpen forgets the questions of the run before.
func (l *ladder) forgetOpen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = nil
}

// putBack leaves the earlier call and the run's answers to the next call.
func (l *ladder) putBack() {
	l.unused = true
	if l.keep == nil {
		l.keep = l.taken
	}
}

// putBackUnlessActed puts back the page's answers and the earlier call. It does nothing if the host
// or handler has acted, or the handler had an answer in place, in guard style, or to a push, behind
// which its code has run.
func (r responder) putBackUnlessActed(ctx context.Context) {
	r.mu.Lock()
	acted := r.acted || r.inPlace || waiting.PageOf(ctx).Acted || slices.ContainsFunc(r.answers,
		func(a *answer) bool {
			return (!a.mark.Set || isPush(a.key)) && a.mayHaveEffect()
		})
	r.mu.Unlock()
	if r.ladder != nil && !acted {
		r.ladder.putBack()
	}
}

func (l *ladder) findOpen(key string) *openQuestion {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[key]
}

// hasAll reports whether all that a run waits for is on the page.
func (l *ladder) hasAll(f *flowRun) bool {
	if l == nil || f.begins {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	missing := slices.Clone(f.waitsFor)
	for _, q := range l.open {
		missing = slices.DeleteFunc(missing, func(id string) bool { return id == q.reply.ID })
	}
	return len(missing) == 0 && !slices.ContainsFunc(f.pending, func(q Question) bool {
		return l.open[q.key] == nil
	})
}

// openBeside returns the run's questions on the page other than some.
func (l *ladder) openBeside(some []Question) (list []Question) {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(l.open)) {
		if !slices.ContainsFunc(some, func(q Question) bool { return q.key == key }) {
			list = append(list, l.open[key].question)
		}
	}
	return list
}

// canUsePage excludes anonymous callers, because nothing identifies the user who may answer.
func (e *exchange) canUsePage() bool { return e.ladder != nil && !e.call.Principal.Anonymous() }

// wayOf returns the next way of a question, or "". Without a page it is always the client.
func (r *run) wayOf(q *Question) event.Way {
	if _, isForm := q.request.(*protocol.ElicitForm); !isForm {
		return words.WayForm
	}
	canAsk := func(way event.Way, request protocol.InputRequest) bool {
		return q.allowsWay(way) && (request == nil || r.askingMode().checkAskable(&r.questioner, request) == nil)
	}
	inTask, link := r.taskRun() != nil, q.key+linkSuffix
	switch usable := r.canUsePage(); {
	case usable && r.ladder.words.Load() && canAsk(words.WayText, nil):
		return words.WayText
	case canAsk(words.WayForm, q.request) && !(usable && r.isHidden(q)):
		return words.WayForm
	case usable && canAsk(words.WayLink, &protocol.ElicitURL{}) && !r.isHiddenKey(link):
		return words.WayLink
	case usable && inTask && canAsk(words.WayTask, nil):
		return words.WayTask
	case usable && !inTask && !q.optional && canAsk(words.WayText, nil):
		return words.WayText
	case canAsk(words.WayForm, nil):
		r.mu.Lock()
		r.dropMemoLocked(pageKey(q.key)) // so that the client's answer counts again
		r.mu.Unlock()
		return words.WayForm
	}
	return ""
}

// isHidden reports whether the client is known not to have shown the form of q.
func (r *run) isHidden(q *Question) bool {
	if r.isHiddenKey(q.key) {
		return true
	}
	r.mu.Lock()
	a := r.findAnswerLocked(q.key)
	hidden := a != nil && a.soon && a.fault != nil || // too fast to be typed
		r.findMemoLocked(pageKey(q.key)) != nil || r.findMemoLocked(showsNoneKey) != nil
	r.mu.Unlock()
	if hidden || r.prior != nil || r.ladder.asked.Load() {
		return hidden
	}
	call, err := r.digestCall()
	return err == nil &&
		r.funnel.pages.changeNote(call, func(*pageNote) {}).asked >= maxUnanswered
}

// noteForm notes that the client is asked to show a form, or has responded to it.
func (r *run) noteForm(answered bool) {
	if !r.canUsePage() || !answered && r.ladder.asked.Swap(true) {
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

func (r *run) isHiddenKey(key string) bool {
	_, hidden := r.ladder.findHidden(key)
	return hidden || len(r.responses) == 0 && r.taskRun() == nil && !r.kept &&
		r.findAsked(key) != nil
}

// hideUnseen notes an answer that a client gave without showing the form, such as an instant
// refusal or empty form, and reports whether another way is tried.
func (r *run) hideUnseen(a *answer) bool {
	isForm := a.kind == protocol.KindElicitForm
	unseen := a.outcome == Unseen && (isForm || isLink(a.key))
	byItself := a.outcome == Accepted && isForm && a.soon && string(a.content) == "{}"
	if !unseen && !byItself || !r.canUsePage() {
		return false
	}
	a.outcome = Unseen // no consent, even if no other way is left
	r.ladder.noteHidden(a.key, a)
	return true
}

// isNotShown reports whether a failed question may go another way: only if the client failed.
func (r *run) isNotShown(ctx context.Context, kind protocol.InputKind, key string, err error) bool {
	_, busy := errors.AsType[*waitRefusedError](err)
	_, bad := errors.AsType[*urlrule.Refusal](err)
	return r.canUsePage() && ctx.Err() == nil && !busy && !bad &&
		!errors.Is(err, waiting.ErrClosing) &&
		(kind == protocol.KindElicitForm || isLink(key))
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
