package claims_test

import (
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/protocol"
)

// Only arguments that a handler cannot distinguish share a digest.
func TestDigestOfArguments(t *testing.T) {
	for _, test := range []struct {
		name, one, other string
		same             bool
	}{
		{"order and spaces", `{"b":1,"a":"x"}`, `{ "a": "x", "b": 1 }`, true},
		{"escapes", `{"a":"/"}`, `{"\u0061":"\/"}`, true},
		{"absent and empty", ``, `{}`, true},
		{"numbers keep their spelling", `{"a":1}`, `{"a":1.0}`, false},
		{"another value", `{"a":"x"}`, `{"a":"y"}`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			one, err := claims.DigestArguments(json.RawMessage(test.one))
			noError(t, err)
			other, err := claims.DigestArguments(json.RawMessage(test.other))
			noError(t, err)
			if (one == other) != test.same {
				t.Errorf("the digests are %x and %x", one, other)
			}
		})
	}
	if _, err := claims.DigestArguments(json.RawMessage(`{`)); err == nil {
		t.Error("what is no JSON has a digest")
	}
}

func TestFingerprintOfAnswers(t *testing.T) {
	responses := func(pairs ...string) (list protocol.InputResponses) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, protocol.KeyedResponse{Key: pairs[i],
				Result: json.RawMessage(pairs[i+1])})
		}
		return list
	}
	want := claims.Fingerprint(responses("a", `{"x":1}`, "b", `2`))
	for _, test := range []struct {
		name string
		list protocol.InputResponses
		same bool
	}{
		{"another order", responses("b", `2`, "a", `{ "x": 1 }`), true},
		{"one missing", responses("a", `{"x":1}`), false},
		{"one changed", responses("a", `{"x":1}`, "b", `3`), false},
		{"values exchanged", responses("b", `{"x":1}`, "a", `2`), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := claims.Fingerprint(test.list); (got == want) != test.same {
				t.Errorf("the fingerprint is %x, that of the first %x", got, want)
			}
		})
	}
}

func TestDigestOfQuestions(t *testing.T) {
	digest := func(key string, prompt byte) [16]byte {
		return claims.DigestQuestion(protocol.KindElicitForm, key, [32]byte{1},
			claims.Mark{PromptDigest: [16]byte{prompt}})
	}
	if again := digest("k", 1); again != digest("k", 1) {
		t.Error("one question has two digests")
	}
	if digest("k", 1) == digest("k", 2) || digest("k", 1) == digest("l", 1) {
		t.Error("two questions have one digest")
	}
}
