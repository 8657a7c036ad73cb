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

// ask turns the handler's questions into the result that the client gets:
// checked, gated and with sealed state.
func (p *pass) ask(ctx context.Context, asks *protocol.InputRequiredResult) (protocol.Result, error) {
	d, err := p.drafted(asks)
	if err != nil {
		return nil, p.bug(ctx, err)
	}
	if refused := p.nagged(d); refused != nil {
		p.ended(ctx, EndRefused)
		return p.refuse(protocol.CodeRefused, refused.Error()+adviceOn(refused))
	}
	p.round.checkUnread(d.questions)
	p.reportAnswers(ctx)
	if text := p.round.tooOftenInvalid(d.questions); text != "" {
		p.ended(ctx, EndInvalid)
		return p.refuse(protocol.CodeFlowEnded, text)
	}
	requests, refused := asks.InputRequests, error(nil)
	if p.legacy() {
		var no *refusal
		if requests, no = p.gateLive(ctx, requests); no != nil {
			p.ended(ctx, EndFailed)
			return p.refuse(no.code, no.text)
		}
	} else if requests, refused = p.gate(ctx, requests); refused != nil {
		return nil, refused
	}
	requests = p.round.explainUnfinished(p.round.explainRepeats(requests))
	if p.funnel.opts.Plain {
		if text, _ := d.plain.Text(); len(text) > p.funnel.opts.MaxStateBytes {
			return nil, p.bug(ctx, fmt.Errorf("plain state of %d bytes is over the limit of %d", len(text), p.funnel.opts.MaxStateBytes))
		}
		return p.out(ctx, asks, d, requests, d.plain)
	}
	if p.round.number > p.funnel.opts.MaxRounds {
		p.ended(ctx, EndRounds)
		if text := p.round.giveVisitUp(p.funnel.opts.MaxRounds); text != "" {
			return p.refuse(protocol.CodeFlowEnded, text)
		}
		return p.refuse(protocol.CodeFlowEnded, gaveUp(p.funnel.opts.MaxRounds, keys(requests), p.round.before(), p.round.lastFault(d.questions)))
	}
	if err := p.digestArguments(); err != nil {
		// Nothing can be bound to them. They came from the client.
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "%s", err)
	}
	next := p.next(d, time.Now())
	if p.loses(&next) {
		p.ended(ctx, EndStateLost)
		return p.refuse(protocol.CodeFlowEnded,
			"the client keeps sending answers that cannot be used: it loses the requestState that belongs to them, or their shape is wrong; not asking again: use a client that returns requestState unchanged and answers in the shape of the question, and start the call again")
	}
	var state protocol.RequestState
	if p.legacy() {
		err = p.leave(&next)
	} else {
		state, err = p.seal(ctx, &next)
	}
	if err != nil {
		return nil, p.reportUnserved(ctx, err)
	}
	return p.out(ctx, asks, d, requests, state)
}

