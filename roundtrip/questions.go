package roundtrip

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/attachment"
	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/protocol"
)

// askReturned turns the handler's questions into the result that the client gets:
// checked, gated and with sealed state.
func (p *exchange) askReturned(ctx context.Context, asks *protocol.InputRequiredResult) (protocol.Result, error) {
	d, err := p.readDraft(asks)
	if err != nil {
		return nil, p.reportBug(ctx, err)
	}
	if refused := p.repeatsRefusedQuestion(d); refused != nil {
		p.reportFlowEnd(ctx, EndRefused)
		return p.refuseFlow(protocol.CodeRefused, refused.Error()+adviceOn(refused))
	}
	p.run.checkUnread(d.questions)
	p.reportAnswers(ctx)
	if text := p.run.tooOftenInvalid(d.questions); text != "" {
		p.reportFlowEnd(ctx, EndInvalid)
		return p.refuseFlow(protocol.CodeFlowEnded, text)
	}
	requests, refused := asks.InputRequests, error(nil)
	if p.isLegacy() {
		var no *refusal
		if requests, no = p.checkLegacyClient(ctx, requests); no != nil {
			p.reportFlowEnd(ctx, EndFailed)
			return p.refuseFlow(no.code, no.text)
		}
	} else if requests, refused = p.checkClient(ctx, requests); refused != nil {
		return nil, refused
	}
	requests = p.run.explainUnfinished(p.run.explainRepeats(requests))
	if p.funnel.opts.Plain {
		if text, _ := d.plain.Text(); len(text) > p.funnel.opts.MaxStateBytes {
			return nil, p.reportBug(ctx, fmt.Errorf("plain state of %d bytes is over the limit of %d", len(text), p.funnel.opts.MaxStateBytes))
		}
		return p.buildInputRequired(ctx, asks, d, requests, d.plain)
	}
	if p.run.number > p.funnel.opts.MaxRounds {
		p.reportFlowEnd(ctx, EndRounds)
		if text := p.run.giveVisitUp(p.funnel.opts.MaxRounds); text != "" {
			return p.refuseFlow(protocol.CodeFlowEnded, text)
		}
		return p.refuseFlow(protocol.CodeFlowEnded, gaveUp(p.funnel.opts.MaxRounds, requestKeys(requests), p.run.answeredKeys(), p.run.lastFaultText(d.questions)))
	}
	if err := p.digestArguments(); err != nil {
		// Nothing can be bound to them. They came from the client.
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "%s", err)
	}
	next := p.nextClaims(d, time.Now())
	if p.clientLosesState(&next) {
		p.reportFlowEnd(ctx, EndStateLost)
		return p.refuseFlow(protocol.CodeFlowEnded,
			"the client keeps sending answers that cannot be used: it loses the requestState that belongs to them, or their shape is wrong; not asking again: use a client that returns requestState unchanged and answers in the shape of the question, and start the call again")
	}
	var state protocol.RequestState
	if p.isLegacy() {
		err = p.encodeLocalState(&next)
	} else {
		state, err = p.sealState(ctx, &next)
	}
	if err != nil {
		return nil, p.reportUnserved(ctx, err)
	}
	return p.buildInputRequired(ctx, asks, d, requests, state)
}

func (p *exchange) buildInputRequired(ctx context.Context, asks *protocol.InputRequiredResult, d *draft, requests protocol.InputRequests, state protocol.RequestState) (protocol.Result, error) {
	text, _ := state.Text()
	if !p.funnel.silent {
		left := -1
		if !p.funnel.opts.Plain {
			left = p.funnel.opts.MaxRounds - p.run.number
		}
		p.requested = InputRequested{p.where, requestKinds(requests), askedQuestions(d.questions), len(text), left}
		if !p.isLegacy() {
			p.observe(ctx, p.requested)
		}
	}
	return &protocol.InputRequiredResult{InputRequests: requests, RequestState: state, Meta: asks.Meta}, nil
}

