package middleware_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/middleware"
)

// A host declares elicitation but shows nothing. It answers each question with the result or error,
// or does not answer; a host that leaves closes the connection.
type host struct {
	name   string
	result string
	err    string
	leaves bool
}

func hosts() []host {
	return []host{
		{name: "declines in 0 ms", result: `{"action":"decline"}`},
		{name: "cancels in 0 ms", result: `{"action":"cancel"}`},
		{name: "accepts with nothing", result: `{"action":"accept"}`},
		{name: "does not answer"},
		{name: "answers with the error -32601", err: `{"code":-32601,"message":"Method not found"}`},
		{name: "answers with the error -32603", err: `{"code":-32603,"message":"Internal error"}`},
		{name: "declares elicitation and disconnects", leaves: true},
	}
}

// run makes the host call a tool, and returns what its model and its user read.
func (h host) run(w *wire, tool string) string {
	w.Helper()
	if w.version.Era() == protocol.Legacy {
		return h.runInSession(w, tool)
	}
	if h.result != "" {
		return w.call(tool, func(string) string { return h.result })
	}
	// Without an answer nothing is sent, and a retry cannot carry an error.
	if got := w.leg(protocol.MethodCallTool, tool, "", nil, nil); got.Result == nil ||
		got.Result.ResultType != "input_required" {
		w.Error("nothing was asked")
	}
	return "(the host's own words: it does not send the call again)"
}

func (h host) runInSession(w *wire, tool string) string {
	response := w.post(w.Context(), w.body(protocol.MethodCallTool, tool, ""))
	got := w.read(response, func(string) (member string, goOn bool) {
		switch {
		case h.result != "":
			member = `"result":` + h.result
		case h.err != "":
			member = `"error":` + h.err
		}
		return member, !h.leaves
	})
	if h.leaves {
		_ = response.Body.Close()
		w.await("mcp.request")
		return "(the host's own words: it has left)"
	}
	discard(response)
	return got.Result.Content[0].Text
}

// Seven kinds of host that declare elicitation but show no question, over HTTP in both eras and
// with both styles, match testdata/hosts.md. No question counts as declined by a user, and nothing
// is paid.
func TestHostsThatShowNothing(t *testing.T) {
	s := newTranscript(introOfHosts)
	for _, h := range hosts() {
		for _, version := range []protocol.Version{protocol.V20260728, protocol.V20251125} {
			for _, tool := range []string{"pay", "pay_guard"} {
				// A slow machine must not turn a host into a user, or the reverse.
				funnel := roundtrip.Options{MinHumanTime: time.Hour}
				if h.result == "" && h.err == "" {
					funnel.HumanTimeout = 10 * time.Millisecond
				}
				w := newWire(t, version, wireOptions{funnel: funnel,
					log: middleware.Options{
						Subject: func(p protocol.Principal) string { return p.Subject }}})
				var read string
				s.scene(w, fmt.Sprintf("A host that %s: %s, %s", h.name, tool, version),
					func() { read = h.run(w, tool) })
				fmt.Fprintf(s, "Its model and its user read: %s\n\n", read)
				if strings.Contains(read, "paid") || strings.Contains(read, "the person does not") {
					t.Errorf("%s, %s, %s: read %q", h.name, tool, version, read)
				}
			}
		}
	}
	s.compare(t, "hosts.md")
}

const introOfHosts = `# Hosts that do not show questions

Each section is a host that declares elicitation and shows its user nothing, at a tool that asks before it pays: ` + "`pay`" + ` in flow
style, ` + "`pay_guard`" + ` in guard style. It has what Log writes, by how much the series of Metrics grow, and what the model and its user
read. Ids are numbered, and times and sizes left out. This file is checked by a test.

`
