package revision

import (
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
)

// errorCodes are the codes that some revisions lack (basic/index, "Error Codes"). A code that is
// not listed exists in all of them.
var errorCodes = [...]struct {
	code        int64
	first, last protocol.Version // empty: no limit
	instead     int64            // the code in other revisions; 0: there is none
	dropData    bool             // the data has no meaning beside that code
}{
	{code: protocol.CodeHeaderMismatch, first: protocol.V20260728},
	{code: protocol.CodeUnsupportedProtocolVersion, first: protocol.V20260728},
	{code: protocol.CodeMissingRequiredClientCapability, first: protocol.V20260728,
		instead: protocol.CodeCannotAsk, dropData: true},
	{code: protocol.CodeURLElicitationRequired,
		first: protocol.V20251125, last: protocol.V20251125},
	{code: protocol.CodeResourceNotFound, last: protocol.V20251125,
		instead: protocol.CodeInvalidParams},
}

// SpellError returns e as revision v spells it: e itself where v has its code, otherwise a copy
// with the code that v uses instead. When v has no such code it returns an error for the operator:
// what returned e made a mistake, and the client must get an internal error. That holds for
// handlers and for middleware alike. It may be called on nil, which it returns.
func SpellError(v protocol.Version, e *protocol.Error) (*protocol.Error, error) {
	for _, c := range errorCodes {
		switch {
		case e == nil || e.Code != c.code:
			continue
		case v >= c.first && (c.last == "" || v <= c.last):
			return e, nil
		case c.instead == 0:
			return nil, fmt.Errorf("code %d does not exist in revision %s", e.Code, v)
		}
		spelled := *e
		spelled.Code = c.instead
		if c.dropData {
			spelled.Data = nil
		}
		return &spelled, nil
	}
	return e, nil
}
