package roundtrip

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// askReturned checks and gates the outcome's questions, and returns them with the next round's
// state for the client or pushReturned. Questions that must not be repeated end the flow first.
func (r responder) askReturned(ctx context.Context,
	asks *protocol.InputRequiredResult) (protocol.Result, error) {
	d, err := r.readDraft(asks)
	if err != nil {
		return nil, r.reportBug(ctx, err)
	}
	return r.askDraft(ctx, d, asks)
}

// askDraft is askReturned for a checked draft of asks.
func (r responder) askDraft(ctx context.Context, d *draft,
	asks *protocol.InputRequiredResult) (protocol.Result, error) {
	if end := r.checkRepeats(ctx, d); end != nil {
		return r.endInsteadOfAsking(ctx, end)
	}
	if key := r.markUnread(d); key != "" {
		return nil, r.reportBug(ctx, fmt.Errorf("question %q was answered twice and is asked "+
			"again, and nothing has read the answers: read them under this key and with the type "+
			"that was asked with", key))
	}
	var inWords []openQuestion
	if r.ladder != nil ||
		slices.ContainsFunc(d.questions, func(q Question) bool { return q.ways != nil }) {
		var end *ending
		if d, asks, inWords, end = r.settleRound(d, asks); end != nil {
			return r.endInsteadOfAsking(ctx, end)
		}
	}
	if r.taskRun() != nil && (r.showsVisitsOnly(d) || r.flow != nil && r.flow.suspendsTask()) {
		waits := *d
		waits.questions = nil // the user knows the link
		return r.suspendTask(ctx, &waits)
	}
	requests, end, err := r.askingMode().checkClient(ctx, &r.questioner, d.requestsOf(asks))
	if err != nil {
		return nil, err
	}
	if end != nil {
		return r.endInsteadOfAsking(ctx, end)
	}
	requests = r.explainUnfinished(r.explainRepeats(requests))
	end = r.checkRounds(d, requests)
	if end != nil && !(r.showsVisitsOnly(d) && len(d.onPage) > 0) {
		return r.endInsteadOfAsking(ctx, end)
	}
	if err := r.ensureArgumentsDigest(); err != nil {
		// The client sent malformed arguments: no state can be bound to them.
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "%s", err)
	}
	var next claims.Claims
	r.fillNextClaims(&next, d, time.Now())
	r.nameSpan(ctx, &next)
	if end != nil { // the user may still answer, and the next call finds it
		next.VisitRounds++ // the next call shows the link again
		r.keepLater(ctx, &next)
		return r.endInsteadOfAsking(ctx, end)
	}
	if len(inWords) > 0 && len(requests) == 0 { // else after the client's answers
		return r.endWithLinks(ctx, d, &next, inWords)
	}
	if r.countUnusableRound(&next) {
		return r.endInsteadOfAsking(ctx, endStateLost())
	}
	state, err := r.keepClaims(ctx, &next)
	if err != nil {
		return nil, r.reportUnserved(ctx, err)
	}
	if r.ladder != nil && r.askingMode().returnsQuestions() { // the client has the state
		r.ladder.taken, r.ladder.keep = nil, nil
	}
	return r.buildInputRequired(ctx, asks, d, requests, state)
}

func (r responder) endInsteadOfAsking(ctx context.Context, end *ending) (protocol.Result, error) {
	r.reportFlowEnd(ctx, end.how)
	return r.refuseFlow(end.refusal.code, end.refusal.text)
}

// checkRepeats ends a flow that would repeat refused or too often invalid questions.
func (r responder) checkRepeats(ctx context.Context, d *draft) *ending {
	if refused := r.repeatsRefusedQuestion(d); refused != nil {
		return endRefused(refused, refused.Error())
	}
	r.checkUnread(d.questions)
	r.reportFindings(ctx, &r.questioner)
	for i := range d.questions {
		if text := r.tooOftenInvalid(&d.questions[i]); text != "" {
			return &ending{how: words.EndInvalid,
				refusal: &refusal{code: protocol.CodeFlowEnded, text: text}}
		}
	}
	return nil
}

