package interop_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

// An object is a JSON object whose members keep their spelling. A map does not fold case.
type object = map[string]json.RawMessage

func parse(t testing.TB, data []byte) (o object) {
	t.Helper()
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatalf("not an object: %v: %.200s", err, data)
	}
	return o
}

func names(o object) []string { return slices.Sorted(maps.Keys(o)) }

// checkRetries checks our client's messages of one method by the rules of multi round-trip
// requests: each leg has a new id, only answers and state change, and exactly each question has an
// answer.
func checkRetries(t testing.TB, messages []wiretest.Message, method string) {
	t.Helper()
	ids := map[string]bool{}
	var id string
	var params, asked object // params of the last request, asked of the last input_required result
	for _, m := range messages {
		if len(m.Body) == 0 {
			continue
		}
		message := parse(t, m.Body)
		switch {
		case m.From == wiretest.Client && message["id"] != nil:
			if id = string(message["id"]); ids[id] {
				t.Errorf("id %s is used twice", id)
			}
			ids[id] = true
			if string(message["method"]) != `"`+method+`"` {
				continue
			}
			next := parse(t, message["params"])
			if asked != nil {
				checkRetry(t, params, asked, next)
			} else if next["inputResponses"] != nil || next["requestState"] != nil {
				t.Error("the first leg has answers or state")
			}
			params, asked = next, nil
		case message["result"] != nil && string(message["id"]) == id:
			asked = nil
			result := parse(t, message["result"])
			if string(result["resultType"]) == `"input_required"` {
				asked = result
			}
		}
	}
}

func checkRetry(t testing.TB, before, asked, retry object) {
	t.Helper()
	for _, name := range slices.Concat(names(before), names(retry)) {
		switch name {
		case "inputResponses", "requestState", "_meta": // progress tokens in _meta may differ
		default:
			if !bytes.Equal(before[name], retry[name]) {
				t.Errorf("%s changed from %s to %s", name, before[name], retry[name])
			}
		}
	}
	if !bytes.Equal(asked["requestState"], retry["requestState"]) {
		t.Errorf("requestState came back as %s, want %s", retry["requestState"],
			asked["requestState"])
	}
	if asked["inputRequests"] == nil {
		if retry["inputResponses"] != nil {
			t.Errorf("nothing was asked, and the retry has answers %s", retry["inputResponses"])
		}
		return
	}
	questions, answers := parse(t, asked["inputRequests"]), parse(t, retry["inputResponses"])
	if !slices.Equal(names(questions), names(answers)) {
		t.Errorf("answers %q to questions %q", names(answers), names(questions))
	}
	for key, question := range questions {
		want := map[string]string{`"elicitation/create"`: "action",
			`"sampling/createMessage"`: "role", `"roots/list"`: "roots",
		}[string(parse(t, question)["method"])]
		answer := parse(t, answers[key])
		if answer[want] == nil || answer["method"] != nil || answer["result"] != nil ||
			answer["resultType"] != nil {
			t.Errorf("the answer %q has members %q, want a bare result", key, names(answer))
		}
	}
}
