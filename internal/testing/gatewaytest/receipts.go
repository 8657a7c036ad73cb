package gatewaytest

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// AcceptReceipts holds that an answer which the upstream does not take is none, and that the
// connection serves other calls. want is how the question ends, in the log.
func AcceptReceipts(t *testing.T, build Build, want string) {
	core, logs := observer.New(zap.DebugLevel)
	ended := make(chan string, 2)
	signal := zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == "elicitation.error" || e.Message == "elicitation.completed" {
			ended <- e.Message
		}
		return nil
	})
	wait := func(want string) {
		t.Helper()
		select {
		case got := <-ended:
			if got != want {
				t.Errorf("a question ended with %s, want %s", got, want)
			}
		case <-time.After(8 * time.Second): // less than after which an answer counts as lost
			t.Fatalf("no question ended, want %s", want)
		}
	}
	router, up := newRouter(t,
		&elicitation.Options{Log: zaplog.New(zap.New(core, signal))}), NewUpstream(t)
	url := serve(t, build, router, &Backend{Upstream: up})
	alice := Connect(t, url, forms, `"result":`+because, nil)
	bob := Connect(t, url, forms, `"result":`+because, nil)
	up.RefuseAnswers.Store(true)
	stream := alice.StartCall(t, ToolAsk, plain)
	defer stream.Close()
	alice.Answer(t, stream)
	wait(want)
	up.RefuseAnswers.Store(false)
	if got := bob.Call(t, ToolAsk, plain); got != because {
		t.Errorf("bob's upstream reads %s", got)
	}
	wait("elicitation.completed") // which may be after the upstream has gone on
	lost := logs.Filter(func(e observer.LoggedEntry) bool {
		return e.ContextMap()["reason"] == "answer_lost"
	}).All()
	if want != "elicitation.error" {
		return
	}
	completed := logs.FilterMessage("elicitation.completed").All()
	if len(lost) != 1 || len(completed) != 1 {
		t.Fatalf("logged %v", logs.All())
	}
	if one, other := lost[0].ContextMap()["upstream_session"],
		completed[0].ContextMap()["upstream_session"]; one != other {
		t.Errorf("the connections are %v and %v, want one", one, other)
	}
}
