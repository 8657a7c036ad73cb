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
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// This file collects a round's answers from the page: all at once, before the handler runs. Until
// then the round goes on without the handler. A call that ends with links is kept on the page,
// and the next identical call goes on with its state, like a client that returns a requestState.

// A keptCall is an earlier call whose questions are on the page.
type keptCall struct {
	call   PageCall
	claims *claims.Claims
	open   []openQuestion
	taken  bool // else its user has not answered
}

// isOnPage reports whether a question is for the page alone.
func (r *run) isOnPage(key string) bool {
	return r.ladder != nil && r.findMemoLocked(pageKey(key)) != nil
}

// isAnswered reports whether the page has all answers of a round, or a refusal.
func isAnswered(open []openQuestion) bool {
	missing := false
	for i := range open {
		reply := open[i].reply
		if reply == nil || reply.Answer == nil {
			missing = true
			continue
		}
		outcome, _, _ := interpret(protocol.KindElicitForm, reply.Answer)
		if outcome != Accepted && !isPush(open[i].question.key) { // a handler that pushes goes on
			return true
		}
	}
	return !missing
}

var errUsed = errors.New("another call has used the answer; call again")

func isGone(open openQuestion) bool { return open.reply == nil }

// findOpen returns the questions of a state that were asked on the page, with their replies. They
// are gone if their call is over.
func (e *exchange) findOpen(ctx context.Context, c *claims.Claims) (open []openQuestion, err error) {
	isOver := waiting.PageOf(ctx).IsOver
	for _, memo := range c.Memos {
		key, isPage := strings.CutPrefix(memo.Key, pagePrefix)
		i := slices.IndexFunc(c.Asked, func(q claims.Question) bool { return q.Key == key })
		var mark pageMark
		if !isPage || i < 0 || json.Unmarshal(memo.Value, &mark) != nil {
			continue // written by openOnPage, perhaps for a question that was withdrawn
		}
		var reply *PageReply
		if isOver == nil || !isOver(c.State) {
			reply, err = e.funnel.opts.Page.FindQuestion(ctx, e.call.Principal, mark.ID)
			if err != nil {
				return nil, err
			}
		}
		one := openQuestion{question: Question{key: key}, way: mark.Way, lacks: mark.Lacks, reply: reply}
		if asked := &c.Asked[i]; reply != nil {
			f, err := form.ParsePeer(reply.Form)
			if err != nil || f.Digest() != asked.Digest {
				one.reply = nil // another question
			} else {
				one.question = Question{key: key, form: f, request: one.shown(), mark: asked.Mark,
					carryForm: asked.Schema != nil, expiresIn: time.Until(c.Expires)}
			}
		}
		open = append(open, one)
	}
	return open, nil
}

// takeEarlier looks for an earlier call that can go on, or whose user has not answered.
func (e *exchange) takeEarlier(ctx context.Context) error {
	digest, err := e.digestCall()
	if err != nil {
		return err
	}
	links := e.showsByItself(protocol.KindElicitURL)
	var found, waits *keptCall
	var failed error
	var inLink, gone, showAgain bool
	wanted := func(state []byte) bool {
		k, err := e.openKept(ctx, string(state))
		if failed = cmp.Or(failed, err); k == nil {
			return false
		}
		found = k
		if isAnswered(k.open) {
			return true
		}
		if slices.ContainsFunc(k.open, isGone) {
			gone = true
			return showAgain // only if none is answered
		}
		if slices.ContainsFunc(k.open, func(q openQuestion) bool {
			return q.way != words.WayText && q.reply.Answer == nil
		}) {
			inLink = links
			return showAgain && links
		}
		if waits == nil || e.mayShow(waits) && !e.mayShow(k) {
			waits = k
		}
		return false
	}
	call := &PageCall{Principal: e.call.Principal, Digest: digest}
	state, err := e.funnel.opts.Page.TakeCall(ctx, call, wanted)
	if showAgain = true; state == nil && err == nil && (inLink || gone) { // and none is answered
		state, err = e.funnel.opts.Page.TakeCall(ctx, call, wanted)
	}
	if err != nil || state == nil {
		e.ladder.earlier = waits
		return cmp.Or(err, failed)
	}
	found.taken = true
	e.ladder.earlier = found
	for state != nil && err == nil { // copies, with the same answers, of a round that was sent twice
		state, err = e.funnel.opts.Page.TakeCall(ctx, call, func(state []byte) bool {
			k, _ := e.openKept(ctx, string(state))
			return k != nil && k.claims.Flow == found.claims.Flow
		})
	}
	return err
}

