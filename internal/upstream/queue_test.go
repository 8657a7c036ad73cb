package upstream_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/upstream"
)

func TestMessagesAreSentInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q upstream.Queue
		var sent []int
		for i := range 5 {
			q.Add(func() { sent = append(sent, i) })
		}
		q.Finish(t.Context())
		if !slices.Equal(sent, []int{0, 1, 2, 3, 4}) {
			t.Errorf("sent %v", sent)
		}
		q.Add(func() { t.Error("sent after the end") })
		synctest.Wait()
	})
}

func TestASlowReceiverLosesMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q upstream.Queue
		free, sent := make(chan struct{}), 0
		q.Add(func() { <-free })
		synctest.Wait()
		for range 1000 {
			q.Add(func() { sent++ })
		}
		began := time.Now()
		q.Finish(t.Context())
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the result waited for %v", took)
		}
		close(free)
		synctest.Wait()
		if sent != 64 {
			t.Errorf("%d messages were sent, want 64", sent)
		}
	})
}
