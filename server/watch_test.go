package server_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/rondo-mcp/rondo/server"
)

// Watch and stop take long while subscribers come and go.
func TestWatchDoesNotOverlap(t *testing.T) {
	const toA = `"resourceSubscriptions":["x:a"]`
	var h *harness
	var calls chan string
	var proceed chan struct{}
	wait := func(name string) {
		calls <- name
		h.ResourceUpdated("x:a") // no lock is held
		<-proceed
	}
	watch := func(_ context.Context, uri string) func() {
		wait("watch")
		return func() { wait("stop") }
	}
	listens(t, &server.Options{Watch: watch}, func(t *testing.T, served *harness) {
		h, calls, proceed = served, make(chan string, 10), make(chan struct{})
		wants := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for _, want := range want {
				wantEqual(t, "called", <-calls, want)
			}
			if len(calls) > 0 {
				t.Fatalf("called %s", <-calls)
			}
		}
		gone := func(l *listening) {
			l.stop()
			<-l.done
		}
		lists[2].add(h.Server, "a")
		first := h.listen(t.Context(), `1`, toA)
		wants("watch")
		wantEqual(t, "messages before Watch has returned", len(first.raw), 0)
		gone(first)
		second := h.listen(t.Context(), `2`, toA)
		wants()
		proceed <- struct{}{}
		wants("stop")
		gone(second) // its Watch never begins
		third, fourth := h.listen(t.Context(), `3`, toA), h.listen(t.Context(), `4`, toA)
		wants()
		proceed <- struct{}{} // let stop return
		wants("watch")
		proceed <- struct{}{}
		synctest.Wait()
		wantEqual(t, "messages after Watch has returned", third.got[0], "subscriptions/acknowledged")
		gone(third)
		wants()
		gone(fourth)
		wants("stop")
		fifth := h.listen(t.Context(), `5`, toA)
		h.Close()
		<-fifth.done
		proceed <- struct{}{}
		wants()
	})
}

// The subscription continues without stop.
func TestWatchPanics(t *testing.T) {
	for name, watch := range map[string]func(context.Context, string) func(){
		"watch": func(context.Context, string) func() { panic("watch") },
		"stop":  func(context.Context, string) func() { return func() { panic("stop") } },
		"nil":   func(context.Context, string) func() { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			listens(t, &server.Options{Watch: watch}, func(t *testing.T, h *harness) {
				lists[2].add(h.Server, "a")
				l := h.listen(t.Context(), `1`, `"resourceSubscriptions":["x:a"]`)
				h.ResourceUpdated("x:a")
				l.wants("resources/updated x:a")
				noError(t, h.Shutdown(t.Context()))
				l.endsWell()
				wantEqual(t, "panic reported", h.events.panicked(), name != "nil")
			})
		})
	}
}