// mayShow reports whether this client, unlike that of an earlier call, may show its questions.
func (e *exchange) mayShow(k *keptCall) bool {
	return slices.ContainsFunc(k.open, func(q openQuestion) bool { return q.lacks }) &&
		(e.showsByItself(protocol.KindElicitForm) || e.showsByItself(protocol.KindElicitURL))
}

// openKept returns a kept call, or nil if its state does not hold any more.
func (e *exchange) openKept(ctx context.Context, text string) (*keptCall, error) {
	plaintext, err := e.unsealState(ctx, text)
	var c *claims.Claims
	if err == nil {
		c, err = (&run{exchange: e}).verifyClaims(plaintext)
	}
	if _, refused := errors.AsType[*rejection](err); refused {
		_ = e.reportRejection(ctx, err)
		return nil, nil
	}
	if err != nil || c == nil {
		return nil, err
	}
	open, err := e.findOpen(ctx, c)
	if err != nil {
		return nil, err
	}
	if waiting.PageOf(ctx).IsOver == nil && slices.ContainsFunc(open, isGone) &&
		slices.ContainsFunc(c.Answers, func(a claims.Answer) bool {
			return !a.Mark.Set && a.Outcome != claims.Unseen
		}) {
		return nil, nil // guard style would run the code behind these answers again
	}
	return &keptCall{PageCall{State: []byte(text), Until: c.Expires}, c, open, false}, nil
}

// goOnWithEarlier replaces the run by that of an earlier call, if there is one, or returns the
// response of this call. It is not inlined, for the stacks of waiting calls.
//
//go:noinline
func (e *exchange) goOnWithEarlier(ctx context.Context, next *responder) (protocol.Result, error) {
	l := e.ladder
	if e.runs == 1 && next.prior == nil && !e.started && e.canUsePage() {
		e.lookFirst(ctx)
	}
	k := l.earlier
	if k == nil {
		return nil, nil
	}
	l.earlier = nil
	r := responder{e.openRun(&run{kept: true, opened: time.Now()}, nil, protocol.RequestState{})}
	r.locateEvents(k.claims)
	if !k.taken {
		open := slices.DeleteFunc(k.open, func(q openQuestion) bool { return q.reply.Answer != nil })
		result, err := r.answerRefusal(ctx, r.showLinks(ctx, k.claims, open))
		r.commitClaim(ctx, result, err)
		return result, err
	}
	e.endClaim(ctx, nil) // of a flow that goes no further
	l.taken, l.keep, e.started = &k.call, &k.call, false
	r.resumeFlow(ctx, k.claims, len(k.call.State))
	*next = r
	return nil, nil
}

// lookFirst looks for an earlier call before the handler runs. One that is kept meanwhile is found
// when this one is kept, if it has done nothing.
func (e *exchange) lookFirst(ctx context.Context) {
	e.observeStore(ctx, e.takeEarlier(ctx), resourceStore, "find")
	if k := e.ladder.earlier; k != nil && !k.taken && e.mayShow(k) {
		e.ladder.earlier = nil
	}
}

// keepCall keeps the call's state for the next call with the same arguments.
func (e *exchange) keepCall(ctx context.Context, c *PageCall) (kept bool, err error) {
	if c.Digest, err = e.digestCall(); err != nil {
		return false, err
	}
	c.Principal = e.call.Principal
	ctx, cancel := CleanupContext(ctx)
	defer cancel()
	return e.funnel.opts.Page.KeepCall(ctx, c)
}

// endCall ends the claim, and puts back what was taken and not used.
func (e *exchange) endCall(ctx context.Context) {
	e.endClaim(ctx, nil)
	l := e.ladder
	if l == nil {
		return
	}
	ctx, cancel := CleanupContext(ctx)
	defer cancel()
	for _, id := range l.used {
		if l.unused {
			e.observeStore(ctx, e.funnel.opts.Page.ReturnAnswer(ctx, e.call.Principal, id),
				resourceStore, "return")
		}
	}
	if l.keep != nil {
		_, err := e.keepCall(ctx, l.keep)
		e.observeStore(ctx, err, resourceStore, "keep")
	}
}

