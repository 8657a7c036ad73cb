package inflight_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestCancellationCountsOnceAndForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s inflight.EarlyCancels
		want := func(what string, id protocol.ID, want bool) {
			t.Helper()
			if got := s.Take(id); got != want {
				t.Errorf("%s: got %v, want %v", what, got, want)
			}
		}
		one := protocol.IntID(1)
		want("nothing", one, false)
		s.Note(one)
		want("another type", protocol.StringID("1"), false)
		want("noted", one, true)
		want("used up", one, false)

		s.Note(one)
		time.Sleep(inflight.EarlyCancelLife - 1)
		want("in time", one, true)
		s.Note(one)
		time.Sleep(inflight.EarlyCancelLife)
		want("too old", one, false)

		s.Note(one)
		for i := range inflight.MaxEarlyCancels - 1 {
			s.Note(protocol.IntID(int64(10 + i)))
		}
		want("the oldest of as many as fit", one, true)
		s.Note(one)
		for i := range inflight.MaxEarlyCancels {
			s.Note(protocol.IntID(int64(100 + i)))
		}
		want("one too many", one, false)
		want("the newest", protocol.IntID(100+inflight.MaxEarlyCancels-1), true)

		long := protocol.StringID(strings.Repeat("x", inflight.MaxEarlyCancelID))
		s.Note(long)
		want("too long", long, false)
	})
}
