package roundtrip

import (
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
)

// convertURLs turns the URL elicitation error of revision 2025-11-25, which
// handlers written for it return, into questions: on the modern wire the error
// code does not exist. Each question's key is the elicitation's id where that
// is there and free, otherwise url-elicitation-N with the first free N from
// its position on; the id itself is not sent.
func (p *pass) convertURLs(e *protocol.URLElicitationRequiredError) (*protocol.InputRequiredResult, error) {
	if p.funnel.opts.RefuseURLErrors {
		return nil, errors.New("handler returned a URL elicitation error, which the funnel is told to refuse")
	}
	if len(e.Elicitations) == 0 {
		return nil, errors.New("handler returned a URL elicitation error without elicitations")
	}
	// Ids that authors chose keep their keys even when a fallback, earlier in
	// the list, would have liked one.
	taken := map[string]bool{}
	keys := make([]string, len(e.Elicitations))
	for i, u := range e.Elicitations {
		if u == nil {
			return nil, fmt.Errorf("handler returned a URL elicitation error whose entry %d is nil", i)
		}
		if id := u.ElicitationID; id != "" && !taken[id] {
			keys[i], taken[id] = id, true
		}
	}
	items := make([]Item, len(keys))
	for i, u := range e.Elicitations {
		for n := i + 1; keys[i] == ""; n++ {
			if key := fmt.Sprintf("url-elicitation-%d", n); !taken[key] {
				keys[i], taken[key] = key, true
			}
		}
		items[i] = ElicitURL(keys[i], u.Message, u.URL)
	}
	return InputRequired(items...), nil
}