func (p *pass) out(ctx context.Context, asks *protocol.InputRequiredResult, d *draft, requests protocol.InputRequests, state protocol.RequestState) (protocol.Result, error) {
	text, _ := state.Text()
	if !p.funnel.silent {
		left := -1
		if !p.funnel.opts.Plain {
			left = p.funnel.opts.MaxRounds - p.round.number
		}
		p.requested = InputRequested{p.where, kinds(requests), askedQuestions(d.questions), len(text), left}
		if !p.legacy() {
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
		list[i] = AskedQuestion{q.key, kind, digestQuestion(kind, q.key, q.digest(), q.mark)}
	}
	return list
}

func kinds(requests protocol.InputRequests) []protocol.InputKind {
	kinds := make([]protocol.InputKind, len(requests))
	for i, q := range requests {
		kinds[i] = q.Request.Kind()
	}
	return kinds
}

// drafted returns what the author said, for results that were built by
// InputRequired and for hand-built ones, and checks it.
func (p *asker) drafted(asks *protocol.InputRequiredResult) (*draft, error) {
	d, built := attachment.Of(asks).(*draft)
	if !built || !d.describes(asks) {
		hand, err := p.handBuilt(asks)
		if err != nil {
			return nil, err
		}
		if d != nil {
			hand.keep(d)
		}
		d = hand
	}
	if err := p.checkDraft(d, asks); err != nil {
		return nil, err
	}
	return d, nil
}

// checkDraft refuses a draft that cannot be sent. asks is the result with its questions.
func (p *asker) checkDraft(d *draft, asks *protocol.InputRequiredResult) error {
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
	if err := p.encodable(d); err != nil {
		return err
	}
	return p.checkURLs(d.questions)
}

// describes reports whether questions and state are still those of the draft:
// an author may have changed the result after building it.
func (d *draft) describes(asks *protocol.InputRequiredResult) bool {
	return d != nil && asks.RequestState == d.plain &&
		slices.EqualFunc(d.questions, asks.InputRequests, func(q Question, r protocol.KeyedRequest) bool {
			return q.key == r.Key && q.request == r.Request
		})
}

// keep takes over from the draft of a result that was changed afterwards what
// the result itself cannot say.
func (d *draft) keep(old *draft) {
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

// encodable tries to encode the questions that can fail there, so that the
// mistake is reported with its key. Forms of ours cannot. What an older
// revision cannot carry is no mistake, so the latest one is asked.
func (p *asker) encodable(d *draft) error {
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

// handBuilt reads a result that an author or a gateway filled in itself. Its
// state, if it has one, becomes the author's own.
func (p *asker) handBuilt(asks *protocol.InputRequiredResult) (*draft, error) {
	if err := asks.Validate(); err != nil {
		return nil, err
	}
	d := &draft{}
	if text, present := asks.RequestState.Text(); present {
		if p.funnel.opts.Plain {
			d.plain = asks.RequestState
		} else {
			WithState(text).apply(d)
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

// nagged returns the refusal of a question that the handler repeats unchanged,
// nil if it repeats none.
func (p *pass) nagged(d *draft) error {
	p.round.mu.Lock()
	defer p.round.mu.Unlock()
	p.round.settleVersion() // also of a handler that asked and read nothing
	for _, q := range d.questions {
		a := p.round.find(q.key)
		if a == nil || q.askAgain || (a.outcome != Declined && a.outcome != Cancelled) {
			continue
		}
		// Which form a cold refusal was shown is not known.
		if a.kind == q.request.Kind() && (a.unsolicited || a.digest == q.digest()) {
			if a.outcome == Declined {
				return &DeclinedError{q.key}
			}
			return &CancelledError{q.key}
		}
	}
	return nil
}

// digest identifies what a form question asks for. Other kinds have none: a
// URL often carries a nonce, and would never look the same twice.
func (q Question) digest() [32]byte {
	if q.form == nil {
		return [32]byte{}
	}
	return q.form.Digest()
}

// gate refuses questions that the client did not declare to be able to answer.
// All are looked at first, so that one error names everything that is missing.
func (p *asker) gate(ctx context.Context, requests protocol.InputRequests) (protocol.InputRequests, error) {
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
func (p *asker) withoutContext(requests protocol.InputRequests) protocol.InputRequests {
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

// seal writes the state of the next leg.
func (p *pass) seal(ctx context.Context, c *claims) (protocol.RequestState, error) {
	plaintext := c.append(make([]byte, 0, c.size()))
	text, err := p.sealText(ctx, plaintext)
	if err == nil && len(text) > p.funnel.opts.MaxStateBytes && p.funnel.opts.StateStore != nil {
		text, err = p.keep(ctx, plaintext, c)
	}
	if err != nil {
		return protocol.RequestState{}, err
	}
	if len(text) > p.funnel.opts.MaxStateBytes {
		return protocol.RequestState{}, c.tooLarge(len(text), p.funnel.opts.MaxStateBytes)
	}
	return protocol.StateText(text), nil
}

func (c *claims) tooLarge(size, limit int) error {
	return fmt.Errorf("state of %d bytes is over the limit of %d; largest parts: %s", size, limit, c.largest())
}

// sealText has the sealer seal.
func (p *pass) sealText(ctx context.Context, plaintext []byte) (string, error) {
	text, err := p.funnel.opts.Sealer.Seal(ctx, plaintext)
	switch {
	case err != nil:
		return "", fmt.Errorf("sealing the state: %w", err)
	case text == "" || !utf8.ValidString(text):
		return "", fmt.Errorf("sealing the state: the sealer returned nothing, or bytes that are not UTF-8")
	}
	return text, nil
}

// loses decides whether the flow is to end because answers never reach us.
func (p *pass) loses(c *claims) bool {
	switch {
	case !p.unheard():
		if p.prior != nil && p.prior.unheard > 0 {
			p.funnel.losers.forget(p.loserKey())
		}
		return false
	case p.prior == nil:
		c.unheard = p.funnel.losers.count(p.loserKey())
	default:
		c.unheard = p.prior.unheard + 1
	}
	return c.unheard >= maxUnheard
}

// digestArguments makes sure that the digest of the call's arguments is known.
func (p *pass) digestArguments() (err error) {
	if !p.digested {
		p.arguments, err = digestArguments(p.call.Arguments)
		p.digested = err == nil
	}
	return err
}

// next returns the claims of the leg that the questions lead to.
func (p *pass) next(d *draft, now time.Time) claims {
	c := claims{
		principal: p.call.Principal, method: p.call.Method, target: p.call.Target,
		audience: p.funnel.opts.Audience, arguments: p.arguments, round: p.round.number, issued: now,
	}
	p.round.mu.Lock()
	c.flow, c.version, c.memos, c.state = p.round.identity(), p.round.version, p.round.memos, p.round.state
	p.round.mu.Unlock()
	if p.prior != nil {
		c.deadline = p.prior.deadline
	} else {
		c.deadline = now.Add(p.funnel.opts.FlowTTL)
	}
	p.name(c.flow)
	c.expires = now.Add(d.expiresIn(p.funnel.opts.RoundTTL))
	if c.expires.After(c.deadline) {
		c.expires = c.deadline
	}
	if d.hasState {
		c.state = d.state
	}
	if len(d.questions) > 0 {
		c.asked = make([]asked, 0, len(d.questions))
	}
	for _, q := range d.questions {
		a := asked{key: q.key, kind: q.request.Kind(), digest: q.digest(), mark: q.mark}
		_, a.mark.invalid = p.round.faultOf(q.key)
		if q.carryForm && !q.mark.set { // in flow style the handler brings it every time
			a.schema = q.form.Schema()
		}
		c.asked = append(c.asked, a)
	}
	c.answers = p.carried(d)
	return c
}

// carried returns the answers that later rounds may read: all that were given,
// less those whose question is asked again, those that nobody could make sense
// of, and cold ones that nobody read.
func (p *pass) carried(d *draft) []*answer {
	p.round.mu.Lock()
	defer p.round.mu.Unlock()
	if len(p.round.answers) == 0 {
		return nil
	}
	out := make([]*answer, 0, len(p.round.answers))
	for _, a := range p.round.answers {
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

// largest names the parts of a state that take the most room.
func (c *claims) largest() string {
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

func keys(requests protocol.InputRequests) string {
	names := make([]string, len(requests))
	for i, q := range requests {
		names[i] = q.Key
	}
	return strings.Join(names, ", ")
}
