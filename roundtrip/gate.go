package roundtrip

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// readDraft returns the draft of [InputRequired], or reads one from a hand-built result.
func (p *questioner) readDraft(asks *protocol.InputRequiredResult) (*draft, error) {
	d, built := rpc.Attached(asks).(*draft)
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

func (p *questioner) checkDraft(d *draft, asks *protocol.InputRequiredResult) error {
	if err := d.firstError(); err != nil {
		return err
	}
	if len(d.questions) == 0 && !d.hasState {
		return fmt.Errorf("input required: at least one question or WithState is needed")
	}
	if len(d.questions) > 0 {
		if err := asks.Validate(); err != nil {
			return err
		}
	}
	// Encode here, to report a failure with its key; an older revision may lack a feature.
	for _, q := range d.questions {
		if err := q.checkLength(); err != nil {
			return err
		}
		if q.form != nil && !q.carryForm {
			continue
		}
		if _, err := protocol.AppendInputRequest(nil, protocol.Latest, q.request); err != nil {
			return fmt.Errorf("question %q: %w", q.key, err)
		}
	}
	return p.checkURLs(d.questions)
}

// matchesResult reports whether the author has not changed the result after building it.
func (d *draft) matchesResult(asks *protocol.InputRequiredResult) bool {
	return d != nil && asks.RequestState == protocol.RequestState{} &&
		slices.EqualFunc(d.questions, asks.InputRequests,
			func(q Question, r protocol.KeyedRequest) bool {
				return q.key == r.Key && q.request == r.Request
			})
}

// restoreFrom copies the properties that a result cannot express from a changed result's draft.
func (d *draft) restoreFrom(old *draft) {
	d.forgets = old.forgets
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

// readHandBuilt reads a result without a draft. Its state, if any, becomes the author's own.
func (p *questioner) readHandBuilt(asks *protocol.InputRequiredResult) (*draft, error) {
	if err := asks.Validate(); err != nil {
		return nil, err
	}
	d := &draft{}
	if text, present := asks.RequestState.Text(); present {
		WithState(text).addTo(d)
	}
	for _, r := range asks.InputRequests {
		q := Question{key: r.Key, request: r.Request}
		if request, ok := r.Request.(*protocol.ElicitForm); ok {
			f, err := form.ParsePeer(request.Schema) // gateways pass on peers' forms
			if err != nil {
				return nil, fmt.Errorf("question %q: %w", r.Key, err)
			}
			q.setPeerForm(request, f)
		}
		d.questions = append(d.questions, q)
	}
	return d, nil
}

// requestsOf returns the result's questions, with peers' forms in their normal form.
func (d *draft) requestsOf(asks *protocol.InputRequiredResult) protocol.InputRequests {
	i := -1
	return changeRequests(asks.InputRequests, func(protocol.KeyedRequest) protocol.InputRequest {
		i++
		return d.questions[i].request
	})
}

// repeatsRefusedQuestion returns the refusal of a question that is asked again unchanged, or nil.
func (r responder) repeatsRefusedQuestion(d *draft) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fixVersionLocked() // even if the handler read no answer
	for _, q := range d.questions {
		a := r.findAnswerLocked(q.key)
		if a == nil || q.askAgain || a.asRefusal() == nil {
			continue
		}
		// The form shown for an unsolicited refusal is unknown.
		if a.kind == q.request.Kind() && (a.unsolicited || a.digest == q.formDigest()) {
			return a.asRefusal()
		}
	}
	return nil
}

// checkURLs returns an [*urlrule.Refusal] for a bad URL (client/elicitation, "Safe URL Handling").
func (p *questioner) checkURLs(questions []Question) error {
	allow := urlrule.Hook(p.funnel.opts.AllowURL)
	for _, q := range questions {
		if visit, ok := q.request.(*protocol.ElicitURL); ok && visit != nil {
			if refusal := allow.Refuse(q.key, visit.URL); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// checkClient refuses questions for undeclared capabilities. One error names all that are missing.
func (p *questioner) checkClient(ctx context.Context,
	requests protocol.InputRequests) (protocol.InputRequests, error) {
	if missing := p.findMissing(ctx, requests); !missing.IsZero() {
		return nil, protocol.MissingCapabilities(missing)
	}
	return p.withoutContext(requests), nil
}

func (p *questioner) findMissing(ctx context.Context,
	requests protocol.InputRequests) (missing protocol.ClientCapabilities) {
	for _, q := range requests {
		missing = missing.Union(p.call.Capabilities.Missing(q.Request))
	}
	if !missing.IsZero() {
		p.reportMissing(ctx, missing)
	}
	return missing
}

func (p *questioner) reportMissing(ctx context.Context, missing protocol.ClientCapabilities) {
	noForm := missing.Elicitation != nil && missing.Elicitation.Form
	p.observe(ctx, event.CapabilityRefused{Where: p.where, Missing: missing,
		AnonymousPage: noForm && p.funnel.pages != nil && p.call.Principal.Anonymous()})
}

// withoutContext drops includeContext from sampling questions to clients that do not declare it
// (client/sampling). That member is only a hint. The author's values are not changed.
func (p *questioner) withoutContext(requests protocol.InputRequests) protocol.InputRequests {
	if s := p.call.Capabilities.Sampling; s != nil && s.Context {
		return requests
	}
	return changeRequests(requests, func(q protocol.KeyedRequest) protocol.InputRequest {
		m, ok := q.Request.(*protocol.CreateMessage)
		if !ok || m.IncludeContext == "" || m.IncludeContext == "none" {
			return q.Request
		}
		c := *m
		c.IncludeContext = ""
		return &c
	})
}

// changeRequests applies the function change to each question, in a copy of the author's list.
func changeRequests(requests protocol.InputRequests,
	change func(protocol.KeyedRequest) protocol.InputRequest) protocol.InputRequests {
	copied := false
	for i, q := range requests {
		changed := change(q)
		if changed == q.Request {
			continue
		}
		if !copied {
			requests, copied = slices.Clone(requests), true
		}
		requests[i].Request = changed
	}
	return requests
}

// checkLegacyClient returns the questions as the legacy revision encodes them, or a refusal if one
// cannot be asked. It also records the ids of visits to URLs.
func (p *questioner) checkLegacyClient(ctx context.Context,
	requests protocol.InputRequests) (protocol.InputRequests, *refusal) {
	switch {
	case len(requests) > 0 && p.call.Push == nil:
		return nil, &refusal{code: protocol.CodeCannotAsk,
			text: "this connection cannot carry questions to the client: it has no session; " +
				"connect with one, or with a client of revision 2026-07-28"}
	case len(requests) > 0 && p.unreachableText() != "":
		return nil, &refusal{code: protocol.CodeCannotAsk, text: p.unreachableText()}
	}
	if missing := p.findMissing(ctx, requests); !missing.IsZero() {
		return nil, &refusal{code: protocol.CodeCannotAsk, text: "the client does not support: " +
			missing.String() + "; use a client that does"}
	}
	var refused *refusal
	requests = changeRequests(requests, func(q protocol.KeyedRequest) protocol.InputRequest {
		spelled, err := p.downgradeQuestion(q.Request)
		if err != nil && refused == nil {
			refused = &refusal{code: protocol.CodeCannotAsk,
				text: fmt.Sprintf("question %q: %v; use a client of a later revision", q.Key, err)}
		}
		if err != nil {
			return q.Request
		}
		return spelled
	})
	if refused != nil {
		return nil, refused
	}
	p.wait.visits.noteVisits(requests)
	return requests, nil
}

// downgradeQuestion returns the question in a form that the call's revision can carry, or an error.
func (p *questioner) downgradeQuestion(
	question protocol.InputRequest,
) (protocol.InputRequest, error) {
	v := p.call.Version
	switch q := question.(type) {
	case *protocol.ElicitForm:
		return downgradeForm(q, v)
	case *protocol.ElicitURL:
		if v < protocol.V20251125 {
			return nil, fmt.Errorf("revision %s cannot ask for a visit to a URL", v)
		}
		c := *q
		if c.ElicitationID == "" {
			c.ElicitationID = uuid.NewString()
		}
		return &c, nil
	case *protocol.CreateMessage:
		if err := checkSamplingIn(q, v); err != nil || v < protocol.V20251125 {
			return q, err // no capability covers includeContext here, so it is always allowed
		}
		return p.withoutContext(protocol.InputRequests{{Request: q}})[0].Request, nil
	}
	return question, nil
}

func downgradeForm(q *protocol.ElicitForm, v protocol.Version) (protocol.InputRequest, error) {
	if v < protocol.V20250618 {
		return nil, fmt.Errorf("revision %s has no elicitation", v)
	}
	if v >= protocol.V20251125 {
		return q, nil
	}
	schema, err := form.DowngradeTo20250618(q.Schema)
	if err != nil {
		return nil, err
	}
	c := *q
	c.Schema = schema
	return &c, nil
}

// checkSamplingIn reports why revision v cannot carry a sampling question: tools and messages of
// several blocks came with 2025-11-25, audio with 2025-03-26.
func checkSamplingIn(q *protocol.CreateMessage, v protocol.Version) error {
	if v >= protocol.V20251125 {
		return nil
	}
	if len(q.Tools) > 0 || q.ToolChoice != nil {
		return fmt.Errorf("revision %s has no tools in sampling", v)
	}
	for _, m := range q.Messages {
		if len(m.Content) != 1 {
			return fmt.Errorf("revision %s allows one block per message in sampling", v)
		}
		switch m.Content[0].(type) {
		case *protocol.TextContent, *protocol.ImageContent:
		case *protocol.AudioContent:
			if v < protocol.V20250326 {
				return fmt.Errorf("revision %s has no audio in sampling", v)
			}
		default:
			return fmt.Errorf("revision %s has no %T in sampling", v, m.Content[0])
		}
	}
	return nil
}
