package gosdk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestUnseenInEveryStyle: a client that refuses without showing the question. Handlers in the SDK's
// own terms get the action as the client sent it, which refuses; those of package roundtrip get an
// outcome of its own, and their friendly words for a person are not said.
func TestUnseenInEveryStyle(t *testing.T) {
	for _, s := range styles() {
		for _, r := range routes() {
			for _, sc := range []struct{ target, question, action, want string }{
				{"deploy", "deploy?", "decline", "left alone: decline"},
				{"deploy", "deploy?", "cancel", "left alone: cancel"},
				{"sign_in", "Sign in", "decline", "visit decline"},
				{"sign_in", "Sign in", "cancel", "visit cancel"},
			} {
				t.Run(strings.Join([]string{s.name, r.name, sc.target, sc.action}, "/"),
					func(t *testing.T) {
						who := newPerson(t, map[string]string{sc.question: sc.action})
						unseen := withFunnel(roundtrip.Options{MinHumanTime: time.Hour})
						c, _ := r.open(t, serverOf(t, style{name: s.name, tool: s.tool,
							prompt: s.prompt, read: s.read,
							options: append([]option{unseen}, s.options...)}), who, false)
						got, err := c.do(within(t), sc.target)
						if s.name == "guarded" {
							if !strings.Contains(got, "without showing the question") {
								t.Errorf("got %q, %v", got, err)
							}
						} else if err != nil || got != sc.want {
							t.Errorf("got %q, %v, want %q", got, err, sc.want)
						}
					})
			}
		}
	}
}
