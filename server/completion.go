package server

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A CompleteCall asks for suggestions while a user types (server/utilities/completion).
type CompleteCall struct {
	Call
	// Argument is the name of the argument, Value its text so far. The prompt may lack it.
	Argument, Value string
	Known           map[string]string // arguments that are already filled in
}

// A Completer suggests values for an argument, best first. Clients see the first 100 and the total.
type Completer func(ctx context.Context, call *CompleteCall) ([]string, error)

func (s *Server) noteCompleter(c Completer) {
	if c != nil {
		s.completes.Store(true)
	}
}

// answerComplete answers completion/complete; without a completer there are no suggestions.
func (s *Server) answerComplete(ctx context.Context, request *Request,
	p *protocol.CompleteParams) (result protocol.Result, err error) {
	completer, err := s.findCompleter(request, p)
	if err != nil {
		return nil, err
	}
	if completer == nil {
		return &protocol.CompleteResult{}, nil
	}
	// The funnel hides the round of a handler that calls this server in process with its context.
	where := roundtrip.Call{Version: request.Version, Method: request.Message.Method,
		Principal: request.Principal}
	return s.funnel.Do(ctx, where, func(ctx context.Context) (protocol.Result, error) {
		values, err := completer(ctx, &CompleteCall{
			Call: newCall(ctx, request), Argument: p.Argument, Value: p.Value,
			Known: p.Context,
		})
		if err != nil {
			if e, ok := protocol.AsError(request.spellLack(err)); ok {
				return nil, e
			}
			return nil, s.reportBug(ctx, request,
				fmt.Errorf("completion of %q: %w", p.Argument, err))
		}
		total := int64(len(values))
		shown := values[:min(len(values), maxCompletions)]
		return &protocol.CompleteResult{Values: shown, Total: &total,
			HasMore: len(shown) < len(values)}, nil
	})
}

// maxCompletions is the limit of server/utilities/completion.
const maxCompletions = 100

func (s *Server) findCompleter(request *Request, p *protocol.CompleteParams) (Completer, error) {
	if p.Prompt != "" {
		prompt, err := s.findPrompt(request, p.Prompt)
		if err != nil {
			return nil, err
		}
		return prompt.complete, nil
	}
	if t, ok := find(s, request, KindResourceTemplate, templatesOf, p.Template); ok {
		return t.complete, request.checkScopes(t.scopes)
	}
	if _, ok := find(s, request, KindResource, resourcesOf, p.Template); ok {
		return nil, nil
	}
	return nil, protocol.ResourceNotFound(p.Template)
}
