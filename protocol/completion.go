package protocol

import (
	"fmt"
)

// CompleteParams are the parameters of completion/complete.
type CompleteParams struct {
	// Exactly one is set: Prompt, a prompt's name, or Template, a resource's URI or URI template.
	Prompt, Template string
	// Argument is the argument being completed, Value the text typed so far.
	Argument, Value string
	Context         map[string]string // arguments already known
	RequestMeta
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
