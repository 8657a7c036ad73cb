package gosdk

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// These are the SDK's texts for a handler that returned questions in a session of an older
// revision: the SDK pushes questions of tools and prompts, which fails, and rejects a resource that
// only asks. A test checks the texts. If they differ, questions of the first round are pushed, and
// those of a resource are lost.

func hasReturnedQuestions(e *protocol.Error, heldBack bool) bool {
	return e != nil && heldBack && strings.HasPrefix(e.Message, "multi-round-trip:")
}

func mayReturnQuestions(method string, e *protocol.Error) bool {
	return e != nil && method == protocol.MethodReadResource &&
		strings.HasSuffix(e.Message, "read handler returned nil information")
}

// publishQuestions turns a result with questions or a state into one that asks in revision
// 2026-07-28. The SDK does not do this in older sessions, or for a state alone.
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
