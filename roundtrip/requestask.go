package roundtrip

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// newRequestAsk returns a question in wire form, allocated as by newFormAsk.
//
//go:noinline
func newRequestAsk(key string, request protocol.InputRequest, opts []QuestionOption) *inquiry {
	a := &inquiry{}
	a.question.readRequest(key, request)
	a.question = a.question.applyOptions(opts)
	return a
}

// askRequest returns the answer in wire form.
func (a *inquiry) askRequest(ctx context.Context) (json.RawMessage, error) {
	return a.readRequested(ctx, askQuestion(ctx, a))
}

//go:noinline
func (a *inquiry) readRequested(ctx context.Context, err error) (json.RawMessage, error) {
	switch refusal := findRefusal(err); {
	case refusal != nil: // unseen too: the SDK has no other word
		return jsonx.Marshal(protocol.ElicitResult{Action: actionOf(refusal)})
	case err != nil:
		return nil, err
	}
	content, err := runFrom(ctx).recordedAnswer(&a.question)
	if err != nil {
		return nil, err
	}
	switch a.question.request.Kind() {
	case protocol.KindElicitURL:
		return json.RawMessage(`{"action":"accept"}`), nil
	case protocol.KindElicitForm:
		return jsonx.Marshal(protocol.ElicitResult{Action: protocol.ActionAccept, Content: content})
	}
	return bytes.Clone(content), nil
}

func actionOf(refusal error) protocol.ElicitAction {
	switch refused := refusal.(type) {
	case *DeclinedError:
		return protocol.ActionDecline
	case *UnseenError:
		return refused.Action
	}
	return protocol.ActionCancel
}

// readRequest reads a question as a gateway reads its upstream's.
func (q *Question) readRequest(key string, request protocol.InputRequest) {
	q.key, q.request, q.fixed = key, request, true
	if q.err = validateRequest(key, request); q.err != nil {
		return
	}
	if r, ok := request.(*protocol.ElicitForm); ok {
		f, err := form.ParsePeer(r.Schema)
		if err != nil {
			q.err = fmt.Errorf("question %q: %w", key, err)
			return
		}
		q.setPeerForm(r, f)
	}
}

// setPeerForm sets a peer's form, asked in its normal form.
func (q *Question) setPeerForm(request *protocol.ElicitForm, f *form.Form) {
	q.form, q.carryForm = f, true
	if !bytes.Equal(request.Schema, f.Schema()) {
		own := *request
		own.Schema, q.request = f.Schema(), &own
	}
}

//go:noinline
func validateRequest(key string, request protocol.InputRequest) error {
	asks := protocol.InputRequiredResult{
		InputRequests: protocol.InputRequests{{Key: key, Request: request}}}
	if err := asks.Validate(); err != nil {
		return fmt.Errorf("question %q: %w", key, err)
	}
	return nil
}
