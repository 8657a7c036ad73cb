package roundtrip

import (
	"cmp"
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

// This file brings a form to a person whose client does not show it: by the link of a page
// (Options.Page) that the client shows, by that link in the text of the result, or in the status
// message of a task. What two calls of a person for the same thing have in common, the binding, is
// how the second call finds what was answered after the first.

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
	got    map[string]*openQuestion // by key: returned by the handler, and answered on the page
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
	shown  int       // in how many calls in a row it was given in words
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

// bindQuestion returns the digest of all that an answer on the page is for.
func (r *run) bindQuestion(q *Question) (digest [32]byte, err error) {
	call, err := r.digestCall()
	if err != nil {
		return digest, err
	}
	mark, err := q.makeMark()
	if q.reworded {
		mark.PromptDigest = [16]byte{}
	}
	question := claims.DigestQuestion(q.request.Kind(), q.key, q.formDigest(), mark)
	answers := r.digestAnswers(q.key)
	return sha256.Sum256(append(append(call[:], question[:]...), answers[:]...)), err
}

// digestAnswers returns the digest of what was answered before: a yes belongs to that.
func (r *run) digestAnswers(but string) [32]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var parts []string
	for _, a := range r.answers {
		if a.outcome == Accepted && a.key != but && a.kind != protocol.KindElicitURL {
			parts = append(parts, fmt.Sprintf("%q %s", a.key, a.content))
		}
	}
	slices.Sort(parts)
	return sha256.Sum256([]byte(strings.Join(parts, "\n")))
}

// newPageQuestion returns the question as the page gets it. While its answer is waited for it is the
// same, whatever other goroutines are answered meanwhile.
func (r *run) newPageQuestion(q *Question) (*PageQuestion, error) {
	binding, err := r.bindQuestion(q)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	flow, closed := r.flowIDLocked(), r.closed
	r.mu.Unlock()
	if closed {
		return nil, errReturned()
	}
	// A round that is sent again gets its answer again, and a later one does not.
	return &PageQuestion{Binding: binding, Taker: fmt.Sprintf("%x.%d", flow, r.number),
		Principal: r.call.Principal, Method: r.call.Method, Target: r.call.Target,
		Arguments: r.call.Arguments, Message: q.request.(*protocol.ElicitForm).Message,
		Form: q.form.Schema()}, nil
}

// lookAtPage looks for the answer to a question on the page and records it, or notes the link.
// hidden says that the client has not shown the form.
func (r *run) lookAtPage(ctx context.Context, q *Question, asked *PageQuestion, way event.Way,
	hidden bool) (open *openQuestion, err error) {
	reply, err := r.funnel.opts.Page.AskOnPage(ctx, asked)
	if err != nil {
		return nil, err
	}
	open = &openQuestion{way, asked, reply.Link, reply.Key, reply.Answer}
	r.funnel.pages.changeNote(asked.Binding, func(n *pageNote) {
		if open.answer == nil {
			n.hidden, n.way = n.hidden || hidden, way
			return
		}
		n.shown, open.way = 0, cmp.Or(n.way, way)
	})
	r.ladder.noteOpen(q.key, open, !isFlowStyle(q))
	if open.answer == nil || !isFlowStyle(q) {
		return open, nil
	}
	outcome, content, err := interpret(protocol.KindElicitForm, open.answer)
	if err != nil {
		return nil, fmt.Errorf("question %q: the answer of the page: %w", q.key, err)
	}
	r.recordOtherWay(ctx, q, outcome, content, open.way, &open.answer)
	return open, nil
}

// recordOtherWay records what the person said to a form of flow style by another way than the
// client's form.
func (r *run) recordOtherWay(ctx context.Context, q *Question, outcome Outcome,
	content json.RawMessage, way event.Way, result *json.RawMessage) {
	a := &answer{key: q.key, kind: protocol.KindElicitForm, outcome: outcome,
		digest: q.formDigest(), mark: q.mark, content: content, round: r.number, announced: true}
	reported := *a
	r.mu.Lock()
	r.recordAnswerLocked(a)
	r.forgetAnswerLocked(q.key + linkSuffix)
	where := r.where
	r.mu.Unlock()
	r.reportAnswered(ctx, &reported, result,
		event.Answered{Where: where, Way: way, Asked: q.request})
}

func (r *run) forgetAnswerLocked(key string) {
	r.answers = slices.DeleteFunc(r.answers, func(a *answer) bool { return a.key == key })
}