// checkRounds ends a flow that has used up its rounds.
func (r responder) checkRounds(d *draft, requests protocol.InputRequests) *ending {
	if r.showsVisitsOnly(d) {
		if r.visitTimeLeft() > 0 {
			return nil
		}
		return &ending{how: words.EndFailed,
			refusal: refuseVisit(r.flow.unfinished[0].key, errVisitTimeout)}
	}
	limit := r.maxRounds()
	if len(r.reworded) > 0 { // random routing returns to the same version, but later
		limit *= versionSlack
	}
	if r.countedRounds() <= limit {
		return nil
	}
	last := cmp.Or(requestKeys(requests), joinKeys(d.onPage, func(q Question) string { return q.key }))
	text := gaveUp(limit, last, r.answeredKeys(), r.lastFaultText(d.questions))
	if len(r.reworded) > 0 {
		text = fmt.Sprintf("gave up after %d rounds of questions: %s", limit, r.versionsText())
	}
	return &ending{how: words.EndRounds,
		refusal: &refusal{code: protocol.CodeFlowEnded, text: text}}
}

// versionSlack multiplies Limits.Rounds if requests reach two versions at random. 1 flow in 65,536
// still runs out of rounds.
const versionSlack = 2

// countedRounds returns the number of the round, not counting repeated visits.
func (r *run) countedRounds() int {
	if r.prior == nil {
		return r.number
	}
	return r.number - r.prior.VisitRounds
}

// endStateLost ends a flow whose client never returns its state.
func endStateLost() *ending {
	return &ending{how: words.EndStateLost, refusal: &refusal{code: protocol.CodeFlowEnded,
		text: "the client keeps sending answers that cannot be used: it loses the requestState " +
			"that belongs to them, or their shape is wrong; not asking again: use a client " +
			"that returns requestState unchanged and answers in the shape of the question, " +
			"and start the call again"}}
}

// keepClaims keeps the next round's claims; as a method of askingMode it would allocate.
func (r responder) keepClaims(ctx context.Context, next *claims.Claims) (protocol.RequestState,
	error) {
	if task := r.taskRun(); task != nil {
		task.Next = next.AppendTo(make([]byte, 0, next.EncodedSize()))
		return protocol.StateText("kept"), nil // a task may wait without questions
	}
	if !r.askingMode().returnsQuestions() {
		return protocol.RequestState{}, r.encodeLocalState(next)
	}
	r.reportAnonymous(ctx, next)
	return r.sealState(ctx, next)
}

func (r responder) buildInputRequired(ctx context.Context,
	asks *protocol.InputRequiredResult, d *draft,
	requests protocol.InputRequests, state protocol.RequestState) (protocol.Result, error) {
	text, _ := state.Text()
	r.noteForm(false)
	if !r.funnel.silent {
		left := max(0, r.maxRounds()-r.countedRounds())
		requested := event.InputRequested{Where: r.where, Kinds: requestKinds(requests),
			Questions: askedQuestions(d.questions, requests...), StateBytes: len(text),
			RoundsLeft: left,
			Principal:  &r.call.Principal, Client: r.call.Client}
		r.askingMode().reportRequested(ctx, &r.questioner, requested)
	}
	return &protocol.InputRequiredResult{InputRequests: requests, RequestState: state,
		Meta: asks.Meta}, nil
}

// askedQuestions returns questions as in events; sent has requests that differ.
func askedQuestions(questions []Question, sent ...protocol.KeyedRequest) []event.AskedQuestion {
	list := make([]event.AskedQuestion, len(questions))
	for i := range questions {
		q := &questions[i]
		kind, request := q.request.Kind(), q.request
		if i < len(sent) && sent[i].Key == q.key {
			request = sent[i].Request
		}
		list[i] = event.AskedQuestion{Key: q.key, Kind: kind, Request: request,
			Digest: claims.DigestQuestion(kind, q.key, q.formDigest(), q.mark)}
	}
	return list
}

