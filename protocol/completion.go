package protocol

import (
	"fmt"
)

// CompleteParams are the parameters of completion/complete.
type CompleteParams struct {
	// Ref names what is being completed: exactly one of Prompt and Template.
	Ref CompletionRef
	// Argument is the argument being typed, Value what is typed so far.
	Argument CompletionArgument
	// Context holds arguments that are already known.
	Context map[string]string
	RequestMeta
}

// A CompletionRef names a prompt or a resource template.
type CompletionRef struct {
	Prompt   string // name of a prompt
	Template string // URI or URI template of a resource
}

// A CompletionArgument is an argument and what is typed of it so far.
type CompletionArgument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// CompleteResult suggests values for an argument.
type CompleteResult struct {
	Values  []string
	Total   *int64 // nil when unknown
	HasMore bool
	Meta    Meta

	provenance
}

type completion struct {
	Values  []string `json:"values"`
	Total   *int64   `json:"total,omitzero"`
	HasMore bool     `json:"hasMore,omitzero"`
}

func (r *CompleteResult) checkComplete() error {
	if r.Values == nil {
		return fmt.Errorf("completion: must be present")
	}
	return nil
}

func (r *CompleteResult) codeMembers(w *objectWriter, m member) error {
	if m.reads("completion") {
		var c completion
		err := decodeMember(&c, m.key, m.value)
		r.Values, r.Total, r.HasMore = orEmpty(c.Values), c.Total, c.HasMore
		return err
	}
	if w != nil {
		w.addValue("completion", completion{r.Values, r.Total, r.HasMore})
	}
	return w.codeMeta(m, &r.Meta)
}
