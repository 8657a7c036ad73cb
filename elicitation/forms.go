package elicitation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/internal/recent"
)

const (
	// maxForms is how many parsed forms are kept: upstreams ask with the same few
	// again and again, and parsing one costs more than all the rest.
	maxForms = 64
	// maxFormBytes is the largest schema that is kept parsed, in bytes.
	maxFormBytes = 4 << 10
)

// A formCache keeps parsed forms by the bytes of their schema. All methods may be
// called concurrently.
type formCache struct {
	mu     sync.Mutex
	parsed *recent.Map[string, *form.Form]
}

func newFormCache() *formCache {
	return &formCache{parsed: recent.New[string, *form.Form](maxForms, 0)}
}

// findForm returns the form of a schema if it is kept, else nil.
func (c *formCache) findForm(schema []byte) *form.Form {
	if len(schema) > maxFormBytes {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f, _ := c.parsed.Get(string(schema))
	return f
}

// parseForm returns the form of a schema, and keeps it.
func (c *formCache) parseForm(schema []byte) (*form.Form, error) {
	if f := c.findForm(schema); f != nil {
		return f, nil
	}
	f, err := form.ParsePeer(schema)
	if err != nil {
		return nil, fmt.Errorf("requestedSchema: %w", err)
	}
	if len(schema) > maxFormBytes {
		return f, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parsed.Put(string(schema), f)
	return f, nil
}

// An answerCheck is what a pending question keeps to validate accepted content: the
// form if it was in the cache, else a copy of its schema, which is parsed when the
// answer comes. The zero value validates nothing.
type answerCheck struct {
	form   *form.Form
	schema json.RawMessage
}

func (r *Router) answerCheckFor(q *parsedQuestion) answerCheck {
	if r.opts.Validation == ValidateOff || q.schema == nil {
		return answerCheck{}
	}
	if f := r.forms.findForm(q.schema); f != nil {
		return answerCheck{form: f}
	}
	return answerCheck{schema: bytes.Clone(q.schema)}
}

func (a answerCheck) isEmpty() bool { return a.form == nil && a.schema == nil }

// checkContent validates accepted content against the form and returns the members
// that the form has. The error names a field of the form and no value.
func (c *formCache) checkContent(
	a answerCheck, content json.RawMessage,
) (json.RawMessage, error) {
	f := a.form
	if f == nil {
		var err error
		if f, err = c.parseForm(a.schema); err != nil {
			return nil, err
		}
	}
	return f.Accept(content)
}
