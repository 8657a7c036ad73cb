package elicitation_test

import (
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Panics in host code leak no slot, and each question still has one end.
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
		offered bool
	}{
		{"redactor",
			elicitation.Options{Redactor: func(string) string { panic("redactor") }}, false},
		{"log of the creation", log(".created"), true},
		{"log of the delivery", log(".delivered"), true},
		{"log of the end", log(".completed"), true},
		{"log of all", log(""), true},
		{"watcher of the beginning", elicitation.Options{}, true},
		{"watcher of the end", elicitation.Options{}, true},
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
			call := r.beginIn(ctx, elicitation.Origin{Session: s},
				byHand(), "up")
			ends := 0
			offered, err := offer(call, t.Context(), form("m"), func(outcome) { ends++ })
			if (err == nil) != test.offered {
				t.Fatalf("offered is %v, %v", offered, err)
			}
			if test.offered {
				offered.ConfirmDelivery()
				r.complete(s.Sender(), result(offered.Request().ID, yes), elicitation.Accepted)
				wantEqual(t, "ends of the question", ends, 1)
			}
			call.End()
			r.settled()
		})
	}
}
