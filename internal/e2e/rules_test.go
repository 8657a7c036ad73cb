package e2e_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

// object is a JSON object whose members are kept as they were written. A map does not fold case.
type object = map[string]json.RawMessage

func parse(t testing.TB, data []byte) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatalf("not an object: %v: %.200s", err, data)
	}
	return o
}

func names(o object) []string { return slices.Sorted(maps.Keys(o)) }

// checkFlow holds the messages of one call against the rules of multi round-trip requests and
// returns how many legs it took: a new id each leg, the same request but for answers and state, the
// exact state or none, an answer to each question and to nothing else, each a bare result, and
// nothing but questions and state beside what asks for them.
func checkFlow(t testing.TB, messages []wiretest.Message) (legs int) {
	t.Helper()
	ids := map[string]bool{}
	var id json.RawMessage
	var params, asked object // of the last request, of the last input_required result
	for i, m := range messages {
		message := parse(t, m.Body)
		switch {
		case m.From == wiretest.Client:
			legs++
			if id = message["id"]; len(id) == 0 || ids[string(id)] {
				t.Errorf("message %d: id %s is missing or was used before", i+1, id)
			}
			ids[string(id)] = true
			next := parse(t, message["params"])
			if legs > 1 {
				checkRetry(t, params, asked, next)
			} else if next["inputResponses"] != nil || next["requestState"] != nil {
				t.Errorf("the first leg has answers or state")
			}
			params = next
		case message["method"] != nil: // a notification
		case string(message["id"]) != string(id):
			t.Errorf("message %d: answers id %s, want %s", i+1, message["id"], id)
		case message["result"] != nil:
			asked = checkResult(t, parse(t, message["result"]))
		}
	}
	if asked != nil {
		t.Error("the last result still requires input")
	}
	return legs
}

// checkResult returns the result if it requires input.
func checkResult(t testing.TB, result object) object {
	t.Helper()
	if string(result["resultType"]) != `"input_required"` {
		if result["inputRequests"] != nil || result["requestState"] != nil {
			t.Errorf("a complete result has members %q", names(result))
		}
		return nil
	}
	for _, name := range names(result) {
		if !slices.Contains([]string{"resultType", "inputRequests", "requestState", "_meta"},
			name) {
			t.Errorf("an input_required result has a member %q", name)
		}
	}
	if result["inputRequests"] == nil && result["requestState"] == nil {
		t.Error("an input_required result has neither questions nor state")
	}
	return result
}

func checkRetry(t testing.TB, before, asked, retry object) {
	t.Helper()
	if asked == nil {
		t.Error("a request is repeated although its result did not require input")
		return
	}
	for _, name := range slices.Compact(
		slices.Sorted(slices.Values(append(names(before), names(retry)...)))) {
		switch name {
		case "inputResponses", "requestState", "_meta": // a progress token may differ
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
		checkAnswer(t, key, string(parse(t, question)["method"]), parse(t, answers[key]))
	}
}

// checkAnswer: a bare result of the kind that was asked for, not an envelope around one.
func checkAnswer(t testing.TB, key, method string, answer object) {
	t.Helper()
	want := map[string]string{
		`"elicitation/create"`: "action", `"sampling/createMessage"`: "role",
		`"roots/list"`: "roots",
	}[method]
	if answer[want] == nil || answer["method"] != nil || answer["result"] != nil ||
		answer["resultType"] != nil {
		t.Errorf("answer %q to %s has members %q", key, method, names(answer))
	}
}
