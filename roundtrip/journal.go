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

// makeMark returns the mark of a question that is about to be asked.
func (q Question) makeMark() (claims.Mark, error) {
	var few [256]byte // most wordings fit
	words := few[:0]
	switch request := q.request.(type) {
	case *protocol.ElicitForm: // the form has a digest of its own
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

// errMissing means that there is no answer to use.
var errMissing = errors.New("missing")

// recordedAnswer returns what is recorded for a question: accepted content, a refusal, or
// errMissing. A question that differs in each round, and a visit to another URL, end the run with
// a journalError.
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
	case a.outcome == Invalid:
		return nil, errMissing
	case a.outcome != Accepted && q.askAgain:
		return nil, errMissing
	case a.asRefusal() != nil: // no matter the words: one who has refused is not asked again
		return nil, a.asRefusal()
	case a.matchesLocked(q):
		return a.acceptContentLocked(q)
	case r.askedByOther(a):
		r.noteRewordedLocked(q.key)
		return nil, errMissing
	case q.fixed && a.mark.Set:
		return nil, r.endChangedLocked(q.key)
	case a.kind == protocol.KindElicitURL && q.request.Kind() == protocol.KindElicitURL:
		// A URL that changes holds a nonce, mostly, and would change again.
		return nil, r.endChangedLocked(q.key)
	case a.mark.Again:
		return nil, r.failLocked(&journalError{q.key,
			"the question is another one in every round; what it is made of must not change, or " +
				"be kept with Memo"})
	}
	// The handler has changed its mind: this answer was to something else.
	q.mark.Again = true
	return nil, errMissing
}

// otherApp returns another version of the application that took part in the flow, empty for none.
func (r *run) otherApp() string {
	switch {
	case r.prior == nil:
		return ""
	case r.prior.App != r.funnel.opts.AppVersion:
		return r.prior.App
	}
	return r.prior.OtherApp
}

// versionsText tells a person why a flow ends in which two versions ask differently.
func (r *run) versionsText() string {
	return fmt.Sprintf("two versions of this server run side by side, %q and %q, and ask "+
		"differently; no answer to one counts for the other; start the call again when one of "+
		"them is gone", r.funnel.opts.AppVersion, r.otherApp())
}

// noteRewordedLocked notes for the observer that an answer was given to another version.
func (r *run) noteRewordedLocked(key string) {
	r.reworded = append(r.reworded, event.QuestionReworded{Where: r.where, Key: key,
		Asked: r.otherApp(), Version: r.funnel.opts.AppVersion})
}

// askedByOther reports whether another version of the application may have asked what a answers.
// Which of them asked is known of the answers that came with this request.
func (r *run) askedByOther(a *answer) bool {
	if r.prior != nil && a.round == r.number {
		return r.prior.App != r.funnel.opts.AppVersion
	}
	return r.otherApp() != ""
}

// matchesLocked reports whether a answers q with its current kind, form and prompt.
func (a *answer) matchesLocked(q *Question) bool {
	switch {
	case a.kind != q.request.Kind():
		return false
	case a.unsolicited: // what was asked is not known
		return true
	case a.digest != q.formDigest():
		return false
	}
	return !a.mark.Set || q.reworded || a.mark.PromptDigest == q.mark.PromptDigest
}

// acceptContentLocked returns the content of an accepted answer and checks it against the
// form, unless that has been done.
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

// acceptFormLocked returns the content as the form accepts it. What came is replaced by it, and is
// accepted once. An unsolicited answer stays as it came and is checked each time: it may have been
// checked against an older form.
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

// recordAnswerLocked records the answer to a question that was asked in place. It replaces an
// earlier answer to the same key.
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
// another version starts over: answers and memos are forgotten, [DroppedAnswers] lists the answers
// with the reason flow_version, and everything is asked anew. Round number and [IdempotencyKey]
// stay, so that a flow which starts over for ever still ends, and an effect is not repeated under
// another name.
//
// Call it first, before questions are asked, or answers or [State] read; a later call is an error.
// Without it the version is empty. A version is at most 64 bytes.
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

// maxFlowVersion keeps a version a name: it rides in every state.
const maxFlowVersion = 64

// fixVersionLocked makes the empty version that of the handler, unless the handler has set
// another. Everything that is read or asked from now on belongs to one version.
func (r *run) fixVersionLocked() {
	if !r.versioned {
		r.versioned = true
		r.adoptVersionLocked("")
	}
}

// adoptVersionLocked sets the version of the run. What a run of another version left is dropped.
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
