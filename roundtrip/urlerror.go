package roundtrip

import (
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
)

// convertURLs turns the URL elicitation error of revision 2025-11-25, which
// handlers written for it return, into questions: on the modern wire the error
// code does not exist. Each question's key is the elicitation's id where that
// is there and free, otherwise url-elicitation-N with the first free N from
// its position on; the id itself is not sent.
func (p *exchange) convertURLs(e *protocol.URLElicitationRequiredError) (*protocol.InputRequiredResult, error) {
	if p.funnel.opts.RefuseURLErrors {
		return nil, errors.New("handler returned a URL elicitation error, which the funnel is told to refuse")
	}
	if len(e.Elicitations) == 0 {
		return nil, errors.New("handler returned a URL elicitation error without elicitations")
	}
	for i, u := range e.Elicitations {
		if u == nil {
			return nil, fmt.Errorf("handler returned a URL elicitation error whose entry %d is nil", i)
		}
	}
	keys := urlrule.Keys(e.Elicitations, len(e.Elicitations))
	items := make([]Item, len(keys))
	for i, u := range e.Elicitations {
		items[i] = ElicitURL(keys[i], u.Message, u.URL)
	}
	return InputRequired(items...), nil
}

// checkURLs refuses the first question that asks for a visit to a URL which must
// not be sent (client/elicitation, "Safe URL Handling"). The error is an
// [*urlrule.Refusal].
func (p *questioner) checkURLs(questions []Question) error {
	for _, q := range questions {
		if visit, ok := q.request.(*protocol.ElicitURL); ok && visit != nil {
			if refusal := p.funnel.allowURL().Refuse(q.key, visit.URL); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

func (f *Funnel) allowURL() urlrule.Hook { return f.opts.AllowURL }
