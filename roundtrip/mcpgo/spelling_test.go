package mcpgo_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

// However a client spells the revision that it speaks, a retry that says two
// things at once is refused, or read by the letter.
func TestAmbiguousRetriesAreReadByTheLetterInAnySpelling(t *testing.T) {
	spellings := map[string]func(message string) string{
		"plain": func(m string) string { return m },
		"escaped slash": func(m string) string {
			return strings.ReplaceAll(m, "modelcontextprotocol/", `modelcontextprotocol\/`)
		},
		"escaped letters": func(m string) string {
			return strings.ReplaceAll(m, "protocolVersion", `\u0070rotocol\u0056ersion`)
		},
		"escaped _meta": func(m string) string {
			return strings.ReplaceAll(m, "_meta", `\u005fmeta`)
		},
		"escaped digits": func(m string) string {
			return strings.ReplaceAll(m, modern, `\u003202\u0036-07-28`)
		},
	}
	const no, yes = `{"confirm":{"action":"decline"}}`, `{"confirm":{"action":"accept","content":{"zeal":"much"}}}`
	over(t, nil, addGuard, func(t *testing.T, send sender) {
		call := request{method: protocol.MethodCallTool, target: "typed"}
		state, _ := json.Marshal(send(call.message()).Result.RequestState)
		for name, spelled := range spellings {
			for _, tc := range []struct{ name, more, outer, want string }{
				{name: "by the letter", more: `,"inputResponses":` + no, want: "declined"},
				{name: "another case behind",
					more: `,"inputResponses":` + no + `,"InputResponses":` + yes, want: "declined"},
				{name: "twice", more: `,"inputResponses":` + no + `,"inputResponses":` + yes,
					want: "-32700"},
				{name: "an action twice", more: `,"inputResponses":{"confirm":{"action":"decline","action":"accept"}}`, want: "-32700"},
				{name: "an action in another case", more: `,"inputResponses":{"confirm":{"action":"decline","Action":"accept"}}`, want: "declined"},
				{name: "parameters in another case behind", more: `,"inputResponses":` + no,
					outer: `,"Params":{"inputResponses":` + yes + `}`, want: "declined"},
			} {
				t.Run(name+"/"+tc.name, func(t *testing.T) {
					r := call
					r.more, r.outer = `,"requestState":`+string(state)+tc.more, tc.outer
					if got := send(spelled(r.message())); !strings.HasPrefix(got.text(), tc.want) {
						t.Errorf("got %s, want %s", got.body, tc.want)
					}
				})
			}
		}
	})
}

// Parameters that only look like some are none.
func TestParametersInAnotherCaseAreNone(t *testing.T) {
	over(t, nil, addGuard, func(t *testing.T, send sender) {
		got := send(strings.Replace(typed.message(), `"params"`, `"Params"`, 1))
		if got.Error.Code == 0 {
			t.Errorf("got %s", got.body)
		}
	})
}

// A state is for the arguments as they were sent: members may come in another
// order and strings in other escapes, but a number is not another one that a
// handler may read differently.
func TestStatesBindHowNumbersAreSpelled(t *testing.T) {
	over(t, nil, addGuard, func(t *testing.T, send sender) {
		call := request{method: protocol.MethodCallTool, target: "typed",
			arguments: `{"n":[1,0],"s":"/"}`}
		first := send(call.message())
		for arguments, want := range map[string]string{
			`{ "s": "\/", "\u006e": [1 , 0] }`: "much 2",
			`{"n":[1.0,0],"s":"/"}`:            "-32602",
			`{"n":[1e0,0],"s":"/"}`:            "-32602",
			`{"n":[1,-0],"s":"/"}`:             "-32602",
		} {
			r := call
			r.arguments = arguments
			if got := send(r.retry(first, yes).message()); !strings.HasPrefix(got.text(), want) {
				t.Errorf("%s was answered with %s, want %s", arguments, got.body, want)
			}
		}
	})
}