// askOnPage asks a question of flow style by the page where the client does not show it. over is
// false where the client is to be asked.
//
//go:noinline
func (r asker) askOnPage(ctx context.Context, one *inquiry) (over bool, err error) {
	q := &one.question
	for {
		way := r.wayOf(q)
		if way == words.WayForm {
			if !r.restoreUnseen(q.key) {
				return false, nil
			}
			missing, err := r.collectAnswer(one)
			return !missing, err
		}
		err := r.askPage(ctx, q, way)
		if err == errNotShown {
			continue
		}
		if err != nil {
			return true, err
		}
		if missing, err := r.collectAnswer(one); err != nil || !missing {
			return true, err
		}
		open, _ := r.ladder.findOnPage(q.key)
		if open == nil { // the answer fits the form, and not what reads it
			return true, r.endWithText(protocol.CodeFlowEnded, words.EndInvalid, "the answer that "+
				"was given on the page cannot be used; start the call again")
		}
		return true, r.leaveOpen(ctx, q, open)
	}
}

// restoreUnseen records what the client has said without showing the question, where no other way
// is left. It reports whether it has said anything.
func (r *run) restoreUnseen(key string) bool {
	if r.ladder == nil {
		return false
	}
	said, _ := r.ladder.findHidden(key)
	if said != nil {
		r.mu.Lock()
		r.recordAnswerLocked(said)
		r.mu.Unlock()
	}
	return said != nil
}

// askPage looks for the answer to a question on the page, and waits for it where the person has
// agreed to go there. A nil error means that the answer is recorded, or that the question is open.
func (r asker) askPage(ctx context.Context, q *Question, way event.Way) error {
	switch {
	case way == "" && q.optional:
		r.freeKey(q.key)
		return &PushError{Method: protocol.MethodElicit, Cause: errNoWay.Error(),
			client: errNoWay.Error()}
	case way == "":
		r.endWith(noWayEnding())
		return errNoWay
	}
	asked, err := r.newPageQuestion(q)
	if err != nil {
		return r.endWithPageError(err)
	}
	hidden := r.isHidden(q)
	look := func(ctx context.Context) (*openQuestion, error) {
		return r.lookAtPage(ctx, q, asked, way, hidden)
	}
	open, err := look(ctx)
	if err != nil {
		return r.endWithPageError(err)
	}
	if open.answer != nil || way != words.WayLink {
		return nil
	}
	link := linkQuestion(q, open)
	if r.checkURLs([]Question{link}) != nil { // the author's hook wants none
		r.ladder.noteHidden(link.key, nil)
		return errNotShown
	}
	if !r.askingMode().returnsQuestions() && isFlowStyle(q) {
		if err := r.takeKey(&link); err != nil {
			return err
		}
		err := r.askInPlace(ctx, &inquiry{question: link})
		if err == errNotShown {
			r.ladder.noteHidden(link.key, nil)
		}
		if err != nil && findRefusal(err) == nil {
			return r.freeWithdrawn(ctx, q, link.key, err)
		}
		if err == nil { // somebody quick may be done
			open, err = look(ctx)
		}
		if err == nil && open.answer != nil {
			return r.finishVisit(ctx, link.key)
		}
	}
	r.mu.Lock()
	agreed := r.findAnswerLocked(link.key)
	r.mu.Unlock()
	switch {
	case agreed == nil || agreed.unsolicited:
		return nil
	case agreed.outcome != Accepted:
		return r.declineLink(ctx, q, agreed)
	}
	done, err := r.holdVisit(ctx, link.key, func(ctx context.Context) (bool, error) {
		open, err := look(ctx)
		return err == nil && open.answer != nil, nil // nor is it known while the store is down
	})
	switch {
	case !done && r.ctx.Parent().Err() != nil:
		return r.cutOff(link.key)
	case err != nil:
		return r.freeWithdrawn(ctx, q, link.key, err)
	case done:
		return r.finishVisit(ctx, link.key)
	}
	r.noteUnfinished([]string{link.key})
	return nil
}

// freeWithdrawn frees the keys of a question that the handler has withdrawn, so that it may ask
// again, and returns err.
func (r asker) freeWithdrawn(ctx context.Context, q *Question, link string, err error) error {
	if ctx.Err() != nil && r.ctx.Err() == nil {
		r.freeKey(q.key)
		r.freeKey(link)
	}
	return err
}

