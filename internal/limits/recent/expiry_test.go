package recent_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
)

func TestAQueueThatWasStoppedKeepsNothing(t *testing.T) {
	q := recent.NewQueue(-1, func(int) {})
	var entry recent.Entry[int]
	q.Stop()
	q.Add(&entry, 1) // a stream may end while its handler does
	q.Remove(&entry)
	if v, ok := q.RemoveOldest(); ok {
		t.Errorf("%d is left", v)
	}
}

func TestValuesAreEvictedInTheOrderInWhichTheyWereAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // each eviction has its own goroutine
		var evicted []int
		q := recent.NewQueue(time.Minute, func(v int) {
			mu.Lock()
			defer mu.Unlock()
			evicted = append(evicted, v)
		})
		var entries [4]recent.Entry[int]
		for i := range entries {
			q.Add(&entries[i], i)
			time.Sleep(10 * time.Second)
		}
		q.Remove(&entries[1])
		q.Add(&entries[0], 0) // used again, so it moves to the end
		time.Sleep(45 * time.Second)
		synctest.Wait()
		if len(evicted) != 1 || evicted[0] != 2 {
			t.Errorf("got %v, want 2", evicted)
		}
		if v, since, ok := q.PeekOldest(); !ok || v != 3 || time.Since(since) != 55*time.Second {
			t.Errorf("got %d, %v ago, %t, want 3", v, time.Since(since), ok)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(evicted) != 3 || evicted[1] != 3 || evicted[2] != 0 {
			t.Errorf("got %v, want 2, 3, 0", evicted)
		}
	})
}
