package gosdk

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// The SDK has words for a handler that has returned questions in a session of an older revision:
// it pushes those of tools and prompts, which fails, and takes a resource that only asks for a
// mistake. They are not documented: a test holds the SDK to them. Where they are others the SDK
// pushes the questions of the first round, and those of a resource are lost.

// hasReturnedQuestions reports whether an error says that the SDK pushed what a handler returned.
func hasReturnedQuestions(e *protocol.Error, heldBack bool) bool {
	return e != nil && heldBack && strings.HasPrefix(e.Message, "multi-round-trip:")
}

// mayReturnQuestions reports whether an error may be that of a resource that has returned
// questions.
func mayReturnQuestions(method string, e *protocol.Error) bool {
	return e != nil && method == protocol.MethodReadResource &&
		strings.HasSuffix(e.Message, "read handler returned nil information")
}

// publishQuestions turns a result with questions, or with a state alone, into one that asks, as
// revision 2026-07-28 spells it: the SDK does so neither in sessions of older revisions, where it
// has pushed those of the first round, nor with a state alone. It returns false where there are
// none.
func publishQuestions(method string, response *protocol.Response) bool {
	mayAsk := bytes.Contains(response.Result, []byte(`"inputRequests"`)) ||
		bytes.Contains(response.Result, []byte(`"requestState"`))
	if !mayAsk || !protocol.MultiRoundTrip(method) {
		return false
	}
	var asks struct {
		ResultType string          `json:"resultType"`
		Requests   json.RawMessage `json:"inputRequests,omitempty"`
		State      *string         `json:"requestState,omitempty"`
	}
	if json.Unmarshal(response.Result, &asks) != nil || asks.Requests == nil && asks.State == nil {
		return false
	}
	asks.ResultType = "input_required"
	text, err := json.Marshal(asks)
	if err != nil {
		return false
	}
	response.Result = text
	return true
}
