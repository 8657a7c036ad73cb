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

	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// This file asks questions on the page. A repeated call has the same binding, so it finds answers
// given after the first call.

// bindQuestion returns the digest of everything that an answer on the page applies to.
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
	r.mu.Lock()
	if kept := r.findMemoLocked(openKey(q.key)); kept != nil {
		_ = json.Unmarshal(kept, &answers) // written by lookAtPage
	}
	r.mu.Unlock()
	return sha256.Sum256(append(append(call[:], question[:]...), answers[:]...)), err
}

// digestAnswers returns the digest of the previous answers, to which consent is bound.
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

// openKey is the key of a memo with the digest of the answers before a question that is open on the
// page, because answers to others in the meantime must not change its binding.
func openKey(key string) string { return "\x00open\x00" + key }

// newPageQuestion returns the question for the page, which later answers to others do not change.
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
	// A replayed round gets its answer again; a later round does not.
	return &PageQuestion{Binding: binding, Taker: fmt.Sprintf("%x.%d", flow, r.number),
		Principal: r.call.Principal, Method: r.call.Method, Target: r.call.Target,
		Arguments: r.call.Arguments, Message: q.request.(*protocol.ElicitForm).Message,
		Form: q.form.Schema(), answers: r.digestAnswers(q.key)}, nil
}

// lookAtPage records the page's answer or notes the link; hidden means the client shows no form.
func (r *run) lookAtPage(ctx context.Context, q *Question, asked *PageQuestion, way event.Way,
	hidden bool) (open *openQuestion, err error) {
	own, done := r.outliveSuspension(ctx)
	reply, err := r.funnel.opts.Page.AskOnPage(own, asked)
	done()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	if r.closed { // the handler left this goroutine: a later run must not get the answer
		r.mu.Unlock()
		if reply.Answer != nil {
			_ = r.funnel.opts.Page.ReturnAnswer(context.WithoutCancel(ctx), asked)
		}
		return nil, errReturned()
	}
	open = &openQuestion{way, asked, reply.Link, reply.Key, reply.Answer}
	if open.answer != nil {
		r.memos = slices.DeleteFunc(slices.Clone(r.memos),
			func(m claims.Memo) bool { return m.Key == openKey(q.key) })
	} else if way != words.WayText && r.findMemoLocked(openKey(q.key)) == nil {
		value, _ := json.Marshal(asked.answers)
		r.addMemoLocked(openKey(q.key), value)
	}
	r.funnel.pages.changeNote(asked.Binding, func(n *pageNote) {
		if open.answer == nil {
			n.hidden, n.way = n.hidden || hidden, way
			return
		}
		open.way = cmp.Or(n.way, way)
	})
	// Concurrent questions are answered in the next round: else the order of answers is random.
	session := q.fixed && !r.askingMode().returnsQuestions()
	if session && open.answer != nil {
		r.ladder.noteEffect() // a handler that pushes runs once, goes on and may act on the answer
	}
	inRound := !isFlowStyle(q) || q.askAgain || way == words.WayText && !session ||
		way == words.WayLink && r.askingMode().returnsQuestions() && r.taskRun() == nil
	r.ladder.noteOpen(q.key, open, inRound)
	if hidden && open.answer != nil {
		r.ladder.noteShowsNone()
	}
	r.mu.Unlock()
	if open.answer == nil || inRound {
		return open, nil
	}
	outcome, content, err := interpret(protocol.KindElicitForm, open.answer)
	if err != nil {
		return nil, fmt.Errorf("question %q: the answer of the page: %w", q.key, err)
	}
	r.recordOtherWay(ctx, q, outcome, content, open.way, &open.answer)
	return open, nil
}

// outliveSuspension returns a copy of ctx that does not end when another goroutine of the handler
// asks the client, and a function that releases it: the suspension must not fail the page.
func (r *run) outliveSuspension(ctx context.Context) (own context.Context, done func()) {
	parent := r.ctx.Parent()
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	withdrawn := context.AfterFunc(ctx, func() {
		if cause := context.Cause(&r.ctx); cause == nil || !errors.Is(cause, ErrPending) {
			cancel()
		}
	})
	ended := context.AfterFunc(parent, cancel)
	return own, func() { withdrawn(); ended(); cancel() }
}

