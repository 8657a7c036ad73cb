package elicitation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/protocol"
)

// admitQuestion parses a question and checks whether this client may be asked it.
func (c *Call) admitQuestion(ctx context.Context,
	params json.RawMessage) (*parsedQuestion, *Error) {
	r := c.router
	r.mu.Lock()
	refused := c.checkUsableLocked()
	r.mu.Unlock()
	switch {
	case refused != nil:
		return nil, refused
	case ctx.Err() != nil:
		return nil, noSessionError(ReasonNoSession, context.Cause(ctx))
	}
	if refused := c.checkCapabilities(""); refused != nil {
		return nil, refused
	}
	if limit := maxSchemaBytes + maxOutsideSchema; len(params) > limit {
		err := fmt.Errorf("larger than %d bytes", limit)
		return nil, invalidQuestionError(ReasonTooLarge, err)
	}
	q, err := parseQuestion(params)
	if err != nil {
		return nil, invalidQuestionError(ReasonInvalidQuestion, err)
	}
	if refused := q.checkSchema(&r.opts, r.forms); refused != nil {
		return nil, refused
	}
	if refused := c.checkCapabilities(q.kind); refused != nil {
		return nil, refused
	}
	if refused := c.checkSecrets(q); refused != nil {
		return nil, refused
	}
	if q.kind == protocol.KindElicitURL {
		return q, c.checkURL(ctx, q.url)
	}
	return q, nil
}

// checkCapabilities refuses undeclared modes. kind is empty before the question is parsed.
func (c *Call) checkCapabilities(kind protocol.InputKind) *Error {
	version := c.origin.Session.info.Version
	declared := cmp.Or(c.origin.Capabilities, &c.origin.Session.info.Capabilities)
	form, url := false, false
	// Forms exist since 2025-06-18, URLs since 2025-11-25. From 2026-07-28 on servers send nothing.
	if e := declared.Elicitation; e != nil && version >= protocol.V20250618 &&
		(c.via.frames == nil || version.Era() != protocol.Modern) {
		form, url = e.Form, e.URL && version >= protocol.V20251125
	}
	reason, code, lacks := ReasonMode, int64(protocol.CodeInvalidParams), ""
	switch {
	case !form && !url:
		reason, code, lacks = ReasonCapability, protocol.CodeMethodNotFound, "elicitation"
	case kind == protocol.KindElicitForm && !form:
		lacks = "form elicitation"
	case kind == protocol.KindElicitURL && !url:
		lacks = "URL elicitation"
	default:
		return nil
	}
	wire := protocol.Errorf(code, "Client does not support %s", lacks)
	return &Error{Reason: reason, Wire: wire}
}

func (c *Call) checkUsableLocked() *Error {
	switch {
	case c.router.draining:
		return shutdownError()
	case c.over, c.origin.Session.detached:
		return noSessionError(ReasonNoSession, nil)
	}
	return nil
}

// checkSchema checks a form's limits and normalizes its schema, which ValidateEnforce requires.
func (q *parsedQuestion) checkSchema(o *Options, forms *formCache) *Error {
	if q.kind != protocol.KindElicitForm {
		return nil
	}
	if len(q.schema) > maxSchemaBytes {
		err := fmt.Errorf("requestedSchema: larger than %d bytes", maxSchemaBytes)
		return invalidQuestionError(ReasonTooLarge, err)
	}
	if jsonDepth(q.schema) > maxSchemaDepth {
		err := fmt.Errorf("requestedSchema: nested deeper than %d", maxSchemaDepth)
		return invalidQuestionError(ReasonTooLarge, err)
	}
	f, err := forms.parseForm(q.schema)
	switch {
	case err == nil:
		q.schema, q.secret = f.form.Schema(), f.secret
		if len(q.schema) <= maxFormBytes {
			q.form = f.form
		}
	case o.Validation == ValidateEnforce:
		return invalidQuestionError(ReasonInvalidQuestion, err)
	default:
		q.secret = form.FindPeerSecret(q.schema)
	}
	return nil
}

// checkSecrets refuses forms that seem to ask for secrets, which end up in clients and logs.
func (c *Call) checkSecrets(q *parsedQuestion) *Error {
	allow := c.router.opts.AllowSecrets
	if q.kind != protocol.KindElicitForm || allow != nil && allow(c.upstream) ||
		q.secret.Word == "" {
		return nil
	}
	return invalidQuestionError(ReasonSecret, fmt.Errorf("requestedSchema: %q looks like a "+
		"secret (%q), and a form is no place for one: ask for it with a URL elicitation",
		q.secret.Field, q.secret.Word))
}
