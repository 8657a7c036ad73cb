package roundtrip

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// This file asks a running handler's questions on the page. The flow has a memo for each open one.

const pagePrefix = "\x00page\x00" // of memo keys; authors' keys have no such prefix

func pageKey(key string) string { return pagePrefix + key }

// showsNoneKey is the key of the memo that the flow's client has not shown a form.
const showsNoneKey = "\x00shows none"

// A pageMark is the memo of a question on the page.
type pageMark struct {
	ID     string    `json:"id"`
	Digest string    `json:"digest"` // of the question as the handler asks it
	Way    event.Way `json:"way"`
	Lacks  bool      `json:"lacks,omitempty"` // the client declares neither forms nor links
}

func (r *run) dropMemoLocked(key string) {
	r.memos = slices.DeleteFunc(slices.Clone(r.memos),
		func(m claims.Memo) bool { return m.Key == key })
}

// openOnPage opens q on the page, or finds it if the flow has opened it.
func (r *run) openOnPage(ctx context.Context, q *Question, way event.Way) (*openQuestion, error) {
	digest, err := q.digest()
	if err != nil {
		return nil, err
	}
	hidden := r.isHidden(q)
	var mark pageMark
	r.mu.Lock()
	found := json.Unmarshal(r.findMemoLocked(pageKey(q.key)), &mark) == nil
	r.mu.Unlock()
	var reply *PageReply
	if found && mark.Digest == digest {
		reply, err = r.funnel.opts.Page.FindQuestion(ctx, r.call.Principal, mark.ID)
	}
	if reply == nil && err == nil {
		shown := r.explainRepeats(protocol.InputRequests{{Key: q.key, Request: q.request}})
		asks := &PageQuestion{
			Principal: r.call.Principal, Method: r.call.Method, Target: r.call.Target,
			Arguments: r.call.Arguments, Form: q.form.Schema(),
			Message: shown[0].Request.(*protocol.ElicitForm).Message}
		if q.expiresIn > 0 {
			asks.Until = time.Now().Add(q.expiresIn)
		}
		reply, err = r.funnel.opts.Page.OpenQuestion(ctx, asks)
	}
	if err != nil {
		return nil, err
	}
	lacks := !r.showsByItself(protocol.KindElicitForm) && !r.showsByItself(protocol.KindElicitURL)
	memo, err := json.Marshal(pageMark{reply.ID, digest, way, lacks})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed { // the handler left this goroutine
		return nil, errReturned()
	}
	r.dropMemoLocked(pageKey(q.key))
	r.addMemoLocked(pageKey(q.key), memo)
	if hidden && r.findMemoLocked(showsNoneKey) == nil {
		r.addMemoLocked(showsNoneKey, json.RawMessage("true"))
	}
	open := &openQuestion{*q, way, lacks, reply}
	r.ladder.noteOpen(q.key, open)
	return open, nil
}

// showsByItself reports whether the client declares that it shows questions of a kind.
func (p *questioner) showsByItself(kind protocol.InputKind) bool {
	return p.askingMode().checkAskable(p, sampleQuestion(kind)) == nil
}

// digest returns the digest of everything that an answer applies to.
func (q *Question) digest() (string, error) {
	mark, err := q.makeMark()
	if q.reworded {
		mark.PromptDigest = [16]byte{}
	}
	digest := claims.DigestQuestion(q.request.Kind(), q.key, q.formDigest(), mark)
	return hex.EncodeToString(digest[:]), err
}

