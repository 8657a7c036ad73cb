package gosdk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
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

// TestUnseenIsOffInMemoryUnlessSet: a client over the SDK's transport in memory is in the process.
func TestUnseenIsOffInMemoryUnlessSet(t *testing.T) {
	for _, revision := range []string{modern, legacy} {
		for min, want := range map[time.Duration]string{0: "left alone: decline",
			time.Hour: "without showing the question"} {
			a, err := gosdk.New(&gosdk.Options{Options: roundtrip.Options{MinHumanTime: min}})
			if err != nil {
				t.Fatal(err)
			}
			server := mcp.NewServer(&mcp.Implementation{Name: "script", Version: "1.0.0"}, nil)
			server.AddTool(&mcp.Tool{Name: "deploy", InputSchema: raw(`{"type":"object"}`)},
				guarded().tool)
			ours, theirs := mcp.NewInMemoryTransports()
			connectRaw(t, server, a.Transport(server, theirs))
			who := newPerson(t, map[string]string{"deploy?": "decline"})
			got, err := dialSDK(t, who, false, revision, ours).do(within(t), "deploy")
			if !strings.Contains(got, want) {
				t.Errorf("%s, %v: got %q, %v, want %q", revision, min, got, err, want)
			}
		}
	}
}
