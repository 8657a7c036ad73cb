package elicitation_test

import (
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Code of the host's that panics costs no slot, and no question its one end.
func TestPanicsInCodeOfTheHost(t *testing.T) {
	log := func(kind string) elicitation.Options {
		return elicitation.Options{Log: logFunc(func(name string) {
			if strings.HasSuffix(name, kind) {
				panic("log")
			}
		})}
	}
	for _, test := range []struct {
		name    string
		options elicitation.Options
		clock   func() func()
		offered bool
	}{
		{"redactor", elicitation.Options{Redactor: func(string) string { panic("redactor") }}, nil,
			false},
		{"pause", elicitation.Options{}, func() func() { panic("pause") }, false},
		{"resume", elicitation.Options{}, func() func() { return func() { panic("resume") } },
			true},
		{"log of the creation", log(".created"), nil, true},
		{"log of the delivery", log(".delivered"), nil, true},
		{"log of the end", log(".completed"), nil, true},
		{"log of all", log(""), nil, true},
		{"watcher of the beginning", elicitation.Options{}, nil, true},
		{"watcher of the end", elicitation.Options{}, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, test.options)
			s := r.attach(elicitation.SessionInfo{ID: "s1"})
			ctx := roundtrip.WatchWaiting(t.Context(), func(waiting bool) {
				if waiting && test.name == "watcher of the beginning" || !waiting &&
					test.name == "watcher of the end" {
					panic("watcher")
				}
			})
			call := r.beginIn(ctx, elicitation.Origin{Session: s, PauseTimeout: test.clock},
				byHand(), "up")
			ends := 0
			var offered *offered
			func() {
				defer func() { _ = recover() }()
				offered, _ = offer(call, t.Context(), form("m"), nil,
					func(outcome) { ends++ })
			}()
			if (offered != nil) != test.offered {
				t.Fatalf("offered is %v", offered)
			}
			if offered != nil {
				offered.ConfirmDelivery()
				if d := r.HandleReply(s.Sender(),
					result(offered.Request().ID, yes)); d != elicitation.Accepted {
					t.Errorf("the reply is %v", d)
				}
				if ends != 1 {
					t.Errorf("the question ended %d times", ends)
				}
			}
			call.End()
			r.settled()
		})
	}
}