// digestCall returns the callerKey of a call whose arguments are known.
func (e *exchange) digestCall() (digest [32]byte, err error) {
	if !e.digested { // Do has tried
		return digest, protocol.Errorf(protocol.CodeInvalidParams, "the arguments cannot be read")
	}
	return e.callerKey(), nil
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
func (r *run) recordOtherWay(ctx context.Context, q *Question, result json.RawMessage,
	report event.Answered) error {
	outcome, content, err := interpret(protocol.KindElicitForm, result)
	if err != nil {
		return fmt.Errorf("question %q: the answer of the page: %w", q.key, err)
	}
	a := &answer{key: q.key, kind: protocol.KindElicitForm, outcome: outcome,
		digest: q.formDigest(), mark: q.mark, content: content, round: r.number, announced: true}
	if q.carryForm && !q.mark.Set {
		a.schema = q.form.Schema()
	}
	reported := *a
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return errReturned()
	}
	r.recordAnswerLocked(a)
	link := q.key + linkSuffix
	r.answers = slices.DeleteFunc(r.answers, func(a *answer) bool { return a.key == link })
	r.dropMemoLocked(pageKey(q.key))
	report.Where = r.where
	r.mu.Unlock()
	r.reportAnswered(ctx, &reported, &result, report)
	return nil
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
		pushed := isPush(q.key)
		if pushed && way == words.WayText {
			if waiting.PageOf(&r.ctx).Returns {
				r.freeKey(q.key)
				r.ladder.words.Store(true)
				return true, waiting.ErrReturn
			}
			if r.hasPushed() {
				return true, r.endWithText(protocol.CodeCannotAsk, words.EndUnseen, "the server asks "+
					"again after an answer, while it works, and this client does not show the "+
					"question; find out what it has done, and call from a client that shows it")
			}
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
		open := r.ladder.findOpen(q.key)
		if open == nil { // the answer fits the form, but not its reader
			return true, r.endWithText(protocol.CodeFlowEnded, words.EndInvalid, "the answer that "+
				"was given on the page cannot be used; start the call again")
		}
		if pushed { // goroutines that ask at once share a round
			_ = waiting.Sleep(&r.ctx, settleTime)
		}
		return true, r.leaveOpen(open)
	}
}

// settleTime is how long a pushed question waits for others before it suspends the handler.
const settleTime = 15 * time.Millisecond

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

// askPage asks a question on the page. A nil error means that the question is open, or answered
// while the handler waited.
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
	own, done := r.outliveSuspension(ctx)
	open, err := r.openOnPage(own, q, way)
	done()
	switch {
	case err != nil && ctx.Err() != nil && r.ctx.Err() == nil:
		return r.freeWithdrawn(ctx, q, q.key+linkSuffix, err)
	case err != nil:
		return r.endWithPageError(q, err)
	}
	waits := isFlowStyle(q) && !r.askingMode().returnsQuestions()
	if open.reply.Answer != nil && waits {
		return r.takePageAnswer(ctx, open)
	}
	if way != words.WayLink {
		return nil
	}
	link := open.link()
	switch {
	case r.checkURLs([]Question{link}) != nil: // refused by the author's hook
		r.ladder.noteHidden(link.key, nil)
		return errNotShown
	case waits:
		return r.awaitOnPage(ctx, open, &link)
	}
	r.mu.Lock()
	agreed := r.findAnswerLocked(link.key)
	r.mu.Unlock()
	if agreed != nil && agreed.outcome == Accepted {
		r.noteUnfinished([]string{link.key})
	}
	return nil
}

// awaitOnPage shows the link of a question to the client of a session, and waits for the answer.
func (r asker) awaitOnPage(ctx context.Context, open *openQuestion, link *Question) error {
	q := &open.question
	if err := r.takeKey(link); err != nil {
		return err
	}
	look := func(ctx context.Context) (bool, error) {
		reply, err := r.funnel.opts.Page.FindQuestion(ctx, r.call.Principal, open.reply.ID)
		switch {
		case err != nil:
			return false, nil // unknown while the store is down
		case reply == nil:
			return false, r.askingMode().endVisit(r, link.key, errVisitTimeout)
		}
		open.reply = reply
		return reply.Answer != nil, nil
	}
	if err := r.askInPlace(ctx, &inquiry{question: *link}); err != nil {
		refused := findRefusal(err)
		if err == errNotShown {
			r.ladder.noteHidden(link.key, nil)
		}
		if refused == nil {
			return r.freeWithdrawn(ctx, q, link.key, err)
		}
		if _, declined := errors.AsType[*DeclinedError](refused); !declined {
			if done, _ := look(ctx); done { // the dialog was closed after the answer
				return r.takePageAnswer(ctx, open)
			}
		}
		r.ladder.noteOpen(q.key, nil)
		return r.recordOtherWay(ctx, q, refusalResult(refused),
			event.Answered{Way: words.WayLink, Asked: q.request})
	}
	own, release := r.outliveSuspension(ctx) // by a question in words
	defer release()
	done, err := look(own)
	if !done {
		done, err = r.holdVisit(own, link.key, look)
	}
	switch {
	case !done && r.ctx.Parent().Err() != nil:
		return r.cutOff(link.key)
	case err != nil:
		return r.freeWithdrawn(ctx, q, link.key, err)
	case !done:
		return nil
	}
	r.notifyFinished(ctx, link.key)
	return r.takePageAnswer(ctx, open)
}

