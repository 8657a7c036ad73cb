package waiting_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
)

// A chain is a context, child and grandchild, with their cancel functions, below a root.
type chain struct {
	cancelRoot context.CancelCauseFunc
	ctx        [3]context.Context
	cancel     [3]context.CancelCauseFunc
}

func newChain(t *testing.T, child func(parent context.Context) (context.Context,
	context.CancelCauseFunc)) *chain {
	c := &chain{}
	var parent context.Context
	parent, c.cancelRoot = context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
	for i := range c.ctx {
		c.ctx[i], c.cancel[i] = child(parent)
		parent = c.ctx[i]
	}
	return c
}

func (c *chain) end() {
	for _, cancel := range slices.Backward(c.cancel[:]) {
		cancel(nil)
	}
	c.cancelRoot(nil)
}

func lazily(parent context.Context) (context.Context, context.CancelCauseFunc) {
	c := new(waiting.Context)
	c.Init(parent)
	return c, c.Cancel
}

// TestChainSame compares chains of lazy contexts with chains of package context.
func TestChainSame(t *testing.T) {
	type step struct {
		name string
		do   func(*chain)
	}
	steps := []step{
		{"root ends", func(c *chain) { c.cancelRoot(nil) }},
		{"root cancels", func(c *chain) { c.cancelRoot(errors.ErrUnsupported) }},
	}
	for i, name := range []string{"first", "second", "third"} {
		steps = append(steps,
			step{name + " Done", func(c *chain) { c.ctx[i].Done() }},
			step{name + " derive", func(c *chain) {
				_, cancel := context.WithCancel(c.ctx[i])
				defer cancel()
			}},
			step{name + " end", func(c *chain) { c.cancel[i](nil) }},
			step{name + " cancel", func(c *chain) { c.cancel[i](errors.New(name)) }},
		)
	}
	seen := func(c *chain, from int) (seen [3]string) {
		for i := range seen {
			at := (from + i) % 3
			s := look(c.ctx[at])
			seen[at] = text(s.err) + ", " + text(s.cause)
			if s.done {
				seen[at] += ", done"
			}
		}
		return seen
	}
	for _, a := range steps {
		for _, b := range steps {
			for _, c := range steps {
				for from := range 3 {
					got, want := newChain(t, lazily), newChain(t, context.WithCancelCause)
					for _, s := range []step{a, b, c} {
						s.do(got)
						s.do(want)
					}
					if got, want := seen(got, from), seen(want, from); got != want {
						t.Errorf("%s, %s, %s, looked at from %d: got %q, want %q", a.name, b.name,
							c.name, from, got, want)
					}
					for _, ctx := range got.ctx {
						if v := ctx.Value(key{}); v != "v" {
							t.Errorf("%s, %s, %s: value: got %v, want v", a.name, b.name, c.name, v)
						}
					}
					got.end()
					want.end()
				}
			}
		}
	}
}

func text(err error) string {
	if err == nil {
		return "nil"
	}
	return err.Error()
}

// Waiters at one end of a chain see events at the other end, while other waiters come and go.
func TestChainConcurrently(t *testing.T) {
	for range 200 {
		c := newChain(t, lazily)
		var group sync.WaitGroup
		for i := range c.ctx {
			group.Go(func() { <-c.ctx[i].Done() })
			group.Go(func() {
				_, cancel := lazily(c.ctx[i])
				cancel(nil)
			})
			group.Go(func() { _ = context.Cause(c.ctx[i]) })
		}
		group.Go(func() { c.cancel[0](errWhy) })
		group.Wait()
		for i, ctx := range c.ctx {
			wantEqual(t, fmt.Sprint("cause of link ", i), context.Cause(ctx), errWhy)
		}
		c.end()
	}
}

// Waiting for a chain's end creates one context only.
func TestChainMakesOneContext(t *testing.T) {
	wait := func(parent context.Context, links int) float64 {
		return testing.AllocsPerRun(100, func() {
			ctx := parent
			var ends []context.CancelCauseFunc
			for range links {
				link, cancel := lazily(ctx)
				ends = append(ends, cancel)
				ctx = link
			}
			ctx.Done()
			for _, end := range slices.Backward(ends) {
				end(nil)
			}
		})
	}
	root := context.WithoutCancel(t.Context())
	const perLink = 4 // the link, its method value, its list, and the interface
	one, four := wait(root, 1), wait(root, 4)
	if four > one+3*perLink {
		t.Errorf("allocations: got %v for four links, %v for one, want at most %d more", four, one,
			3*perLink)
	}
}

// Values of links between must be found although the last real context is derived above the first.
func TestValueOfALinkIsFoundBelowIt(t *testing.T) {
	var links [3]waiting.Context
	parent := t.Context()
	for i := range links {
		links[i].Init(parent)
		parent = &links[i]
	}
	links[1].SetValues(context.WithValue(context.Background(), key{}, "v"))
	<-canceled(&links[2])
	for i, want := range []any{nil, "v", "v"} {
		wantEqual(t, fmt.Sprint("value of link ", i), links[i].Value(key{}), want)
	}
	child, cancel := context.WithCancel(&links[2])
	defer cancel()
	wantEqual(t, "value of a child of package context", child.Value(key{}), "v")
}

func canceled(c *waiting.Context) <-chan struct{} {
	done := c.Done()
	c.Cancel(nil)
	return done
}
