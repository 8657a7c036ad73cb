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

	origin *origin // nil: of this program
}

type completionWire struct {
	Values  []string `json:"values"`
	Total   *int64   `json:"total,omitzero"`
	HasMore bool     `json:"hasMore,omitzero"`
}

func (r *CompleteResult) appendMembers(w *objectWriter) {
	w.addValue("completion", completionWire{orEmpty(r.Values), r.Total, r.HasMore})
	w.addRawObject("_meta", r.Meta)
}

func decodeCompletion(data []byte) (Result, error) {
	r := &CompleteResult{}
	found := false
	err := readMembers(data, func(key, value []byte) error {
		switch string(key) {
		case "completion":
			var c completionWire
			found = true
			err := decodeMember(&c, key, value)
			r.Values, r.Total, r.HasMore = c.Values, c.Total, c.HasMore
			return err
		case "_meta":
			return objectMember(&r.Meta, key, value)
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("completion: must be present")
	}
	return r, err
}
