package upstream_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/upstream"
)

// world is where connections are numbers.
type world struct {
	mu             sync.Mutex
	opened, closed []int
	ended          map[int]bool
	// How long these take.
	opening, closing time.Duration
	fail             error
}

func (w *world) pool(maximum, waiting int) *upstream.Pool[int, string, string] {
	w.ended = map[int]bool{}
	return upstream.New(upstream.Options[int, string, string]{
		Max: maximum, MaxWaiting: waiting, IdleTimeout: time.Minute,
		Open: func(string) (int, error) {
			time.Sleep(w.opening)
			if w.fail != nil {
				return 0, w.fail
			}
			w.opened = append(w.opened, len(w.opened)+1)
			return len(w.opened), nil
		},
		Close: func(conn int) {
			time.Sleep(w.closing)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.closed = append(w.closed, conn)
		},
		HasEnded: func(conn int) bool { return w.ended[conn] },
	})
}

func acquire(t *testing.T, p *upstream.Pool[int, string, string], kind, account string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	conn, err := p.Acquire(ctx, kind, account)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// refused wants that a call gets no connection within a second.
func refused(t *testing.T, p *upstream.Pool[int, string, string], kind, account string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if conn, err := p.Acquire(ctx, kind, account); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %d, %v, want nothing", conn, err)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.pool(2, 10)
		first := acquire(t, p, "k", "")
		p.Release(first, "k", "", true)
		if again := acquire(t, p, "k", ""); again != first {
			t.Errorf("got %d, want %d", again, first)
		}
		p.Release(first, "k", "", true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !slices.Equal(w.closed, []int{1}) {
			t.Errorf("closed %v, want the idle one", w.closed)
		}
	})
}

func TestThereIsABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.pool(2, 1)
		one, two := acquire(t, p, "k", ""), acquire(t, p, "k", "")
		got := make(chan int)
		go func() { got <- acquire(t, p, "k", "") }()
		synctest.Wait()
		if _, err := p.Acquire(t.Context(), "k", ""); !errors.Is(err, upstream.ErrFull) {
			t.Errorf("got %v, want ErrFull", err)
		}
		p.Release(one, "k", "", true)
		if conn := <-got; conn != one {
			t.Errorf("got %d, want %d", conn, one)
		}
		p.Release(one, "k", "", true)
		p.Release(two, "k", "", true)
		p.Close()
		synctest.Wait()
		if slices.Sort(w.closed); !slices.Equal(w.closed, []int{1, 2}) {
			t.Errorf("closed %v", w.closed)
		}
		if _, err := p.Acquire(t.Context(), "k", ""); !errors.Is(err, upstream.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
}

func TestAnAccountHasAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.pool(4, 10)
		acquire(t, p, "k", "alice")
		one := acquire(t, p, "k", "alice")
		refused(t, p, "k", "alice")
		acquire(t, p, "k", "bob")
		p.Release(one, "k", "alice", true)
		acquire(t, p, "k", "alice")
		refused(t, p, "k", "alice")
		acquire(t, p, "k", "")
		refused(t, p, "k", "")
	})
}

func TestConnectionsOfAnotherKindMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.pool(1, 10)
		p.Release(acquire(t, p, "k", ""), "k", "", true)
		if conn := acquire(t, p, "other", ""); conn != 2 {
			t.Errorf("got %d, want a new one", conn)
		}
		synctest.Wait()
		if !slices.Equal(w.closed, []int{1}) {
			t.Errorf("closed %v, want the one of the other kind", w.closed)
		}
	})
}

func TestWhatEndedIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.pool(1, 10)
		conn := acquire(t, p, "k", "")
		w.ended[conn] = true
		p.Release(conn, "k", "", true)
		conn = acquire(t, p, "k", "")
		p.Release(conn, "k", "", false)
		conn = acquire(t, p, "k", "")
		p.Release(conn, "k", "", true)
		p.Remove(conn)
		if conn = acquire(t, p, "k", ""); conn != 4 {
			t.Errorf("got %d, want the fourth", conn)
		}
		synctest.Wait()
		if slices.Sort(w.closed); !slices.Equal(w.closed, []int{1, 2, 3}) {
			t.Errorf("closed %v", w.closed)
		}
		p.Release(conn, "k", "", true)
		w.fail = errors.New("no room")
		p.Remove(conn)
		if _, err := p.Acquire(t.Context(), "k", ""); !errors.Is(err, w.fail) {
			t.Errorf("got %v", err)
		}
		w.fail = nil
		acquire(t, p, "k", "")
	})
}

