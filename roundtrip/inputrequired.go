package roundtrip

import (
	"cmp"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
)

// An Item goes into [InputRequired]: a [Question] or [WithState].
type Item interface{ addTo(*draft) }

// draft is the author's part of a result beyond the wire, attached to it on its way to the funnel.
type draft struct {
	questions []Question
	onPage    []Question // asked, but not of the client
	state     []byte
	hasState  bool
	forgets   bool // drops the answers so far
	err       error
}

// InputRequired returns the outcome that asks the client (basic/patterns/mrtr). Return it from a
// handler of tools/call, prompts/get or resources/read; with the answers the handler runs again
// from its start. Questions are shown in order. It needs a question or [WithState]; mistakes, such
// as a repeated key, become an internal error for the client and are reported to the observer.
func InputRequired(items ...Item) *protocol.InputRequiredResult {
	both := &draftedResult{}
	d := &both.draft
	if d.questions = both.question[:0]; len(items) > 1 {
		d.questions = make([]Question, 0, len(items))
	}
	for _, item := range items {
		if item == nil {
			d.err = fmt.Errorf("input required: nil item")
			continue
		}
		item.addTo(d)
	}
	both.result.InputRequests = both.request[:0]
	return d.buildResult(&both.result)
}

// draftedResult allocates a draft, its result and room for one question at once.
type draftedResult struct {
	draft    draft
	result   protocol.InputRequiredResult
	question [1]Question
	request  [1]protocol.KeyedRequest
}

func (d *draft) buildResult(r *protocol.InputRequiredResult) *protocol.InputRequiredResult {
	rpc.Attach(r, d)
	d.fillResult(r)
	return r
}

func (d *draft) fillResult(r *protocol.InputRequiredResult) {
	r.RequestState = protocol.RequestState{}
	switch n := len(d.questions); {
	case n == 0:
		r.InputRequests = nil
	case n > cap(r.InputRequests):
		r.InputRequests = make(protocol.InputRequests, 0, n)
	}
	for _, q := range d.questions {
		r.InputRequests = append(r.InputRequests,
			protocol.KeyedRequest{Key: q.key, Request: q.request})
	}
}

type itemFunc func(*draft)

func (f itemFunc) addTo(d *draft) { f(d) }

// WithState keeps v as JSON for the next rounds, where [State] reads it, and replaces the previous
// state. It travels sealed through the client, which can replay an older state. Keep it small.
func WithState(v any) Item {
	return itemFunc(func(d *draft) {
		data, err := jsonx.Marshal(v)
		if err != nil {
			d.err = fmt.Errorf("state: %w", err)
			return
		}
		d.state, d.hasState = data, true
	})
}

// expiresIn returns the shortest limit of the questions, or else byDefault.
func (d *draft) expiresIn(byDefault time.Duration) time.Duration {
	shortest := time.Duration(0)
	for _, questions := range [...][]Question{d.questions, d.onPage} {
		for _, q := range questions {
			if q.expiresIn > 0 && (shortest == 0 || q.expiresIn < shortest) {
				shortest = q.expiresIn
			}
		}
	}
	return cmp.Or(shortest, byDefault)
}

func (d *draft) firstError() error {
	if d.err != nil {
		return d.err
	}
	for _, q := range d.questions {
		if q.err != nil {
			return q.err
		}
	}
	return nil
}