// recordOtherWay records an answer to a form that came by another way.
func (r *run) recordOtherWay(ctx context.Context, q *Question, outcome Outcome,
	content json.RawMessage, way event.Way, result *json.RawMessage) {
	a := &answer{key: q.key, kind: protocol.KindElicitForm, outcome: outcome,
		digest: q.formDigest(), mark: q.mark, content: content, round: r.number, announced: true}
	if q.carryForm && !q.mark.Set {
		a.schema = q.form.Schema()
	}
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

// askOnPage asks a flow-style question on the page, or returns false if the client is to be asked.
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
		open, got := r.ladder.findOnPage(q.key)
		if got != nil {
			return true, r.suspendHandler(q)
		}
		if missing, err := r.collectAnswer(one); err != nil || !missing {
			return true, err
		}
		if open == nil { // the answer fits the form, but not its reader
			return true, r.endWithText(protocol.CodeFlowEnded, words.EndInvalid, "the answer that "+
				"was given on the page cannot be used; start the call again")
		}
		return true, r.leaveOpen(ctx, q, open)
	}
}

// restoreUnseen records the client's response to a hidden question if no other way is left.
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

// askPage looks for the answer to a question on the page, and waits if the user has agreed to go
// there. A nil error means that the answer is recorded, or that the question is open.
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
	switch {
	case err != nil && ctx.Err() != nil && r.ctx.Err() == nil:
		return r.freeWithdrawn(ctx, q, q.key+linkSuffix, err)
	case err != nil:
		return r.endWithPageError(err)
	}
	if open.answer != nil || way != words.WayLink {
		return nil
	}
	link := linkQuestion(q, open)
	if r.checkURLs([]Question{link}) != nil { // refused by the author's hook
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
		if err == nil { // a quick user may be done
			open, err = look(ctx)
		}
		if err == nil && open.answer != nil {
			return r.finishVisit(ctx, link.key, false)
		}
	}
	r.mu.Lock()
	agreed := r.findAnswerLocked(link.key)
	r.mu.Unlock()
	switch {
	case agreed == nil || agreed.unsolicited || !agreed.matchesLocked(&link): // or of another link
		return nil
	case agreed.outcome != Accepted:
		return r.declineLink(ctx, q, agreed)
	}
	own, release := r.outliveSuspension(ctx) // by answers to other links, which wait for this one
	defer release()
	done, err := r.holdVisit(own, link.key, func(ctx context.Context) (bool, error) {
		open, err := look(ctx)
		return err == nil && open.answer != nil, nil // unknown while the store is down
	})
	switch {
	case !done && r.ctx.Parent().Err() != nil:
		return r.cutOff(link.key)
	case err != nil:
		return r.freeWithdrawn(ctx, q, link.key, err)
	case done:
		return r.finishVisit(ctx, link.key, false)
	}
	r.noteUnfinished([]string{link.key})
	return nil
}

// freeWithdrawn frees the keys of a question that the handler withdrew, and returns err.
func (r asker) freeWithdrawn(ctx context.Context, q *Question, link string, err error) error {
	if ctx.Err() != nil && r.ctx.Err() == nil {
		r.freeKey(q.key)
		r.freeKey(link)
	}
	return err
}

// declineLink treats the refusal of a link as a refusal of its question.
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

// isFlowStyle reports whether q is asked in flow style: only such questions have marks.
func isFlowStyle(q *Question) bool { return q.mark.Set }

func linkQuestion(q *Question, open *openQuestion) Question {
	link := ElicitURL(q.key+linkSuffix, open.asked.Message, open.link)
	link.expiresIn = q.expiresIn
	link.mark, _ = link.makeMark() // fails only for forms
	return link
}

// endWithPageError ends the run because the page failed to take the question.
func (r asker) endWithPageError(err error) error {
	wire, ok := protocol.AsError(err)
	if !ok {
		return r.endWithError(err)
	}
	e := &ending{err: err, refusal: &refusal{wire: wire, always: true}, how: words.EndFailed}
	r.endWith(e)
	r.returnTaken(&r.ctx)
	return err
}

