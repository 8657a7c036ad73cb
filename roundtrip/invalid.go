package roundtrip

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

func (a *answer) invalidateLocked(f *form.Form, err error) {
	fault := f.Explain(err)
	a.fault = &fault
}

func (r *run) failDecode(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.findAnswerLocked(key); a != nil && a.fault == nil {
		a.fault = &form.Fault{Rule: form.RuleOther, Words: "The answer could not be used."}
	}
}

// reportFindings reports unsolicited and invalid answers that the handler has read.
func (r *run) reportFindings(ctx context.Context, p *questioner) {
	if p.funnel.silent {
		return
	}
	for _, e := range r.takeFindings(p) {
		p.observe(ctx, e)
	}
}

// takeFindings returns the events due, each once.
func (r *run) takeFindings(p *questioner) []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var events []event.Event
	for ; int(r.reported) < len(r.reworded); r.reported++ {
		events = append(events, r.reworded[r.reported])
	}
	for _, a := range r.answers {
		if a.round != r.number {
			continue
		}
		if a.unsolicited && a.isDecided() && !a.announced {
			a.announced = true
			events = append(events, event.Answered{
				Where: p.where, Key: a.key, Kind: a.kind, Decision: a.outcome.toDecision(),
				Principal: p.call.Principal, Unsolicited: true,
			})
		}
		if a.fault != nil && !a.faultReported {
			a.faultReported = true
			events = append(events,
				event.AnswerInvalid{Where: p.where, Key: a.key, Field: a.fault.Field,
					Rule: event.Rule(a.fault.Rule)})
		}
	}
	return events
}

// isFresh reports that no question can have been answered yet, as in the first round of nearly
// every modern flow. In a session answers come while the handler runs.
func (r *run) isFresh() bool {
	return r.askingMode().returnsQuestions() && r.number == 1 && len(r.responses) == 0
}

// checkUnread validates unread answers to questions asked again, to explain what is wrong.
func (r responder) checkUnread(questions []Question) {
	if r.isFresh() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range questions {
		q := &questions[i]
		a := r.findUnreadLocked(q)
		if a == nil || q.form == nil {
			continue
		}
		if _, err := q.form.Accept(a.content); err != nil {
			a.invalidateLocked(q.form, err)
		}
	}
}

// findUnreadLocked returns the accepted answer to q that the handler has not read, or nil.
func (r *run) findUnreadLocked(q *Question) *answer {
	a := r.findAnswerLocked(q.key)
	if a == nil || a.unsolicited || a.checked || a.fault != nil || a.outcome != Accepted ||
		a.kind != q.request.Kind() || a.digest != q.formDigest() {
		return nil
	}
	return a
}

// markUnread marks a guard-style handler's questions if this round answered all and the handler
// read none. It returns a key that was marked before, whose handler must read another key or type
// and would ask until the rounds are used up. Visits and questions with [AskAgain] are left out.
func (r responder) markUnread(d *draft) (key string) {
	if r.isFresh() {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range d.questions {
		q := &d.questions[i]
		a := r.findUnreadLocked(q)
		if a == nil || q.mark.Set || q.askAgain || a.round != r.number ||
			a.kind == protocol.KindElicitURL {
			return ""
		}
	}
	for i := range d.questions {
		q := &d.questions[i]
		for _, before := range r.asked() {
			if before.Key == q.key && before.Mark.Unread {
				return q.key
			}
		}
		q.mark.Unread = true
	}
	return ""
}

// faultOf returns the fault of the last answer to key, or nil, and how many in a row were invalid.
func (r *run) faultOf(key string) (*form.Fault, int) {
	if r.isFresh() {
		return nil, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.faultOfLocked(key)
}

func (r *run) faultOfLocked(key string) (*form.Fault, int) {
	if a := r.findAnswerLocked(key); a != nil {
		if a.fault != nil {
			return a.fault, a.mark.Invalid + 1
		}
		return nil, 0
	}
	before := 0
	// No usable answer came.
	asked := r.asked()
	if i := slices.IndexFunc(asked, func(q claims.Question) bool { return q.Key == key }); i >= 0 {
		before = asked[i].Mark.Invalid
	}
	for _, d := range r.dropped {
		if d.Key == key && d.Reason == words.DropMalformed {
			return &form.Fault{Rule: form.RuleShape, Words: "The answer could not be read."}, before
		}
	}
	return nil, before
}

// tooOftenInvalid returns the text that ends a flow after 3 invalid answers in a row, or "". By
// then the user has read the reason twice, or the client cannot give a valid answer.
func (r *run) tooOftenInvalid(q *Question) string {
	fault, n := r.faultOf(q.key)
	if fault == nil || n < claims.MaxInvalidAnswers {
		return ""
	}
	return fmt.Sprintf("not asking again: %d answers to %q were not valid, the last because of "+
		"the rule %q: %s Start the call again when a valid answer can be given.", n, q.key,
		fault.Rule, fault.Words)
}

// lastFaultTextLocked returns a clause about the fault of the last answer, to append to a text.
func (r *run) lastFaultTextLocked(q *Question) string {
	fault, _ := r.faultOfLocked(q.key)
	if fault == nil {
		return ""
	}
	return fmt.Sprintf("; the last answer to %q broke the rule %q: %s", q.key, fault.Rule,
		strings.TrimSuffix(fault.Words, "."))
}

// lastFaultText is lastFaultTextLocked for the first question with a fault.
func (r *run) lastFaultText(questions []Question) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range questions {
		if text := r.lastFaultTextLocked(&questions[i]); text != "" {
			return text
		}
	}
	return ""
}

// explainRepeats puts the fault in front of copies of forms asked again; digests leave it out.
func (r *run) explainRepeats(requests protocol.InputRequests) protocol.InputRequests {
	return changeRequests(requests, func(q protocol.KeyedRequest) protocol.InputRequest {
		asks, ok := q.Request.(*protocol.ElicitForm)
		if !ok {
			return q.Request
		}
		fault, _ := r.faultOf(q.Key)
		if fault == nil || strings.Contains(asks.Message, strings.TrimSuffix(fault.Words, ".")) {
			return q.Request // the author's text says it already
		}
		c := *asks
		c.Message = strings.TrimSpace(fault.Words + " " + asks.Message)
		return &c
	})
}