// declineLink takes the refusal of a link for that of its question.
func (r asker) declineLink(ctx context.Context, q *Question, refused *answer) error {
	if isFlowStyle(q) {
		r.recordOtherWay(ctx, q, refused.outcome, nil, words.WayLink, nil)
		return nil
	}
	action := protocol.ActionDecline
	if refused.outcome == Cancelled {
		action = protocol.ActionCancel
	}
	r.ladder.noteOpen(q.key, &openQuestion{way: words.WayLink,
		answer: json.RawMessage(`{"action":"` + string(action) + `"}`)}, true)
	return nil
}

// isFlowStyle reports whether q is asked in flow style, which marks questions.
func isFlowStyle(q *Question) bool { return q.mark.Set }

func linkQuestion(q *Question, open *openQuestion) Question {
	link := ElicitURL(q.key+linkSuffix, open.asked.Message, open.link)
	link.expiresIn = q.expiresIn
	link.mark, _ = link.makeMark() // of a text, which cannot fail
	return link
}

// endWithPageError ends the run because the page could not take the question.
func (r asker) endWithPageError(err error) error {
	wire, ok := protocol.AsError(err)
	if !ok {
		return r.endWithError(err)
	}
	e := &ending{err: err, refusal: &refusal{wire: wire, always: true}, how: words.EndFailed}
	r.endWith(e)
	return err
}

// leaveOpen ends the run, or has the client asked, with a question that is open on the page.
func (r asker) leaveOpen(ctx context.Context, q *Question, open *openQuestion) error {
	switch {
	case open.way == words.WayText:
		e := responder(r).endWithLinks(ctx, []Question{*q})
		r.endWith(e)
		return e.err
	case r.taskRun() == nil:
	case open.way == words.WayTask, r.wasAgreedTo(q.key + linkSuffix):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tellTaskLocked(open)
		if _, err := r.activeFlowLocked(); err != nil {
			return err
		}
		return r.waitLocked(open.wake)
	}
	return r.suspendHandler(q)
}

// tellTaskLocked has the status message of the task show the link.
func (r *run) tellTaskLocked(open *openQuestion) {
	if open.way == words.WayTask {
		r.taskRun().Message = "Answer at " + open.link + " : " + open.asked.Message
	}
}

// lookForReturned looks at the page for the questions that a handler in guard style has returned.
func (r asker) lookForReturned(result protocol.Result) {
	asks, ok := result.(*protocol.InputRequiredResult)
	if !ok || asks == nil || r.isDecided() {
		return
	}
	d, err := r.readDraft(asks)
	if err != nil {
		return // and is reported in its place
	}
	for i := range d.questions {
		q := &d.questions[i]
		for err = errNotShown; err == errNotShown; {
			way := r.wayOf(q)
			if err = nil; way != words.WayForm {
				err = r.askPage(&r.ctx, q, way)
				continue
			}
			r.ladder.noteOpen(q.key, nil, false)
			r.restoreUnseen(q.key)
		}
		if err != nil {
			return // the run has ended
		}
	}
}

// A pageRound is a round whose answers have come from the page.
type pageRound struct {
	state   []byte // claims
	answers pushedAnswers
	from    []pageAnswer
}

// A pageAnswer says how an answer of a round has come from the page.
type pageAnswer struct {
	key   string
	way   event.Way
	asked protocol.InputRequest
}