// matchPage records the answers of the page to the round. If the page still lacks some, it returns
// the outcome in place of the handler.
func (r responder) matchPage(ctx context.Context) (protocol.Result, error) {
	if !r.canUsePage() {
		return nil, nil
	}
	r.ladder.used = nil
	open, err := r.findOpen(ctx, r.prior)
	if err != nil {
		return r.refusePage(ctx, err)
	}
	if len(open) == 0 {
		return nil, nil
	}
	agreed, refused := r.readLinks(open)
	if refused != nil {
		return nil, r.recordOtherWay(ctx, &refused.question, refused.reply.Answer,
			refused.answeredEvent())
	}
	if !isAnswered(open) && len(agreed) > 0 {
		if open, err = r.holdRound(ctx, open, agreed[0]); err != nil {
			r.closeRun()
			if !r.askingMode().returnsQuestions() {
				setExpiry(r.prior, time.Now().Add(r.prior.Expires.Sub(r.prior.Issued)))
				r.keepLater(ctx, r.prior)
			}
			result, err, _ := r.overruleHandler(ctx, nil, err)
			return result, err
		}
	}
	if isAnswered(open) {
		switch err := r.acceptPage(ctx, open); {
		case err == nil:
			return nil, nil
		case err == errUsed:
			r.ladder.keep = nil
			r.reportFlowEnd(ctx, words.EndFailed)
			return r.refuseFlow(protocol.CodeFlowEnded, err.Error())
		default:
			r.ladder.putBack() // no handler has run
			return r.refusePage(ctx, err)
		}
	}
	if slices.ContainsFunc(open, isGone) || !r.hasOtherAnswers(open) {
		return nil, nil
	}
	defer r.closeRun()
	return r.repeatRound(ctx, open)
}

// readLinks returns the keys of the open links if the user has agreed to all, or the question whose
// link they have refused, answered so.
func (r responder) readLinks(open []openQuestion) (agreed []string, refused *openQuestion) {
	all := true
	for _, q := range open {
		a := r.findAnswerLocked(q.question.key + linkSuffix)
		if isGone(q) || q.way != words.WayLink ||
			q.reply.Answer != nil && (a == nil || a.outcome != Declined) {
			continue
		}
		switch {
		case a != nil && a.asRefusal() != nil:
			reply := *q.reply
			reply.Answer, reply.Given = refusalResult(a.asRefusal()), time.Time{}
			q.reply = &reply
			return nil, &q
		case a == nil || a.outcome != Accepted:
			all = false
		}
		agreed = append(agreed, q.question.key+linkSuffix)
	}
	if !all || slices.ContainsFunc(open, isGone) {
		return nil, nil
	}
	return agreed, nil
}

// hasOtherAnswers reports whether the client has answered all other questions of the round.
func (r responder) hasOtherAnswers(open []openQuestion) bool {
	return !slices.ContainsFunc(r.prior.Asked, func(asked claims.Question) bool {
		return r.findAnswerLocked(asked.Key) == nil &&
			!slices.ContainsFunc(open, func(q openQuestion) bool {
				return q.question.key == asked.Key ||
					q.question.key+linkSuffix == asked.Key && q.reply.Answer != nil
			})
	})
}

// holdRound holds the call while the user is on the page, like [Await].
func (r responder) holdRound(ctx context.Context, open []openQuestion, link string) (
	[]openQuestion, error) {
	r.startContext(ctx)
	_, err := asker(r).holdVisit(&r.ctx, link, func(ctx context.Context) (bool, error) {
		found, err := r.findOpen(ctx, r.prior)
		if err != nil {
			return false, nil // unknown while the store is down
		}
		open = found
		waits, _ := r.readLinks(open)
		return len(waits) == 0, nil
	})
	if ctx.Err() != nil {
		return open, asker(r).cutOff(link)
	}
	return open, err
}

// acceptPage takes and records the page's answers to a round, or fails with errUsed. If a task's
// run died with an answer, the task asks again.
func (r responder) acceptPage(ctx context.Context, open []openQuestion) error {
	for i := range open {
		q := &open[i]
		if q.reply == nil || q.reply.Answer == nil {
			continue
		}
		taken, err := r.funnel.opts.Page.TakeAnswer(ctx, r.call.Principal, q.reply.ID)
		if err != nil {
			return err
		}
		if !taken && r.taskRun() == nil { // this state is a copy, whose other answers are used, too
			return errUsed
		}
		if !taken { // a run of the task that died has used it
			r.dropMemoLocked(pageKey(q.question.key))
			continue
		}
		r.ladder.used = append(r.ladder.used, q.reply.ID)
		if err = r.recordOtherWay(ctx, &q.question, q.reply.Answer, q.answeredEvent()); err != nil {
			return err
		}
		r.notifyFinished(ctx, q.question.key+linkSuffix)
	}
	// In guard style the handler acts on its answers, and may then be cut off.
	r.ladder.used = slices.DeleteFunc(r.ladder.used, func(id string) bool {
		return slices.ContainsFunc(open, func(q openQuestion) bool {
			return q.reply != nil && q.reply.ID == id && !isFlowStyle(&q.question)
		})
	})
	return nil
}

