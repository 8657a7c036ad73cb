package toollist_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/leaktest"
	"github.com/rondo-mcp/rondo/internal/toollist"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is an upstream and the server of a gateway.
type world struct {
	mu     sync.Mutex
	has    map[string]string // texts by name
	fail   error
	always func() // called when the tools are listed, nil: nothing
	lists  int
	did    []string // to the server
}

func (w *world) list(t *testing.T) *toollist.List {
	l := toollist.New(t.Context(), toollist.Options{Find: w.find,
		Remove: func(name string) { w.did = append(w.did, "-"+name) }})
	t.Cleanup(l.Stop)
	return l
}

func (w *world) find(context.Context) (all []toollist.Tool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists++
	if w.always != nil {
		w.always()
	}
	for name, text := range w.has {
		all = append(all, toollist.Tool{Name: name, Text: text, Add: func() {
			if text == "bad" {
				panic("no schema")
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.did = append(w.did, "+"+name)
		}})
	}
	return all, w.fail
}

func (w *world) wantDone(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Sort(w.did); !slices.Equal(w.did, want) {
		t.Errorf("did %q, want %q", w.did, want)
	}
	w.did = nil
}

// count is how often the tools were listed.
func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lists
}

func (w *world) setFailure(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = err
}

// sleep lets fake time pass, and what happens then.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestOnlyChangesArePublished(t *testing.T) {
	w := &world{has: map[string]string{"a": "1", "b": "1", "c": "1"}}
	l := w.list(t)
	update := func() error {
		t.Helper()
		refused, err := l.Update(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return refused
	}
	if refused := update(); refused != nil {
		t.Error(refused)
	}
	w.wantDone(t, "+a", "+b", "+c")
	w.has = map[string]string{"a": "1", "b": "2", "d": "bad"}
	if refused := update(); refused == nil || !strings.Contains(refused.Error(), `"d": no schema`) {
		t.Errorf("refused %v, want d", refused)
	}
	w.wantDone(t, "+b", "-c")
	w.fail = errors.New("gone")
	if _, err := l.Update(t.Context()); !errors.Is(err, w.fail) {
		t.Errorf("got %v", err)
	}
	w.wantDone(t)
}

func TestUpdatesThatFailAreMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[string]string{"a": "1"}, fail: errors.New("gone")}
		l := w.list(t)
		for range 5 {
			l.UpdateLater()
		}
		sleep(time.Minute)
		if n := w.count(); n < 5 || n > 15 {
			t.Errorf("the tools were listed %d times in a minute", n)
		}
		w.setFailure(nil)
		sleep(time.Minute)
		w.wantDone(t, "+a")
		before := w.count()
		sleep(time.Minute)
		if w.count() != before {
			t.Errorf("the tools were listed again without a reason")
		}
		l.Stop()
		l.UpdateLater()
		synctest.Wait()
		if w.count() != before {
			t.Errorf("the tools were listed after the end")
		}
	})
}

// TestAnUpstreamThatChangesAllTheTime does not keep the gateway busy.
func TestAnUpstreamThatChangesAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		l := w.list(t)
		w.always = l.UpdateLater
		l.UpdateLater()
		sleep(time.Second)
		if n := w.count(); n < 2 || n > 11 {
			t.Errorf("the tools were listed %d times in a second", n)
		}
		l.Stop()
		synctest.Wait()
	})
}
