package roundtrip

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/rondo-mcp/rondo/protocol"
)

// run is one run of a handler: what was answered so far, the author's state
// and which leg this is. It travels in the handler's context, so that helpers
// work under any host's handler signature.
type run struct {
	number   int
	exchange *exchange
	ctx      handlerContext // of the handler

	mu      sync.Mutex // guards what follows: handlers may read concurrently
	answers []*answer
	asked   []pendingQuestion // in the leg before
	dropped []Dropped
	state   json.RawMessage // the author's, nil when absent
	plain   protocol.RequestState
	flow    *flow // nil in guard style
	closed  bool  // the handler has returned

	memos      []memo
	version    string   // of the flow
	versioned  bool     // and that of the handler, too
	id         [16]byte // of the flow, once identified
	identified bool
}

type runKey struct{}

// withoutRun hides the round of a request that ctx is served within.
func withoutRun(ctx context.Context) context.Context {
	return context.WithValue(ctx, runKey{}, (*run)(nil))
}

func runFrom(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// answeredKeysLocked lists the keys of all answers.
func (r *run) answeredKeysLocked() string {
	names := make([]string, len(r.answers))
	for i, a := range r.answers {
		names[i] = a.key
	}
	return strings.Join(names, ", ")
}

// answeredKeys lists them for a flow that is given up, in flow style only: guard style
// knows its own.
func (r *run) answeredKeys() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flow == nil {
		return ""
	}
	return r.answeredKeysLocked()
}

// findAnswerLocked returns the answer recorded under key, nil when there is none.
func (r *run) findAnswerLocked(key string) *answer {
	for _, a := range r.answers {
		if a.key == key {
			return a
		}
	}
	return nil
}

// unreadRefusals returns the refusals that the handler has not looked at.
func (r *run) unreadRefusals() (unread []*answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.answers {
		if !a.checked && (a.outcome == Declined || a.outcome == Cancelled) {
			unread = append(unread, a)
		}
	}
	return unread
}

// RequestID implements [requestid.Named].
func (r *run) RequestID() string { return r.exchange.where.Request }

// Number returns which leg of a flow the handler is serving: 1 for the
// original request, 2 for its first retry, and so on. It is 0 outside a round.
func Number(ctx context.Context) int {
	if r := runFrom(ctx); r != nil {
		return r.number
	}
	return 0
}

// A Dropped answer came with a request and was not used.
type Dropped struct {
	Key    string
	Reason DropReason
}

// A DropReason says why an answer was dropped.
type DropReason string

// The reasons.
const (
	// DropUnsolicited: the answer is to a question that this flow did not ask,
	// or the client lost the state that proves that it did.
	DropUnsolicited DropReason = "unsolicited"
	// DropMalformed: the answer has not the shape that its question requires.
	DropMalformed DropReason = "malformed"
	// DropExpired: the state was authentic but too old, and the flow restarted.
	DropExpired DropReason = "expired"
	// DropVersion: the answer was given to another version of the flow; see
	// [FlowVersion].
	DropVersion DropReason = "flow_version"
)

// DroppedAnswers lists the answers of this leg that were not used, in the
// order in which they came.
func DroppedAnswers(ctx context.Context) []Dropped {
	if r := runFrom(ctx); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return append([]Dropped(nil), r.dropped...)
	}
	return nil
}