// repeatRound goes on with a round whose answers the page lacks, without the handler.
func (r responder) repeatRound(ctx context.Context, open []openQuestion) (protocol.Result, error) {
	r.startContext(ctx)
	r.versioned = true // the handler's version is not known, so it stays
	d := &draft{}
	for i := range open {
		q := &open[i]
		r.ladder.noteOpen(q.question.key, q)
		d.questions = append(d.questions, q.question)
		if q.way == words.WayLink && q.reply.Answer == nil {
			asker(r).noteUnfinished([]string{q.question.key + linkSuffix})
		}
	}
	return r.askDraft(ctx, d, &protocol.InputRequiredResult{})
}

// settleRound divides a round's questions by their ways: shown and its result are for the client.
func (r responder) settleRound(d *draft, asks *protocol.InputRequiredResult) (shown *draft,
	result *protocol.InputRequiredResult, inWords []openQuestion, end *ending) {
	shown = new(*d)
	shown.questions, shown.onPage = nil, r.ladder.openBeside(d.questions)
	for _, q := range d.questions {
		open := r.ladder.findOpen(q.key)
		if open == nil {
			if q.ways != nil && r.wayOf(&q) != words.WayForm {
				return nil, nil, nil, noWayEnding()
			}
			shown.questions = append(shown.questions, q)
			continue
		}
		shown.onPage = append(shown.onPage, q)
		switch {
		case open.reply.Answer != nil: // counts when the round has all answers
		case open.way == words.WayText:
			inWords = append(inWords, *open)
		case open.way == words.WayLink && !(r.taskRun() != nil && r.wasAgreedTo(q.key+linkSuffix)):
			shown.questions = append(shown.questions, open.link())
		default: // a task waits
			r.mu.Lock()
			r.tellTaskLocked(open)
			r.startFlowLocked()
			if !slices.Contains(r.flow.waitsFor, open.reply.ID) {
				r.flow.waitsFor = append(r.flow.waitsFor, open.reply.ID)
			}
			r.mu.Unlock()
		}
	}
	if len(shown.onPage) == 0 {
		return d, asks, nil, nil
	}
	result = shown.buildResult(&protocol.InputRequiredResult{})
	result.Meta = asks.Meta
	return shown, result, inWords, nil
}

// refusePage answers a request after a failure of the page.
func (r responder) refusePage(ctx context.Context, err error) (protocol.Result, error) {
	if wire, ok := protocol.AsError(err); ok {
		return r.answerRefusal(ctx, &refusal{wire: wire, always: true})
	}
	return nil, r.reportBug(ctx, err)
}

// endWithLinks keeps the call and returns its end, whose text has the links.
func (r responder) endWithLinks(ctx context.Context, d *draft, next *claims.Claims,
	open []openQuestion) (protocol.Result, error) {
	if d.expiresIn(0) == 0 { // as long again to take the answer
		setExpiry(next, next.Issued.Add(2*r.funnel.opts.RoundTTL))
	}
	state, err := r.sealState(ctx, next)
	text, _ := state.Text()
	call := PageCall{State: []byte(text), Until: next.Expires, First: !hasDone(next)}
	for ; err == nil; call.First = false {
		var kept bool
		if kept, err = r.keepCall(ctx, &call); kept || err != nil {
			break
		}
		// Another call was kept, which this one was not known to be like.
		err = r.takeEarlier(ctx)
		if k := r.ladder.earlier; k != nil && (k.taken || !r.mayShow(k)) {
			return nil, nil
		}
		r.ladder.earlier = nil // this call was to show the question, so it is kept beside
	}
	if err != nil { // after a run of the handler its answers are lost: they may be kept after all
		return r.refusePage(ctx, err)
	}
	r.ladder.keep, r.started = nil, true // its state is spent
	noteKept(ctx, next)
	return r.answerRefusal(ctx, r.showLinks(ctx, next, open))
}