// settleReturned splits the questions of a round by their ways. Where all have answers on the page
// the next round begins at once: round is not nil. Otherwise it returns the questions that are left
// for the client, some as links, or the end of the run.
func (r responder) settleReturned(ctx context.Context, d *draft,
	asks *protocol.InputRequiredResult) (
	left *draft, shown *protocol.InputRequiredResult, round *pageRound, end *ending) {
	round = &pageRound{}
	var inWords []Question
	rest := *d
	rest.questions = nil
	var onPage []string
	changed := false
	if r.ladder != nil {
		defer func() { r.ladder.onPage = onPage }()
	}
	for _, q := range d.questions {
		switch open, got := r.ladder.findOnPage(q.key); {
		case got != nil:
			round.answers.responses = append(round.answers.responses,
				protocol.KeyedResponse{Key: q.key, Result: got.answer})
			round.answers.took = append(round.answers.took, pushTime{waited: time.Hour})
			round.from = append(round.from, pageAnswer{q.key, got.way, q.request})
			continue
		case open == nil:
			if q.ways != 0 && r.wayOf(&q) != words.WayForm {
				return d, asks, nil, noWayEnding()
			}
			rest.questions = append(rest.questions, q)
			continue
		case open.way == words.WayText:
			inWords = append(inWords, q)
			continue
		case open.way == words.WayLink && !(r.taskRun() != nil && r.wasAgreedTo(q.key+linkSuffix)):
			rest.questions = append(rest.questions, linkQuestion(&q, open))
		default: // a task waits
			r.mu.Lock()
			r.tellTaskLocked(open)
			r.startFlowLocked()
			r.flow.waitsFor = append(r.flow.waitsFor, open.wake)
			r.mu.Unlock()
		}
		changed = true
		onPage = append(onPage, q.key)
	}
	switch n := len(round.from); {
	case len(inWords) > 0:
		if d.hasState || r.prior != nil && r.prior.State != nil {
			r.ladder.noteEffect() // the state is lost, and what it says may have been done
		}
		return d, asks, nil, r.endWithLinks(ctx, inWords)
	case n > 0 && n == len(d.questions):
		return d, asks, round, nil
	case n > 0: // a round has all of its answers, and the next one finds these
		changed = true
		r.returnTaken(ctx)
		for _, got := range round.from {
			onPage = append(onPage, got.key)
		}
	}
	if !changed {
		return d, asks, nil, nil
	}
	shown = rest.buildResult(&protocol.InputRequiredResult{})
	shown.Meta = asks.Meta
	return &rest, shown, nil, nil
}

// openPageRound opens the run that the answers of the page are for, nil where there is none.
func (e *exchange) openPageRound(ctx context.Context) (*run, error) {
	if e.ladder == nil || e.ladder.next == nil {
		return nil, nil
	}
	round := e.ladder.next
	e.ladder.next, e.ladder.from = nil, round.from
	return e.openLocalState(ctx, round.state, &round.answers, protocol.RequestState{})
}

// endWithLinks returns the end of a run whose questions are open on the page, with their links in
// words. The next call with the same arguments finds the answers, also those that this run has
// taken.
func (r responder) endWithLinks(ctx context.Context, questions []Question) *ending {
	var links strings.Builder
	often := false
	for _, q := range questions {
		open, _ := r.ladder.findOnPage(q.key)
		note := r.funnel.pages.changeNote(open.asked.Binding, func(n *pageNote) { n.shown++ })
		often = often || note.shown > maxLinkShown
		fmt.Fprintf(&links, "\n%s\n%s", open.link, open.asked.Message)
	}
	begun := "A"
	if r.returnTaken(ctx) {
		begun = "Nothing was done yet: a"
	}
	if often {
		text := fmt.Sprintf("this call needs the answer of a person, who has not used the link "+
			"that %d calls got; do not call again before they say that they have answered",
			maxLinkShown)
		return &ending{err: errLinkGiven, how: words.EndUnseen,
			refusal: &refusal{code: protocol.CodeCannotAsk, text: text}}
	}
	kinds := make([]protocol.InputKind, len(questions))
	for i := range kinds {
		kinds[i] = protocol.KindElicitForm
	}
	r.observe(ctx, event.InputRequested{Where: r.where, Kinds: kinds, Way: words.WayText,
		Questions: askedQuestions(questions), RoundsLeft: r.maxRounds(),
		Principal: &r.call.Principal, Client: r.call.Client})
	text := begun + " person has to answer first, and this client does not show " +
		"the question. Show the person this link with what it asks, and call again with the " +
		"same arguments when they have answered." + links.String()
	return &ending{err: errLinkGiven, how: words.EndLink,
		refusal: &refusal{code: protocol.CodeCannotAsk, text: text}}
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

// returnTaken gives back the answers that the call has taken, unless it may have acted on them: then
// the person is asked for them once more. It reports whether it has not acted.
func (r *run) returnTaken(ctx context.Context) bool {
	acted := r.hasActed()
	r.ladder.mu.Lock()
	acted = acted || r.ladder.effect
	taken := r.ladder.taken
	r.ladder.taken = nil
	r.ladder.mu.Unlock()
	for _, t := range taken {
		if !acted { // one that is lost is asked for once more
			_ = r.funnel.opts.Page.ReturnAnswer(context.WithoutCancel(ctx), t)
		}
	}
	return !acted
}

func (r *run) hasActed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acted
}

func (d *draft) limitsWays() bool {
	return slices.ContainsFunc(d.questions, func(q Question) bool { return q.ways != 0 })
}