// Connections that take long to close count, so that they do not add up.
func TestWhatIsBeingClosedCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{closing: time.Hour}
		p := w.pool(2, 10)
		for range 2 {
			p.Release(acquire(t, p, "k", ""), "k", "", false)
		}
		acquire(t, p, "k", "")
		acquire(t, p, "k", "")
		refused(t, p, "k", "")
		if len(w.opened) != 4 {
			t.Errorf("%d are open, want 4", len(w.opened))
		}
		time.Sleep(2 * time.Hour)
	})
}

// A call that gives up while its turn comes leaves the connection to others.
func TestTurnsAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.pool(1, 100)
		conn := acquire(t, p, "k", "")
		ctx, cancel := context.WithCancel(t.Context())
		for range 20 {
			go func() {
				if conn, err := p.Acquire(ctx, "k", ""); err == nil {
					p.Release(conn, "k", "", true)
				}
			}()
		}
		synctest.Wait()
		go cancel()
		p.Release(conn, "k", "", true)
		synctest.Wait()
		if again := acquire(t, p, "k", ""); again != conn {
			t.Errorf("got %d, want %d", again, conn)
		}
	})
}

// TestAnAccountLeavesTheQueueToOthers: one account may have half of the calls that wait.
func TestAnAccountLeavesTheQueueToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.pool(1, 4)
		acquire(t, p, "k", "alice")
		for range 2 {
			go func() { _, _ = p.Acquire(t.Context(), "k", "alice") }()
		}
		synctest.Wait()
		if _, err := p.Acquire(t.Context(), "k", "alice"); !errors.Is(err, upstream.ErrFull) {
			t.Errorf("alice: got %v, want ErrFull", err)
		}
		refused(t, p, "k", "bob") // since nobody gives one back, and not because of the queue
		p.Close()
	})
}

// TestAccountsTakeTurns: a call does not wait for all calls of another account that came before.
func TestAccountsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.pool(1, 100)
		conn := acquire(t, p, "k", "alice")
		var served []string
		call := func(account string) {
			go func() {
				if conn, err := p.Acquire(t.Context(), "k", account); err == nil {
					served = append(served, account)
					p.Release(conn, "k", account, true)
				}
			}()
			synctest.Wait()
		}
		for _, account := range []string{"alice", "alice", "alice", "bob", "", "bob"} {
			call(account)
		}
		p.Release(conn, "k", "alice", true)
		synctest.Wait()
		want := []string{"alice", "bob", "", "alice", "bob", "alice"}
		if !slices.Equal(served, want) {
			t.Errorf("served %q, want %q", served, want)
		}
		p.Close()
	})
}

// TestTheUnknownLeaveSomeToTheKnown as soon as somebody is known.
func TestTheUnknownLeaveSomeToTheKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.pool(4, 10)
		var conns []int
		for range 4 {
			conns = append(conns, acquire(t, p, "k", ""))
		}
		refused(t, p, "k", "alice")
		for _, conn := range conns[:2] {
			p.Release(conn, "k", "", true)
		}
		acquire(t, p, "k", "")
		refused(t, p, "k", "")
		acquire(t, p, "k", "alice")
	})
}

// TestACallThatEndsWhileAConnectionOpens does not wait for it, and leaves it to others.
func TestACallThatEndsWhileAConnectionOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.pool(1, 10)
		w.opening = time.Minute
		began := time.Now()
		refused(t, p, "k", "alice")
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("the call waited for %v, want a second", waited)
		}
		time.Sleep(time.Minute)
		if conn := acquire(t, p, "k", "bob"); conn != 1 {
			t.Errorf("got %d, want the first", conn)
		}
	})
}
