package urlrule

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Refusal means that the URL of a question must not be sent.
type Refusal struct {
	Key string // of the question
	Err error
}

// Error names the question and the reason, for the operator.
func (r *Refusal) Error() string {
	return fmt.Sprintf("question %q: its URL must not be sent: %v", r.Key, r.Err)
}

// Unwrap returns Err.
func (r *Refusal) Unwrap() error { return r.Err }

// Wire returns the client's internal error, which names the question but not the reason.
func (r *Refusal) Wire() *protocol.Error {
	return protocol.Errorf(protocol.CodeInternalError,
		"internal error: the URL of question %q is not allowed, so nothing was asked",
		errtext.Mark(r.Key, 200))
}

// A Hook returns nil to allow a URL that has passed [Check], or an error to refuse it.
type Hook func(*url.URL) error

// Refuse returns the refusal of a question's URL, nil if it is allowed.
func (h Hook) Refuse(key, text string) *Refusal {
	u, err := Check(text)
	if err == nil && h != nil {
		if err = h(u); err != nil {
			err = fmt.Errorf("AllowURL says: %w", err)
		}
	}
	if err != nil {
		return &Refusal{key, err}
	}
	return nil
}

// RefuseRequired is [Hook.Refuse] for all visits of a [protocol.CodeURLElicitationRequired] error
// (-32042 of revision 2025-11-25). Other errors pass.
func (h Hook) RefuseRequired(e *protocol.Error) *Refusal {
	if e == nil || e.Code != protocol.CodeURLElicitationRequired {
		return nil
	}
	visits, ok := e.URLElicitations()
	if !ok && !listsNothing(e.Data) {
		return &Refusal{Keys(nil, 1)[0],
			errors.New("data.elicitations cannot be read; return a " +
				"protocol.URLElicitationRequiredError")}
	}
	return h.RefuseAny(visits)
}

// RefuseAny is [Hook.Refuse] for the first refused visit.
func (h Hook) RefuseAny(visits []*protocol.ElicitURL) *Refusal {
	for i, visit := range visits {
		if visit == nil {
			continue
		}
		if refusal := h.Refuse("", visit.URL); refusal != nil {
			refusal.Key = Keys(visits, len(visits))[i]
			return refusal
		}
	}
	return nil
}

// listsNothing reports whether data has nothing that a client could open.
func listsNothing(data []byte) bool {
	// invalid JSON is not sent
	if jsonx.Check(data) != nil || jsonx.KindOf(data) != jsonx.Object {
		return true
	}
	nothing := true
	err := jsonx.Members(data, func(key, value []byte) error {
		if string(key) == "elicitations" && jsonx.KindOf(value) != jsonx.Null {
			nothing = nothing && jsonx.KindOf(value) == jsonx.Array &&
				jsonx.Elements(value, func(int, []byte) error { return errors.New("one") }) == nil
		}
		return nil
	})
	return err == nil && nothing
}

// Keys returns the keys of n visits as questions: the elicitation's id if present and unused,
// otherwise url-elicitation-N with the first free N from its position on.
func Keys(visits []*protocol.ElicitURL, n int) []string {
	// Ids come first, so that the fallback of an earlier visit does not take one.
	taken := map[string]bool{}
	keys := make([]string, n)
	for i, visit := range visits {
		if visit == nil {
			continue
		}
		if id := visit.ElicitationID; id != "" && !taken[id] {
			keys[i], taken[id] = id, true
		}
	}
	next := 0 // all N from a position up to it are taken
	for i := range keys {
		for next = max(next, i+1); keys[i] == ""; next++ {
			if key := "url-elicitation-" + strconv.Itoa(next); !taken[key] {
				keys[i], taken[key] = key, true
			}
		}
	}
	return keys
}
