package roundtrip

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

func (q Question) makeMark() (claims.Mark, error) {
	var few [256]byte // most wordings fit
	words := few[:0]
	switch request := q.request.(type) {
	case *protocol.ElicitForm: // the form has its own digest
		words = append(words, request.Message...)
	case *protocol.ElicitURL: // without the id, which only older revisions have
		words = append(words, request.Message...)
		words = append(words, 0)
		words = append(words, request.URL...)
	case *protocol.CreateMessage:
		params, err := protocol.AppendInputRequest(nil, protocol.Latest, request)
		if err != nil {
			return claims.Mark{}, err
		}
		words = params
	}
	sum := sha256.Sum256(words)
	return claims.Mark{Set: true, PromptDigest: [16]byte(sum[:16])}, nil
}

var errMissing = errors.New("missing")

// recordedAnswer returns the accepted content or refusal recorded for a question, or errMissing. A
// question that differs in each round, and a visit to another URL, end the run with a journalError.
func (r *run) recordedAnswer(q *Question) (json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.findAnswerLocked(q.key)
	if a == nil {
		return nil, errMissing
	}
	if a.kind == "" {
		a.interpretAs(q.request.Kind())
	}
	q.mark.Again = a.mark.Again
	if a.outcome != Accepted {
		a.checked = true // the handler gets it
	}
	switch {
	case a.outcome == Invalid, a.unsolicited && !q.allowsWay(words.WayForm):
		return nil, errMissing
	case a.outcome != Accepted && q.askAgain:
		return nil, errMissing
	case a.asRefusal() != nil: // whatever the wording: a refused question is not asked again
		return nil, a.asRefusal()
	case a.matchesLocked(q):
		return a.acceptContentLocked(q)
	case r.askedByOther(a):
		r.noteRewordedLocked(q.key)
		return nil, errMissing
	case q.fixed && a.mark.Set:
		return nil, r.endChangedLocked(q.key)
	case a.kind == protocol.KindElicitURL && q.request.Kind() == protocol.KindElicitURL:
		// A changing URL usually holds a nonce, and would change again.
		return nil, r.endChangedLocked(q.key)
	case a.mark.Again:
		return nil, r.failLocked(&journalError{q.key,
			"the question is another one in every round; what it is made of must not change, or " +
				"be kept with Memo"})
	}
	// The question has changed: this answer was to another one.
	q.mark.Again = true
	return nil, errMissing
}

// otherApp returns another application version that took part in the flow, or "".
func (r *run) otherApp() string {
	switch {
	case r.prior == nil:
		return ""
	case r.prior.App != r.funnel.opts.AppVersion:
		return r.prior.App
	}
	return r.prior.OtherApp
}

// versionsText explains a flow that ends because two versions ask differently.
func (r *run) versionsText() string {
	return fmt.Sprintf("two versions of this server run side by side, %q and %q, and ask "+
		"differently; no answer to one counts for the other; start the call again when one of "+
		"them is gone", r.funnel.opts.AppVersion, r.otherApp())
}

func (r *run) noteRewordedLocked(key string) {
	r.reworded = append(r.reworded, event.QuestionReworded{Where: r.where, Key: key,
		Asked: r.otherApp(), Version: r.funnel.opts.AppVersion})
}

// askedByOther reports whether another application version may have asked the question of a.
func (r *run) askedByOther(a *answer) bool {
	if r.prior != nil && a.round == r.number {
		return r.prior.App != r.funnel.opts.AppVersion
	}
	return r.otherApp() != ""
}

// matchesLocked reports whether a answers q in its current kind, form and prompt.
func (a *answer) matchesLocked(q *Question) bool {
	switch {
	case a.kind != q.request.Kind():
		return false
	case a.unsolicited: // the question asked is unknown
		return true
	case a.digest != q.formDigest():
		return false
	}
	return !a.mark.Set || q.reworded || a.mark.PromptDigest == q.mark.PromptDigest
}

// acceptContentLocked returns the content of an accepted answer, validated once.
func (a *answer) acceptContentLocked(q *Question) (json.RawMessage, error) {
	content := a.content
	if q.form != nil {
		accepted, err := a.acceptFormLocked(q.form)
		if err != nil {
			return nil, errMissing
		}
		content = accepted
	}
	a.checked = true
	return content, nil
}

// acceptFormLocked replaces the content by the form's accepted content, once. An unsolicited answer
// stays unchanged and is checked each time: an earlier check may have used an older form.
func (a *answer) acceptFormLocked(f *form.Form) (json.RawMessage, error) {
	if a.checked && !a.unsolicited {
		return a.content, nil
	}
	content, err := f.Accept(a.content)
	if err != nil {
		a.invalidateLocked(f, err)
		return nil, err
	}
	if !a.unsolicited {
		a.content = content
	}
	return content, nil
}

// recordAnswerLocked records an answer given in place, replacing an earlier one to the same key.
func (r *run) recordAnswerLocked(a *answer) {
	for i := range r.answers {
		if r.answers[i].key == a.key {
			r.answers[i] = a
			return
		}
	}
	r.answers = append(r.answers, a)
}

// FlowVersion declares the version of the handler's flow. A round whose state was sealed under
// another version starts over: answers and memos are dropped, [DroppedAnswers] lists the answers
// with the reason flow_version, and everything is asked anew. Round number and [IdempotencyKey]
// stay, so that repeated restarts end and effects are not duplicated.
//
// Call it before asking or reading; a later call is an error. Default: "". Limit: 64 bytes.
func FlowVersion(ctx context.Context, version string) error {
	r := runFrom(ctx)
	if r == nil {
		return noRound(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.activeFlowLocked()
	switch {
	case err != nil:
		return err
	case r.versioned:
		return r.failLocked(errors.New("FlowVersion: must be called once, before anything is " +
			"asked, read or kept"))
	case len(version) > maxFlowVersion:
		return r.failLocked(fmt.Errorf("FlowVersion: %d bytes, at most %d are allowed",
			len(version), maxFlowVersion))
	}
	r.versioned = true
	r.adoptVersionLocked(version)
	return nil
}

const maxFlowVersion = 64 // a name, because every state carries it

// fixVersionLocked makes the version empty unless set. Later answers and memos belong to it.
func (r *run) fixVersionLocked() {
	if !r.versioned {
		r.versioned = true
		r.adoptVersionLocked("")
	}
}

// adoptVersionLocked sets the version of the run and drops what another version left.
func (r *run) adoptVersionLocked(version string) {
	if r.prior != nil && r.version != version {
		for _, a := range r.answers {
			r.dropped = append(r.dropped, event.Dropped{Key: a.key, Reason: words.DropVersion})
			if r.otherApp() != "" {
				r.noteRewordedLocked(a.key)
			}
		}
		r.answers, r.memos, r.state = nil, nil, nil
	}
	r.version = version
}