func requestKinds(requests protocol.InputRequests) []protocol.InputKind {
	kinds := make([]protocol.InputKind, len(requests))
	for i, q := range requests {
		kinds[i] = q.Request.Kind()
	}
	return kinds
}

func requestKeys(requests protocol.InputRequests) string {
	return joinKeys(requests, func(q protocol.KeyedRequest) string { return q.Key })
}

// gaveUp returns the text for a flow that exceeds its rounds.
func gaveUp(limit int, last, before, fault string) string {
	text := fmt.Sprintf("gave up after %d rounds of questions; the last asked for: %s", limit, last)
	if before != "" {
		text += "; answered before: " + before
	}
	return text + fault + ". Start the call again, and answer what it asked for last."
}

// fillNextClaims fills c in place, to keep stacks of waiting calls small.
func (r responder) fillNextClaims(c *claims.Claims, d *draft, now time.Time) {
	c.Method, c.Target, c.Audience = r.call.Method, r.call.Target, r.funnel.opts.Audience
	c.Arguments, c.Round, c.Issued = r.arguments, r.number, now
	r.mu.Lock()
	c.Flow, c.Version, c.Memos, c.State = r.flowIDLocked(), r.version, r.memos, r.state
	r.mu.Unlock()
	c.Principal = r.bindPrincipal(c.Flow)
	if r.taskRun() != nil {
		c.Principal = r.prior.Principal // a run of a task has no credential
	}
	if r.prior != nil {
		c.Deadline, c.VisitRounds = r.prior.Deadline, r.prior.VisitRounds
	} else {
		c.Deadline = now.Add(r.funnel.opts.flowTTL())
	}
	c.App, c.OtherApp = r.funnel.opts.AppVersion, r.otherApp()
	if r.showsVisitsOnly(d) {
		c.VisitRounds, c.VisitSince = c.VisitRounds+1, r.visitSince()
	}
	if r.held == nil { // otherwise it is set, and a renewal may read it
		r.nameFlow(c.Flow)
	}
	setExpiry(c, now.Add(d.expiresIn(r.funnel.opts.RoundTTL)))
	if d.hasState {
		c.State = d.state
	}
	if n := len(d.questions) + len(d.onPage); n > 0 {
		c.Asked = make([]claims.Question, 0, n)
		r.appendAsked(c, d.questions)
		r.appendAsked(c, d.onPage)
	}
	c.Answers = r.carriedAnswers(d)
}

// setExpiry sets when a state expires, at the latest with its flow.
func setExpiry(c *claims.Claims, at time.Time) {
	if c.Expires = at; at.After(c.Deadline) {
		c.Expires = c.Deadline
	}
}

func (r responder) appendAsked(c *claims.Claims, questions []Question) {
	for _, q := range questions {
		a := claims.Question{Key: q.key, Kind: q.request.Kind(), Digest: q.formDigest(),
			Mark: q.mark}
		_, a.Mark.Invalid = r.faultOf(q.key)
		if q.carryForm && !q.mark.Set { // flow style supplies the schema in every round
			a.Schema = q.form.Schema()
		}
		c.Asked = append(c.Asked, a)
	}
}

// carriedAnswers returns the usable answers that are not asked for again, for later rounds.
func (r responder) carriedAnswers(d *draft) []claims.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) == 0 || d.forgets {
		return nil
	}
	out := make([]claims.Answer, 0, len(r.answers))
	for _, a := range r.answers {
		asked := func(q Question) bool { return q.key == a.key }
		again := slices.ContainsFunc(d.questions, asked) || slices.ContainsFunc(d.onPage, asked)
		usable := a.isDecided()
		if a.unsolicited {
			usable = usable && (a.checked || a.outcome != Accepted)
		}
		if usable && !again {
			out = append(out, a.toClaims())
		}
	}
	return out
}

