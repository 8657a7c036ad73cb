package upstream_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/upstream"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// listWorld is an upstream and the server of a gateway.
type listWorld struct {
	mu     sync.Mutex
	has    map[string]string // texts by name
	fail   error
	always func() // called when the tools are listed, nil: nothing
	lists  int
	did    []string // to the server
}

func (w *listWorld) list(t *testing.T) *upstream.List {
	l := upstream.NewLists(t.Context(), w.options(upstream.Tools))
	t.Cleanup(l.Stop)
	return l
}

func (w *listWorld) options(kind upstream.Kind) upstream.ListOptions {
	return upstream.ListOptions{Kind: kind, Find: w.find,
		Remove: func(name string) { w.did = append(w.did, "-"+name) }}
}

func (w *listWorld) find(context.Context) (all []upstream.Item, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists++
	if w.always != nil {
		w.always()
	}
	for name, text := range w.has {
		all = append(all, upstream.Item{Name: name, Text: text, Add: func() {
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

func (w *listWorld) wantDone(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Sort(w.did); !slices.Equal(w.did, want) {
		t.Errorf("did %q, want %q", w.did, want)
	}
	w.did = nil
}

// count is how often the tools were listed.
func (w *listWorld) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lists
}

func (w *listWorld) setFailure(err error) {
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
	w := &listWorld{has: map[string]string{"a": "1", "b": "1", "c": "1"}}
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
	refused := update()
	if refused == nil || !strings.Contains(refused.Error(), `tool "d": no schema`) {
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
		w := &listWorld{has: map[string]string{"a": "1"}, fail: errors.New("gone")}
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

// TestAnUpstreamThatIsDownAtFirst is listed after a second, and then after twice the time up to a
// minute, until it is there.
func TestAnUpstreamThatIsDownAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set upstream.Set
		defer set.Stop()
		w := &listWorld{has: map[string]string{"a": "1"}, fail: errors.New("down")}
		opts, warnings := w.options(upstream.Tools), atomic.Int32{}
		opts.Warn = func(error) { warnings.Add(1) }
		if _, err := set.Publish(t.Context(), opts); !errors.Is(err, w.fail) {
			t.Errorf("got %v", err)
		}
		for n, seconds := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			sleep(seconds*time.Second - time.Millisecond)
			if w.count() != n+1 {
				t.Errorf("listed %d times before %d s more, want %d", w.count(), seconds, n+1)
			}
			sleep(time.Millisecond)
		}
		w.setFailure(nil)
		sleep(time.Minute)
		w.wantDone(t, "+a")
		if n := warnings.Load(); n != 1 {
			t.Errorf("%d warnings of one failure", n)
		}
	})
}

// TestAnUpstreamThatChangesAllTheTime does not keep the gateway busy.
func TestAnUpstreamThatChangesAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &listWorld{}
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

func TestListsOfOneUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set upstream.Set
		publish := func(kind upstream.Kind, w *listWorld) error {
			refused, err := set.Publish(t.Context(), w.options(kind))
			return errors.Join(refused, err)
		}
		set.UpdateLater() // there is none
		tools := &listWorld{has: map[string]string{"a": "1"}}
		prompts := &listWorld{has: map[string]string{"p": "1"}}
		if err := errors.Join(publish(upstream.Tools, tools),
			publish(upstream.Prompts, prompts)); err != nil {
			t.Fatal(err)
		}
		if err := publish(upstream.Prompts, prompts); err == nil ||
			!strings.Contains(err.Error(), "prompts were published before") {
			t.Errorf("a second list of prompts: %v", err)
		}
		tools.wantDone(t, "+a")
		prompts.wantDone(t, "+p")
		for _, changed := range [][]upstream.Kind{{upstream.Prompts}, nil} {
			beforeTools, beforePrompts := tools.count(), prompts.count()
			set.UpdateLater(changed...)
			sleep(time.Second)
			if got := tools.count() - beforeTools; got != 1-len(changed) {
				t.Errorf("%v changed: the tools were listed %d times", changed, got)
			}
			if got := prompts.count() - beforePrompts; got != 1 {
				t.Errorf("%v changed: the prompts were listed %d times", changed, got)
			}
		}
		set.Stop()
		before := tools.count()
		set.UpdateLater()
		synctest.Wait()
		if err := publish(upstream.Resources, tools); !errors.Is(err, upstream.ErrStopped) ||
			tools.count() != before {
			t.Errorf("after the end: %v", err)
		}
	})
}

// One that was published and is not accepted any more goes.
func TestItemsThatAreNotAcceptedAnyMoreGo(t *testing.T) {
	one := &listWorld{has: map[string]string{"a": "1"}}
	first := one.list(t)
	if _, err := first.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	one.has["a"] = "bad"
	if refused, err := first.Update(t.Context()); err != nil || refused == nil {
		t.Errorf("got %v, %v", refused, err)
	}
	one.wantDone(t, "+a", "-a")
}

func TestOneOfTwoOfTheSameNameIsPublished(t *testing.T) {
	var added []string
	l := upstream.NewLists(t.Context(), upstream.ListOptions{Kind: upstream.Tools,
		Remove: func(string) {},
		Find: func(context.Context) (items []upstream.Item, err error) {
			for _, text := range []string{"1", "2"} {
				items = append(items, upstream.Item{Name: "a", Text: text,
					Add: func() { added = append(added, text) }})
			}
			return items, nil
		}})
	defer l.Stop()
	for range 3 {
		refused, err := l.Update(t.Context())
		if err != nil || refused == nil || !strings.Contains(refused.Error(), "listed twice") {
			t.Errorf("got %v, %v", refused, err)
		}
	}
	if !slices.Equal(added, []string{"1"}) {
		t.Errorf("added %q", added)
	}
}