func askedQuestions(questions []Question) []AskedQuestion {
	list := make([]AskedQuestion, len(questions))
	for i := range questions {
		q := &questions[i]
		kind := q.request.Kind()
		list[i] = AskedQuestion{q.key, kind, digestQuestion(kind, q.key, q.formDigest(), q.mark)}
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

// readDraft returns what the author said, for results that were built by
// InputRequired and for hand-built ones, and checks it.
func (p *questioner) readDraft(asks *protocol.InputRequiredResult) (*draft, error) {
	d, built := attachment.Of(asks).(*draft)
	if !built || !d.matchesResult(asks) {
		hand, err := p.readHandBuilt(asks)
		if err != nil {
			return nil, err
		}
		if d != nil {
			hand.restoreFrom(d)
		}
		d = hand
	}
	if err := p.checkDraft(d, asks); err != nil {
		return nil, err
	}
	return d, nil
}

// checkDraft refuses a draft that cannot be sent. asks is the result with its questions.
func (p *questioner) checkDraft(d *draft, asks *protocol.InputRequiredResult) error {
	if err := d.firstError(); err != nil {
		return err
	}
	_, plain := d.plain.Text()
	if plain && !p.funnel.opts.Plain {
		return fmt.Errorf("input required: plain state needs a funnel with the option Plain; use WithState")
	}
	if d.hasState && p.funnel.opts.Plain {
		return fmt.Errorf("input required: WithState needs sealing; a funnel with the option Plain takes PlainState")
	}
	if len(d.questions) == 0 && !d.hasState && !plain {
		return fmt.Errorf("input required: at least one question or WithState is needed")
	}
	if len(d.questions) > 0 {
		if err := asks.Validate(); err != nil {
			return err
		}
	}
	if err := p.checkEncodable(d); err != nil {
		return err
	}
	return p.checkURLs(d.questions)
}

// matchesResult reports whether questions and state are still those of the draft:
// an author may have changed the result after building it.
func (d *draft) matchesResult(asks *protocol.InputRequiredResult) bool {
	return d != nil && asks.RequestState == d.plain &&
		slices.EqualFunc(d.questions, asks.InputRequests, func(q Question, r protocol.KeyedRequest) bool {
			return q.key == r.Key && q.request == r.Request
		})
}

// restoreFrom takes over from the draft of a result that was changed afterwards what
// the result itself cannot say.
func (d *draft) restoreFrom(old *draft) {
	if d.err = old.err; !d.hasState {
		d.state, d.hasState = old.state, old.hasState
	}
	for i := range d.questions {
		for _, q := range old.questions {
			if q.key == d.questions[i].key && q.request == d.questions[i].request {
				d.questions[i] = q
			}
		}
	}
}

// checkEncodable tries to encode the questions that can fail there, so that the
// mistake is reported with its key. Forms of ours cannot. What an older
// revision cannot carry is no mistake, so the latest one is asked.
func (p *questioner) checkEncodable(d *draft) error {
	for _, q := range d.questions {
		if q.form != nil && !q.carryForm {
			continue
		}
		if _, err := protocol.AppendInputRequest(nil, protocol.Latest, q.request); err != nil {
			return fmt.Errorf("question %q: %w", q.key, err)
		}
	}
	return nil
}

// readHandBuilt reads a result that an author or a gateway filled in itself. Its
// state, if it has one, becomes the author's own.
func (p *questioner) readHandBuilt(asks *protocol.InputRequiredResult) (*draft, error) {
	if err := asks.Validate(); err != nil {
		return nil, err
	}
	d := &draft{}
	if text, present := asks.RequestState.Text(); present {
		if p.funnel.opts.Plain {
			d.plain = asks.RequestState
		} else {
			WithState(text).addTo(d)
		}
	}
	for _, r := range asks.InputRequests {
		q := Question{key: r.Key, request: r.Request}
		if request, ok := r.Request.(*protocol.ElicitForm); ok {
			// As a peer's: a gateway passes on what its upstream asks.
			f, err := form.ParsePeer(request.Schema)
			if err != nil {
				return nil, fmt.Errorf("question %q: %w", r.Key, err)
			}
			q.form, q.carryForm = f, true
		}
		d.questions = append(d.questions, q)
	}
	return d, nil
}

// repeatsRefusedQuestion returns the refusal of a question that the handler repeats unchanged,
// nil if it repeats none.
func (p *exchange) repeatsRefusedQuestion(d *draft) error {
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	p.run.fixVersionLocked() // also of a handler that asked and read nothing
	for _, q := range d.questions {
		a := p.run.findAnswerLocked(q.key)
		if a == nil || q.askAgain || (a.outcome != Declined && a.outcome != Cancelled) {
			continue
		}
		// Which form a cold refusal was shown is not known.
		if a.kind == q.request.Kind() && (a.unsolicited || a.digest == q.formDigest()) {
			if a.outcome == Declined {
				return &DeclinedError{q.key}
			}
			return &CancelledError{q.key}
		}
	}
	return nil
}

// formDigest identifies what a form question asks for. Other kinds have none: a
// URL often carries a nonce, and would never look the same twice.
func (q Question) formDigest() [32]byte {
	if q.form == nil {
		return [32]byte{}
	}
	return q.form.Digest()
}

// checkClient refuses questions that the client did not declare to be able to answer.
// All are looked at first, so that one error names everything that is missing.
func (p *questioner) checkClient(ctx context.Context, requests protocol.InputRequests) (protocol.InputRequests, error) {
	var missing protocol.ClientCapabilities
	for _, q := range requests {
		missing = missing.Union(p.call.Capabilities.Missing(q.Request))
	}
	if !missing.IsZero() {
		p.observe(ctx, CapabilityRefused{p.where, missing})
		return nil, protocol.MissingCapabilities(missing)
	}
	return p.withoutContext(requests), nil
}

// withoutContext drops includeContext from sampling questions to clients that
// do not declare it: servers should not send it then, and it is only a wish
// (client/sampling). The author's values stay untouched.
func (p *questioner) withoutContext(requests protocol.InputRequests) protocol.InputRequests {
	if s := p.call.Capabilities.Sampling; s != nil && s.Context {
		return requests
	}
	copied := false
	for i, q := range requests {
		m, ok := q.Request.(*protocol.CreateMessage)
		if !ok || m.IncludeContext == "" || m.IncludeContext == "none" {
			continue
		}
		if !copied {
			requests, copied = slices.Clone(requests), true
		}
		c := *m
		c.IncludeContext = ""
		requests[i].Request = &c
	}
	return requests
}

// sealState writes the state of the next leg.
func (p *exchange) sealState(ctx context.Context, c *claims) (protocol.RequestState, error) {
	plaintext := c.appendTo(make([]byte, 0, c.encodedSize()))
	text, err := p.sealText(ctx, plaintext)
	if err == nil && len(text) > p.funnel.opts.MaxStateBytes && p.funnel.opts.StateStore != nil {
		text, err = p.storeState(ctx, plaintext, c)
	}
	if err != nil {
		return protocol.RequestState{}, err
	}
	if len(text) > p.funnel.opts.MaxStateBytes {
		return protocol.RequestState{}, c.tooLargeError(len(text), p.funnel.opts.MaxStateBytes)
	}
	return protocol.StateText(text), nil
}

func (c *claims) tooLargeError(size, limit int) error {
	return fmt.Errorf("state of %d bytes is over the limit of %d; largest parts: %s", size, limit, c.largestParts())
}

// sealText has the sealer seal.
func (p *exchange) sealText(ctx context.Context, plaintext []byte) (string, error) {
	text, err := p.funnel.opts.Sealer.Seal(ctx, plaintext)
	switch {
	case err != nil:
		return "", fmt.Errorf("sealing the state: %w", err)
	case text == "" || !utf8.ValidString(text):
		return "", fmt.Errorf("sealing the state: the sealer returned nothing, or bytes that are not UTF-8")
	}
	return text, nil
}

// clientLosesState decides whether the flow is to end because answers never reach us.
func (p *exchange) clientLosesState(c *claims) bool {
	switch {
	case !p.allAnswersDropped():
		if p.prior != nil && p.prior.roundsIgnored > 0 {
			p.funnel.stateless.forgetCaller(p.callerKey())
		}
		return false
	case p.prior == nil:
		c.roundsIgnored = p.funnel.stateless.countRetry(p.callerKey(), time.Now())
	default:
		c.roundsIgnored = p.prior.roundsIgnored + 1
	}
	return c.roundsIgnored >= maxRoundsIgnored
}

// digestArguments makes sure that the digest of the call's arguments is known.
func (p *exchange) digestArguments() (err error) {
	if !p.digested {
		p.arguments, err = digestArguments(p.call.Arguments)
		p.digested = err == nil
	}
	return err
}

// nextClaims returns the claims of the leg that the questions lead to.
func (p *exchange) nextClaims(d *draft, now time.Time) claims {
	c := claims{
		principal: p.call.Principal, method: p.call.Method, target: p.call.Target,
		audience: p.funnel.opts.Audience, arguments: p.arguments, round: p.run.number, issued: now,
	}
	p.run.mu.Lock()
	c.flow, c.version, c.memos, c.state = p.run.flowIDLocked(), p.run.version, p.run.memos, p.run.state
	p.run.mu.Unlock()
	if p.prior != nil {
		c.deadline = p.prior.deadline
	} else {
		c.deadline = now.Add(p.funnel.opts.FlowTTL)
	}
	p.nameFlow(c.flow)
	c.expires = now.Add(d.expiresIn(p.funnel.opts.RoundTTL))
	if c.expires.After(c.deadline) {
		c.expires = c.deadline
	}
	if d.hasState {
		c.state = d.state
	}
	if len(d.questions) > 0 {
		c.asked = make([]pendingQuestion, 0, len(d.questions))
	}
	for _, q := range d.questions {
		a := pendingQuestion{key: q.key, kind: q.request.Kind(), digest: q.formDigest(), mark: q.mark}
		_, a.mark.invalid = p.run.faultOf(q.key)
		if q.carryForm && !q.mark.set { // in flow style the handler brings it every time
			a.schema = q.form.Schema()
		}
		c.asked = append(c.asked, a)
	}
	c.answers = p.carriedAnswers(d)
	return c
}

// carriedAnswers returns the answers that later rounds may read: all that were given,
// less those whose question is asked again, those that nobody could make sense
// of, and cold ones that nobody read.
func (p *exchange) carriedAnswers(d *draft) []*answer {
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	if len(p.run.answers) == 0 {
		return nil
	}
	out := make([]*answer, 0, len(p.run.answers))
	for _, a := range p.run.answers {
		again := slices.ContainsFunc(d.questions, func(q Question) bool { return q.key == a.key })
		usable := a.outcome > Missing && a.outcome < Invalid
		if a.unsolicited {
			usable = usable && (a.checked || a.outcome != Accepted)
		}
		if usable && !again {
			c := *a
			c.mark.invalid = 0
			out = append(out, &c)
		}
	}
	return out
}

// largestParts names the parts of a state that take the most room.
func (c *claims) largestParts() string {
	type part struct {
		name string
		size int
	}
	parts := []part{{"WithState", len(c.state)}}
	for _, m := range c.memos {
		parts = append(parts, part{fmt.Sprintf("memo %q", m.key), len(m.value)})
	}
	for _, a := range c.answers {
		parts = append(parts, part{fmt.Sprintf("answer %q", a.key), len(a.content) + len(a.schema)})
	}
	for _, q := range c.asked {
		parts = append(parts, part{fmt.Sprintf("question %q", q.key), len(q.schema)})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return b.size - a.size })
	names := []string{}
	for _, part := range parts[:min(3, len(parts))] {
		names = append(names, fmt.Sprintf("%s %d bytes", part.name, part.size))
	}
	return strings.Join(names, ", ")
}

func requestKeys(requests protocol.InputRequests) string {
	names := make([]string, len(requests))
	for i, q := range requests {
		names[i] = q.Key
	}
	return strings.Join(names, ", ")
}
