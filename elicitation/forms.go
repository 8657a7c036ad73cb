package elicitation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/rondo-mcp/rondo/internal/form"
)

const (
	// maxForms is how many parsed forms are kept: upstreams ask with the same few
	// again and again, and parsing one costs more than all the rest.
	maxForms = 64
	// maxFormBytes is the largest schema that is kept parsed, in bytes.
	maxFormBytes = 4 << 10
)

// formCache are parsed forms by the bytes of their schema. The zero value is empty.
type formCache struct {
	mu     sync.Mutex
	parsed map[string]*form.Form
	ring   []string
	next   int
}

// known returns the form if it is kept.
func (c *formCache) known(schema []byte) *form.Form {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parsed[string(schema)]
}

// parse returns the form of a schema, and keeps it.
func (c *formCache) parse(schema []byte) (*form.Form, error) {
	if f := c.known(schema); f != nil {
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
	if c.parsed == nil {
		c.parsed = make(map[string]*form.Form)
	}
	key := string(schema)
	if c.parsed[key] != nil {
		return f, nil
	}
	c.parsed[key] = f
	if len(c.ring) < maxForms {
		c.ring = append(c.ring, key)
		return f, nil
	}
	delete(c.parsed, c.ring[c.next])
	c.ring[c.next] = key
	c.next = (c.next + 1) % maxForms
	return f, nil
}

// An answerCheck is what an entry needs to look at accepted content: the form
// where it has been parsed before, else a copy of its schema. The zero value
// looks at nothing.
type answerCheck struct {
	form   *form.Form
	schema json.RawMessage
}

// answerCheckFor keeps of a question what its answer will be held against.
func (r *Router) answerCheckFor(q *question) answerCheck {
	if r.opts.Validation == ValidateOff || q.schema == nil {
		return answerCheck{}
	}
	if f := r.forms.known(q.schema); f != nil {
		return answerCheck{form: f}
	}
	return answerCheck{schema: bytes.Clone(q.schema)}
}

func (a answerCheck) isEmpty() bool { return a.form == nil && a.schema == nil }

// checkContent holds accepted content against the form and returns what of it the form
// has. The error names a field of the form and no value.
func (r *Router) checkContent(a answerCheck, content json.RawMessage) (json.RawMessage, error) {
	f := a.form
	if f == nil {
		var err error
		if f, err = r.forms.parse(a.schema); err != nil {
			return nil, err
		}
	}
	return f.Accept(content)
}
