package upstream

// This file keeps what a gateway's server offers like what an upstream has: its tools,
// prompts and resources.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// MaxItems bounds a list of an upstream: one that does not end would fill the memory.
const MaxItems = 10_000

const (
	// listTimeout bounds the listing of what an upstream has.
	listTimeout = 30 * time.Second
	// pause is the least time between two updates in the background, so that an upstream whose
	// lists change all the time does not keep the gateway busy.
	pause = 100 * time.Millisecond
	// firstRetry is the time between an update that fails and the next one. It doubles each time,
	// up to lastRetry.
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// A Kind is what a list is of. It is in the texts of errors.
type Kind string

// The kinds of lists.
const (
	Tools             Kind = "tool"
	Prompts           Kind = "prompt"
	Resources         Kind = "resource"
	ResourceTemplates Kind = "resource template"
)

// An Item is one thing that an upstream has.
type Item struct {
	Name string // under which it is published: a name or a URI
	Text string // all of it: one whose text stays needs no publishing
	// Add publishes the item, in the place of one of the same name. It may panic, as SDKs do
	// for what they do not accept.
	Add func()
}

// ListOptions configure a [List]. All but Warn are required.
type ListOptions struct {
	Kind Kind
	// Find returns the items that the upstream has.
	Find func(ctx context.Context) ([]Item, error)
	// Remove removes an item that was published.
	Remove func(name string)
	// Warn gets the errors of updates in the background, each once until it changes. Nil: nobody.
	Warn func(err error)
}

// A List has the items of an upstream that are published. All methods may be called concurrently.
type List struct {
	opts   ListOptions
	ctx    context.Context // ends with Stop
	cancel context.CancelFunc

	updating  sync.Mutex        // held while items are listed
	published map[string]string // the texts of items by name; guarded by updating

	mu      sync.Mutex
	running bool // updateUntilDone runs
	wanted  bool // and has to do it once more
}

// NewLists returns a list of no items. ctx gives values to the updates in the background.
func NewLists(ctx context.Context, opts ListOptions) *List {
	l := &List{opts: opts, published: make(map[string]string)}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// Stop ends all updates. The items stay published.
func (l *List) Stop() { l.cancel() }

// UpdateLater updates the list in the background, once for any number of calls, and tries again
// until it succeeds.
func (l *List) UpdateLater() { l.updateAfter(0) }

// updateAfter is UpdateLater after a time.
func (l *List) updateAfter(wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = true
	if !l.running && l.ctx.Err() == nil {
		l.running = true
		go l.updateUntilDone(wait)
	}
}

func (l *List) updateUntilDone(wait time.Duration) {
	retry, warned := max(firstRetry, 2*wait), ""
	for {
		select {
		case <-time.After(wait):
		case <-l.ctx.Done():
		}
		l.mu.Lock()
		if !l.wanted || l.ctx.Err() != nil {
			l.running = false
			l.mu.Unlock()
			return
		}
		l.wanted = false
		l.mu.Unlock()
		refused, err := l.Update(l.ctx)
		warned = l.warn(errors.Join(refused, err), warned)
		if err == nil {
			wait, retry = pause, firstRetry
			continue
		}
		wait, retry = retry, min(2*retry, lastRetry)
		l.mu.Lock()
		l.wanted = true
		l.mu.Unlock()
	}
}

// warn reports the error of an update unless it was reported last, and returns its text.
func (l *List) warn(err error, last string) string {
	if err == nil {
		return ""
	}
	if l.opts.Warn != nil && l.ctx.Err() == nil && err.Error() != last {
		l.opts.Warn(err)
	}
	return err.Error()
}

// Update publishes the items that the upstream has now, and removes those that it has no more.
// refused says which items were not accepted.
func (l *List) Update(ctx context.Context) (refused, err error) {
	l.updating.Lock()
	defer l.updating.Unlock()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	items, err := l.opts.Find(ctx)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string, len(items))
	for _, item := range items {
		if _, twice := found[item.Name]; twice {
			refused = errors.Join(refused, fmt.Errorf(
				"elicitation upstream: %s %q: it is listed twice", l.opts.Kind, item.Name))
			continue
		}
		if l.published[item.Name] != item.Text { // else clients would be told for nothing
			if err := l.add(item); err != nil {
				refused = errors.Join(refused, err)
				continue
			}
		}
		found[item.Name] = item.Text
	}
	for name := range l.published {
		if _, ok := found[name]; !ok {
			l.opts.Remove(name)
		}
	}
	l.published = found
	return refused, nil
}

// add publishes an item, where the SDK accepts it.
func (l *List) add(item Item) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("elicitation upstream: %s %q: %v", l.opts.Kind, item.Name, reason)
		}
	}()
	item.Add()
	return nil
}

// ErrStopped is the error of a [Set] that is stopped.
var ErrStopped = errors.New("elicitation upstream: closed")

// A Set has the lists of one upstream. Its zero value is ready. All methods may be called
// concurrently.
type Set struct {
	mu      sync.Mutex
	lists   map[Kind]*List
	stopped bool
}

// Publish makes a list and updates it, and again in the background until that succeeds. It fails
// for a kind that was published before. See [List.Update] for what it returns.
func (s *Set) Publish(ctx context.Context, opts ListOptions) (refused, err error) {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return nil, ErrStopped
	}
	if s.lists[opts.Kind] != nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("elicitation upstream: the %ss were published before", opts.Kind)
	}
	l := NewLists(ctx, opts)
	if s.lists == nil {
		s.lists = make(map[Kind]*List)
	}
	s.lists[opts.Kind] = l
	s.mu.Unlock()
	if refused, err = l.Update(ctx); err != nil {
		l.updateAfter(firstRetry)
	}
	return refused, err
}

// UpdateLater updates the lists of these kinds, all if there are none, that were published. See
// [List.UpdateLater].
func (s *Set) UpdateLater(kinds ...Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, l := range s.lists {
		if len(kinds) == 0 || slices.Contains(kinds, kind) {
			l.UpdateLater()
		}
	}
}

// Stop ends all updates. What is published stays so.
func (s *Set) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, l := range s.lists {
		l.Stop()
	}
}