// hasDone reports whether a flow may have done something.
func hasDone(c *claims.Claims) bool {
	return c.State != nil || slices.ContainsFunc(c.Answers, func(a claims.Answer) bool {
		return a.Outcome != claims.Unseen // a handler may act on a refusal, too
	}) || slices.ContainsFunc(c.Memos, func(m claims.Memo) bool {
		return m.Key != showsNoneKey && !strings.HasPrefix(m.Key, pagePrefix)
	})
}

// showLinks returns the end of a call whose questions are open on the page.
func (r responder) showLinks(ctx context.Context, c *claims.Claims, open []openQuestion) *refusal {
	begun := "A"
	if !hasDone(c) {
		begun = "Nothing was done yet: a"
	}
	var links strings.Builder
	questions := make([]Question, len(open))
	for i := range open {
		questions[i] = open[i].question
		fmt.Fprintf(&links, "\n%s\n%s", open[i].reply.Link, open[i].reply.Message)
	}
	digest, _ := r.digestCall() // the call was kept under it
	note := r.funnel.pages.changeNote(digest, func(n *pageNote) {
		if shown := sha256.Sum256([]byte(links.String())); n.links != shown {
			n.links, n.shown = shown, 0
		}
		n.shown++
	})
	if note.shown > maxLinkShown {
		return &refusal{code: protocol.CodeCannotAsk, text: fmt.Sprintf("this call needs the answer "+
			"of a person, who has not used the link returned by %d calls; show them the link, and do "+
			"not call again until they say that they have answered", maxLinkShown) + links.String()}
	}
	kinds := make([]protocol.InputKind, len(questions))
	for i := range kinds {
		kinds[i] = protocol.KindElicitForm
	}
	r.observe(ctx, event.InputRequested{Where: r.where, Kinds: kinds, Way: words.WayText,
		Questions: askedQuestions(questions), RoundsLeft: max(0, r.maxRounds()-r.countedRounds()),
		Principal: &r.call.Principal, Client: r.call.Client})
	return &refusal{code: protocol.CodeCannotAsk, text: begun + " person has to answer first, and " +
		"this client does not show the question. Show the person this link with what it asks, and " +
		"call again with the same arguments when they have answered." + links.String()}
}

// keepAgreed keeps the state of a session's call that ends while a user is on the page, unless the
// handler, which returned failed, may have acted, perhaps on an earlier answer.
func (r responder) keepAgreed(ctx context.Context, failed error) {
	f := r.flow
	if r.ladder == nil || f == nil {
		return
	}
	r.mu.Lock()
	if r.hasGoneOnLocked(failed) { // so it has acted on what was taken
		r.ladder.taken, r.ladder.used = nil, nil
		if slices.ContainsFunc(r.answers, (*answer).mayHaveEffect) {
			r.mu.Unlock()
			return
		}
	}
	begun := r.acted
	acted := begun || slices.ContainsFunc(r.answers, func(a *answer) bool {
		return a.mayHaveEffect() && a.round == r.number
	})
	r.mu.Unlock()
	switch {
	case begun:
		r.ladder.taken = nil // never to be repeated
	case f.end != nil && f.end.repeatable:
		r.putBackUnlessActed(ctx)
	}
	if f.end == nil || r.askingMode().returnsQuestions() || waiting.PageOf(ctx).Acted {
		return
	}
	d := &draft{onPage: r.ladder.openBeside(nil)}
	if len(d.onPage) > 0 && !acted {
		var next claims.Claims
		r.fillNextClaims(&next, d, time.Now())
		r.keepLater(ctx, &next)
	}
}

// keepLater keeps a state when the call ends. The next call shows open links again.
func (r responder) keepLater(ctx context.Context, c *claims.Claims) {
	c.VisitSince = time.Time{}
	c.Answers = slices.DeleteFunc(c.Answers, func(a claims.Answer) bool { return isLink(a.Key) })
	ctx, cancel := CleanupContext(ctx)
	defer cancel()
	if state, err := r.sealState(ctx, c); err == nil {
		text, _ := state.Text()
		r.ladder.keep = &PageCall{State: []byte(text), Until: c.Expires}
		noteKept(ctx, c)
	}
}

// noteKept tells the host that the call is kept.
func noteKept(ctx context.Context, c *claims.Claims) {
	page := waiting.PageOf(ctx)
	page.Kept, page.State = c.Expires, c.State
}
