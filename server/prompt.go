package server

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Prompt describes a prompt to register (server/prompts). It must not be changed afterwards.
type Prompt struct {
	Name        string // unique within the server
	Title       string
	Description string
	Icons       []protocol.Icon
	// Arguments of the prompt. Requests that lack a required one are refused.
	Arguments []protocol.PromptArgument
	Meta      protocol.Meta
	// Extra is as in [Resource].
	Extra map[string]json.RawMessage
	// Needs, Scopes and AcceptUnsolicited are as in [Tool].
	Needs             protocol.ClientCapabilities
	Scopes            []string
	AcceptUnsolicited bool
	Complete          Completer // suggests values for the arguments; may be nil
}

// A PromptCall is one leg of a request for a prompt.
type PromptCall struct {
	Call
	Name string
	// Arguments are the values by name, also of unknown names; nil if none were sent.
	Arguments map[string]string
}

// A PromptHandler fills in a prompt, or asks for missing input.
type PromptHandler func(ctx context.Context, call *PromptCall) (protocol.GetPromptOutcome, error)

type prompt struct {
	definition        protocol.Prompt
	needs             protocol.ClientCapabilities
	scopes            []string
	acceptUnsolicited bool
	handle            PromptHandler
	complete          Completer
}

func (p *prompt) entryKey() string { return p.definition.Name }

// AddPrompt registers a prompt, even while the server runs. It panics if the prompt is invalid: no
// name or a taken one, an argument without a name or with another's name, no handler.
func AddPrompt(s Registrar, p Prompt, handler PromptHandler) {
	c := s.registrations()
	mustRegister("prompt", p.Name, checkHandler(handler != nil), checkName(p.Name),
		validateScopes(p.Scopes))
	seen := map[string]bool{}
	for _, a := range p.Arguments {
		mustRegister("prompt", p.Name, checkUnique("argument", a.Name, seen))
	}
	mustRegister("prompt", p.Name, c.prompts.addEntry(&prompt{
		definition: protocol.Prompt{
			Name: p.Name, Title: p.Title, Description: p.Description, Icons: p.Icons,
			Arguments: p.Arguments, Meta: p.Meta, Extra: p.Extra,
		},
		needs: p.Needs, scopes: p.Scopes, acceptUnsolicited: p.AcceptUnsolicited,
		handle: handler, complete: p.Complete,
	}))
	c.server.noteCompleter(p.Complete)
}

// RemovePrompt removes a prompt and reports whether it existed.
func (s *Server) RemovePrompt(name string) bool { return s.own.prompts.removeEntry(name) }

func renderPrompts(prompts []*prompt, next string, cache protocol.CacheHints) protocol.Result {
	return &protocol.ListPromptsResult{NextCursor: next, Cache: cache,
		Prompts: definitionsOf(prompts, func(p *prompt) protocol.Prompt { return p.definition })}
}

func (s *Server) findPrompt(request *Request, name string) (*prompt, error) {
	p, ok := find(s, request, KindPrompt, promptsOf, name)
	if !ok {
		return nil, protocol.Errorf(protocol.CodeInvalidParams,
			"unknown prompt: %s; prompts/list has the names", clipQuoted(name))
	}
	return p, request.checkScopes(p.scopes)
}

func (s *Server) getPrompt(ctx context.Context, request *Request,
	params *protocol.GetPromptParams) (protocol.Result, error) {
	p, err := s.findPrompt(request, params.Name)
	if err != nil {
		return nil, err
	}
	if err := s.checkNeeds(ctx, request, p.needs); err != nil {
		return nil, err
	}
	call := roundtripCall(request, params.Arguments, &params.Retry)
	call.AcceptUnsolicited = p.acceptUnsolicited
	request.releaseBody()
	return s.funnel.Do(ctx, call, func(ctx context.Context) (protocol.Result, error) {
		call := &PromptCall{Call: newCall(ctx, request), Name: params.Name}
		if err := call.decodeArguments(params, p.definition.Arguments); err != nil {
			return nil, err
		}
		result, err := p.handle(ctx, call)
		return s.convertOutcome(ctx, request, result, err)
	})
}

// decodeArguments decodes the arguments and refuses the request if one is missing.
func (c *PromptCall) decodeArguments(params *protocol.GetPromptParams,
	known []protocol.PromptArgument) error {
	if params.Arguments != nil {
		var given map[string]*string
		if err := jsonx.Unmarshal(params.Arguments, &given); err != nil {
			return protocol.Errorf(protocol.CodeInvalidParams, "invalid params: arguments: %v", err)
		}
		c.Arguments = make(map[string]string, len(given))
		for name, value := range given {
			if value != nil { // null is absent
				c.Arguments[name] = *value
			}
		}
	}
	for _, a := range known {
		if _, ok := c.Arguments[a.Name]; a.Required && !ok {
			return protocol.Errorf(protocol.CodeInvalidParams,
				"invalid params: arguments: %s must be present", a.Name)
		}
	}
	return nil
}