// leaveOpen suspends the handler, or the task, while a question is open on the page.
func (r asker) leaveOpen(ctx context.Context, q *Question, open *openQuestion) error {
	switch {
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

// tellTaskLocked shows the link in the task's status message.
func (r *run) tellTaskLocked(open *openQuestion) {
	if open.way == words.WayTask {
		r.taskRun().Message = "Answer at " + open.link + " : " + open.asked.Message
	}
}

// lookForReturned looks for answers on the page to questions that a guard-style handler returned.
func (r asker) lookForReturned(result protocol.Result) {
	asks, ok := result.(*protocol.InputRequiredResult)
	if !ok || asks == nil || r.isDecided() {
		return
	}
	d, err := r.readDraft(asks)
	if err != nil {
		return // reported later, with the result
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

// A pageRound is a round answered on the page.
type pageRound struct {
	state   []byte // claims
	answers pushedAnswers
	from    []pageAnswer
}

// A pageAnswer says how an answer came from the page.
type pageAnswer struct {
	key   string
	way   event.Way
	asked protocol.InputRequest
}

// settleReturned splits a round's questions by their ways. If the page has all answers, round is
// the next one; otherwise it returns questions for the client or the end of the run.
func (r responder) settleReturned(ctx context.Context, d *draft,
	asks *protocol.InputRequiredResult) (
	left *draft, shown *protocol.InputRequiredResult, round *pageRound, end *ending) {
	round = &pageRound{}
	var inWords []Question
	rest := *d
	rest.questions = nil
	var onPage []string
	changed, links := false, 0
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
			links++
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
		if d.hasState || r.prior != nil && r.prior.State != nil || r.hasMemo() {
			r.ladder.noteEffect() // the state is lost, and may record effects
		}
		return d, asks, nil, r.endWithLinks(ctx, inWords)
	case n > 0 && n == len(d.questions):
		return d, asks, round, nil
	case n > 0 && len(rest.questions) > links: // the client's answers would change bindings
		changed = true
		r.keepFromPage(ctx, d, round.from)
	case n > 0: // a round needs all its answers; the next one finds these
		changed = true
		r.returnTaken(ctx, round.from...)
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

// keepFromPage records answers of the page while the client is asked for the round's others.
func (r responder) keepFromPage(ctx context.Context, d *draft, from []pageAnswer) {
	for _, got := range from {
		q := &d.questions[slices.IndexFunc(d.questions,
			func(q Question) bool { return q.key == got.key })]
		_, open := r.ladder.findOnPage(q.key)
		outcome, content, err := interpret(protocol.KindElicitForm, open.answer)
		if err == nil {
			r.recordOtherWay(ctx, q, outcome, content, got.way, &open.answer)
		}
	}
}

// openPageRound opens the run for the answers of the page, or returns nil.
func (e *exchange) openPageRound(ctx context.Context) (*run, error) {
	if e.ladder == nil || e.ladder.next == nil {
		return nil, nil
	}
	round := e.ladder.next
	e.ladder.next, e.ladder.from = nil, round.from
	return e.openLocalState(ctx, round.state, &round.answers, protocol.RequestState{})
}

// endWithLinks ends a run whose questions are open on the page, with their links in its text. The
// next call with the same arguments finds the answers, including those that this run took.
func (r responder) endWithLinks(ctx context.Context, questions []Question) *ending {
	var links strings.Builder
	often := false
	for _, q := range questions {
		open, _ := r.ladder.findOnPage(q.key)
		note := r.funnel.pages.changeNote(open.asked.Binding, func(n *pageNote) {
			if n.link != open.link { // the answer may have been taken at another replica
				n.link, n.shown = open.link, 0
			}
			n.shown++
		})
		often = often || note.shown > maxLinkShown
		fmt.Fprintf(&links, "\n%s\n%s", open.link, open.asked.Message)
	}
	begun := "A"
	if r.returnTaken(ctx) {
		begun = "Nothing was done yet: a"
	}
	if often {
		text := fmt.Sprintf("this call needs the answer of a person, who has not used the link "+
			"returned by %d calls; do not call again until they say that they have answered",
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

// returnTaken gives back the answers that the call took, or only some, unless it may have acted on
// them. It reports whether it has not acted.
func (r *run) returnTaken(ctx context.Context, only ...pageAnswer) bool {
	acted := r.hasActed()
	r.ladder.mu.Lock()
	acted = acted || r.ladder.effect
	taken, kept := r.ladder.taken, []*PageQuestion(nil)
	if only != nil { // the flow goes on with the others
		taken = nil
		for _, q := range r.ladder.taken {
			if slices.ContainsFunc(only, func(a pageAnswer) bool {
				return r.ladder.got[a.key].asked == q
			}) {
				taken = append(taken, q)
			} else {
				kept = append(kept, q)
			}
		}
	}
	r.ladder.taken = kept
	r.ladder.mu.Unlock()
	for _, t := range taken {
		if !acted && !r.ladder.asksAgain(t) { // a lost answer is asked for again
			_ = r.funnel.opts.Page.ReturnAnswer(context.WithoutCancel(ctx), t)
		}
	}
	return !acted
}

// hasMemo reports whether the author has kept a memo, in any round.
func (r *run) hasMemo() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.memos,
		func(m claims.Memo) bool { return !strings.HasPrefix(m.Key, "\x00") })
}

func (r *run) hasActed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acted
}

// asksAgain reports whether the question of a used answer is open once more.
func (l *ladder) asksAgain(t *PageQuestion) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.open {
		if q.asked.Binding == t.Binding {
			return true
		}
	}
	return false
}
