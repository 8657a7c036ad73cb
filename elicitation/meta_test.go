package elicitation_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// What of _meta speaks of the client's connection does not go upstream with its
// answer, however it is spelled.
func TestMetaOfAnswers(t *testing.T) {
	for _, test := range []struct{ name, meta, want string }{
		{"the person's", `{"k":1,"example.com/k":{"a":[1e400]}}`, `,"_meta":{"k":1,"example.com/k":{"a":[1e400]}}`},
		{"first is reserved", `{"io.modelcontextprotocol/related-task":{"taskId":"t"},"k":1}`, `,"_meta":{"k":1}`},
		{"last is reserved", `{"k":1,"io.modelcontextprotocol/serverInfo":{}}`, `,"_meta":{"k":1}`},
		{"all are reserved", `{"io.modelcontextprotocol/a":1,"io.modelcontextprotocol/":2}`, ``},
		{"in another case", `{"IO.ModelContextProtocol/protocolVersion":"x"}`, ``},
		{"a token", `{"progressToken":"t","ProgressToken":1}`, ``},
		{"no prefix", `{"io.modelcontextprotocol":1}`, `,"_meta":{"io.modelcontextprotocol":1}`},
		{"empty", `{}`, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s, offered, outcome := r.offered()
			r.complete(s.From(), result(offered.Request().ID, `{"_meta":`+test.meta+`,"action":"accept","content":{"ok":true}}`), elicitation.Accepted)
			up := outcome.Response(protocol.IntID(1))
			if got, want := string(up.Result), `{"action":"accept","content":{"ok":true}`+test.want+`}`; got != want {
				t.Errorf("upstream gets %s, want %s", got, want)
			}
			r.settled()
		})
	}
}