// hasPushed reports whether the handler has the answer to a pushed question, and may have acted.
func (r *run) hasPushed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.answers, func(a *answer) bool {
		return a.mayHaveEffect() && isPush(a.key) &&
			slices.Contains(r.flow.used, a.key)
	})
}

// takePageAnswer records an answer of the page while the handler runs.
func (r asker) takePageAnswer(ctx context.Context, open *openQuestion) error {
	taken, err := r.funnel.opts.Page.TakeAnswer(ctx, r.call.Principal, open.reply.ID)
	if err != nil {
		return r.endWithPageError(&open.question, err)
	}
	r.ladder.noteOpen(open.question.key, nil)
	if !taken {
		return r.endWithText(protocol.CodeFlowEnded, words.EndFailed, errUsed.Error())
	}
	err = r.recordOtherWay(ctx, &open.question, open.reply.Answer, open.answeredEvent())
	if err != nil {
		return r.endWithError(err)
	}
	r.mu.Lock()
	r.inPlace = true
	r.mu.Unlock()
	return nil
}

// refusalResult returns the refusal of a link as the answer to its question.
func refusalResult(refused error) json.RawMessage {
	return json.RawMessage(`{"action":"` + string(actionOf(refused)) + `"}`)
}

// freeWithdrawn frees the keys of a question that the handler withdrew, and returns err.
func (r asker) freeWithdrawn(ctx context.Context, q *Question, link string, err error) error {
	if ctx.Err() != nil && r.ctx.Err() == nil {
		r.ladder.noteOpen(q.key, nil)
		r.freeKey(q.key)
		r.freeKey(link)
	}
	return err
}

// isFlowStyle reports whether q is asked in flow style: only such questions have marks.
func isFlowStyle(q *Question) bool { return q.mark.Set }

// link returns the question that shows the link.
func (open *openQuestion) link() Question {
	q := &open.question
	link := ElicitURL(q.key+linkSuffix, open.reply.Message, open.reply.Link)
	link.expiresIn = q.expiresIn
	link.mark, _ = link.makeMark() // fails only for forms
	return link
}

// shown returns the question as the page shows it.
func (open *openQuestion) shown() protocol.InputRequest {
	return &protocol.ElicitForm{Message: open.reply.Message, Schema: open.reply.Form}
}

// answeredEvent returns the event of the answer.
func (open *openQuestion) answeredEvent() event.Answered {
	return event.Answered{Way: open.way, Asked: open.shown(), Given: open.reply.Given}
}

// endWithPageError ends the run because the page failed to take the question.
func (r asker) endWithPageError(q *Question, err error) error {
	wire, ok := protocol.AsError(err)
	if !ok {
		return r.endWithError(err)
	}
	r.endWith(&ending{err: err, refusal: &refusal{wire: wire, always: true}, how: words.EndFailed,
		repeatable: isFlowStyle(q)}) // else code behind an answer may have run
	return err
}

// leaveOpen suspends the handler, or the task, while a question is open on the page.
func (r asker) leaveOpen(open *openQuestion) error {
	switch {
	case r.taskRun() == nil:
	case open.way == words.WayTask, r.wasAgreedTo(open.question.key + linkSuffix):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tellTaskLocked(open)
		if _, err := r.activeFlowLocked(); err != nil {
			return err
		}
		return r.waitLocked(open.reply.ID)
	}
	return r.suspendHandler(&open.question)
}

// tellTaskLocked shows the link in the task's status message.
func (r *run) tellTaskLocked(open *openQuestion) {
	if open.way == words.WayTask {
		r.taskRun().Message = "Answer at " + open.reply.Link + " : " + open.reply.Message
	}
}

// openReturned opens questions that a guard-style handler returned on the page.
func (r asker) openReturned(result protocol.Result) {
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
			r.ladder.noteOpen(q.key, nil)
			r.restoreUnseen(q.key)
		}
		if err != nil {
			return // the run has ended
		}
	}
}

func isLink(key string) bool { return strings.HasSuffix(key, linkSuffix) }
func isPush(key string) bool { return strings.HasPrefix(key, pushPrefix) }
