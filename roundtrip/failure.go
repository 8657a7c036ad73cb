package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/rondo-mcp/rondo/internal/redact"
)

// reportFailure tells the observer of an error of the handler's own, and
// returns the text that the client gets.
func (p *exchange) reportFailure(ctx context.Context, err error) string {
	text := err.Error()
	event := HandlerFailed{Where: p.where, Err: err}
	if p.funnel.opts.HideErrors {
		event.Reference = newReference()
	}
	if !p.funnel.silent {
		event.Text = p.maskSecrets(text)
		p.observe(ctx, event)
	}
	if p.funnel.opts.HideErrors {
		return "internal failure; reference " + event.Reference +
			"; try again later, and give the reference to the operator of the server if it fails again"
	}
	return text
}

// refusalText returns what the client gets of an error that is, or wraps, a refusal of
// the person's.
func (p *exchange) refusalText(err error) string {
	if !p.funnel.opts.HideErrors {
		return err.Error()
	}
	if declined, ok := errors.AsType[*DeclinedError](err); ok {
		return declined.Error()
	}
	if cancelled, ok := errors.AsType[*CancelledError](err); ok {
		return cancelled.Error()
	}
	return "refused" // cannot be: see refusedBy
}

// reportPanic tells the observer of a panic. It is called where it was
// recovered, so that the stack shows where it began.
func (p *exchange) reportPanic(ctx context.Context, v any) {
	event := HandlerPanicked{Where: p.where, Value: v}
	if !p.funnel.silent {
		event.Text, event.Stack = p.maskSecrets(fmt.Sprint(v)), debug.Stack()
	}
	p.observe(ctx, event)
}

// maskSecrets takes out of a text that the handler wrote what the call has told it.
func (p *exchange) maskSecrets(text string) string {
	var secrets redact.Secrets
	secrets.AddJSON(p.call.Arguments)
	secrets.AddCredential(p.call.Credential)
	if state, _ := p.call.State.Text(); state != "" {
		secrets.AddText(state)
	}
	if i := strings.IndexAny(p.call.Target, "?#"); i >= 0 { // of a URI
		secrets.AddText(p.call.Target[i+1:])
	}
	for _, response := range p.call.Responses {
		secrets.AddJSON(response.Result)
	}
	if r := p.run; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, a := range r.answers {
			secrets.AddJSON(a.content)
		}
		secrets.AddJSON(r.state)
		for _, m := range r.memos {
			secrets.AddJSON(m.value)
		}
	}
	return secrets.Redact(text)
}