// toClaims returns the answer as states carry it, counting invalid answers only to asked questions.
func (a *answer) toClaims() claims.Answer {
	mark := a.mark
	mark.Invalid = 0
	return claims.Answer{
		Key: a.key, Kind: a.kind, Outcome: claims.Outcome(a.outcome), Digest: a.digest,
		Schema: a.schema, Content: a.content, Round: a.round, Unsolicited: a.unsolicited,
		Checked: a.checked, Mark: mark,
	}
}

// sealState returns the sealed claims, or a sealed handle if they are too long for the client.
func (e *exchange) sealState(ctx context.Context, c *claims.Claims) (protocol.RequestState, error) {
	plaintext := c.AppendTo(make([]byte, 0, c.EncodedSize()))
	text, err := e.sealText(ctx, plaintext)
	if err == nil && len(text) > e.funnel.opts.Limits.StateBytes &&
		e.funnel.opts.StateStore != nil {
		text, err = e.storeState(ctx, plaintext, c)
	}
	if err != nil {
		return protocol.RequestState{}, err
	}
	if len(text) > e.funnel.opts.Limits.StateBytes {
		return protocol.RequestState{}, tooLargeError(c, len(text), e.funnel.opts.Limits.StateBytes)
	}
	return protocol.StateText(text), nil
}

func (e *exchange) sealText(ctx context.Context, plaintext []byte) (string, error) {
	text, err := e.funnel.opts.Sealer.Seal(ctx, plaintext)
	switch {
	case err != nil:
		return "", fmt.Errorf("sealing the state: %w", err)
	case text == "" || !utf8.ValidString(text):
		return "", fmt.Errorf("sealing the state: the sealer returned text that is empty or " +
			"not UTF-8")
	}
	return text, nil
}

// sealBytes is roughly the size that a [keys.Keyring] adds: nonce, tag and key id (maybe longer).
const sealBytes = 48

// encodeLocalState keeps a legacy call's claims, limited as for a client or store.
func (r responder) encodeLocalState(c *claims.Claims) error {
	plaintext, opts := c.AppendTo(make([]byte, 0, c.EncodedSize())), &r.funnel.opts
	size := base64.RawURLEncoding.EncodedLen(len(plaintext) + sealBytes)
	switch {
	case size <= opts.Limits.StateBytes:
	case opts.StateStore == nil:
		return tooLargeError(c, size, opts.Limits.StateBytes)
	case len(plaintext) > maxStoredBytes:
		return tooLargeError(c, len(plaintext), maxStoredBytes)
	}
	r.wait.localState = plaintext
	return nil
}

func tooLargeError(c *claims.Claims, size, limit int) error {
	return fmt.Errorf("state of %d bytes is over the limit of %d; largest parts: %s", size, limit,
		largestParts(c))
}

// largestParts names a state's three largest parts.
func largestParts(c *claims.Claims) string {
	type part struct {
		name string
		size int
	}
	parts := []part{{"WithState", len(c.State)}}
	for _, m := range c.Memos {
		parts = append(parts, part{fmt.Sprintf("memo %q", m.Key), len(m.Value)})
	}
	for _, a := range c.Answers {
		parts = append(parts, part{fmt.Sprintf("answer %q", a.Key), len(a.Content) + len(a.Schema)})
	}
	for _, q := range c.Asked {
		parts = append(parts, part{fmt.Sprintf("question %q", q.Key), len(q.Schema)})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return b.size - a.size })
	names := []string{}
	for _, part := range parts[:min(3, len(parts))] {
		names = append(names, fmt.Sprintf("%s %d bytes", part.name, part.size))
	}
	return strings.Join(names, ", ")
}
