package elicitation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
)

const (
	maxForms     = 64      // upstreams repeat a few, and parsing dominates the cost
	maxFormBytes = 4 << 10 // largest schema cached
)

// A formCache caches parsed forms by schema. Methods may be called concurrently.
type formCache struct {
	mu     sync.Mutex
	parsed *recent.Map[string, parsedForm]
}

type parsedForm struct {
	form   *form.Form
	secret form.Secret
}

// findForm returns the cached form of a schema; its field form is nil if none is cached.
func (c *formCache) findForm(schema []byte) parsedForm {
	if len(schema) > maxFormBytes {
		return parsedForm{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f, _ := c.parsed.Get(string(schema))
	return f
}

func (c *formCache) parseForm(schema []byte) (parsedForm, error) {
	if f := c.findForm(schema); f.form != nil {
		return f, nil
	}
	parsed, err := form.ParsePeer(schema)
	if err != nil {
		return parsedForm{}, fmt.Errorf("requestedSchema: %w", err)
	}
	f := parsedForm{form: parsed, secret: parsed.FindSecret()}
	if len(schema) > maxFormBytes {
		return f, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parsed.Put(string(schema), f)
	return f, nil
}

// An answerCheck validates the accepted content of a pending question: with the cached form, or a
// copy of the schema, parsed when the answer comes. The zero value validates nothing.
type answerCheck struct {
	form   *form.Form
	schema json.RawMessage
}

func (r *Router) answerCheckFor(q *parsedQuestion) answerCheck {
	if r.opts.Validation == ValidateOff || q.schema == nil {
		return answerCheck{}
	}
	if q.form != nil {
		return answerCheck{form: q.form}
	}
	if f := r.forms.findForm(q.schema); f.form != nil {
		return answerCheck{form: f.form}
	}
	return answerCheck{schema: bytes.Clone(q.schema)}
}

// checkContent validates accepted content. With convert it returns the form's normalized content,
// else content unchanged. The error names a field of the form, but no value.
func (c *formCache) checkContent(
	a answerCheck, content json.RawMessage, convert bool,
) (json.RawMessage, error) {
	f := a.form
	if f == nil {
		parsed, err := c.parseForm(a.schema)
		if err != nil {
			return nil, err
		}
		f = parsed.form
	}
	if !convert {
		return content, f.Check(content)
	}
	return f.Accept(content)
}
