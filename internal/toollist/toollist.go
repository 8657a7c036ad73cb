// Package toollist keeps the tools of a gateway's server like those of an upstream.
package toollist

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// listTimeout bounds the listing of an upstream's tools.
	listTimeout = 30 * time.Second
	// pause is the least time between two updates in the background, so that an upstream whose
	// tools change all the time does not keep the gateway busy. Where an update fails the time
	// doubles each time, up to lastPause.
	pause     = 100 * time.Millisecond
	lastPause = 30 * time.Second
)

// A Tool is one that an upstream has.
type Tool struct {
	Name string // under which it is published
	Text string // all of it: one whose text stays needs no publishing
	// Add publishes the tool, in the place of one of the same name. It may panic, as SDKs do
	// for what they do not accept.
	Add func()
}

// Options configure a [List]. All are required.
type Options struct {
	// Find returns the tools that the upstream has.
	Find func(ctx context.Context) ([]Tool, error)
	// Remove removes a tool that was published.
	Remove func(name string)
}

// A List has the tools of an upstream that are published. All methods may be called concurrently.
type List struct {
	opts   Options
	ctx    context.Context // ends with Stop
	cancel context.CancelFunc

	updating  sync.Mutex        // held while tools are listed
	published map[string]string // the texts of tools by name; guarded by updating

	mu      sync.Mutex
	running bool // updateUntilDone runs
	wanted  bool // and has to do it once more
}

// New returns a list of no tools. ctx gives values to the updates in the background.
func New(ctx context.Context, opts Options) *List {
	l := &List{opts: opts, published: make(map[string]string)}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// Stop ends all updates. The tools stay published.
func (l *List) Stop() { l.cancel() }

// UpdateLater updates the list in the background, once for any number of calls, and tries again
// until it succeeds.
func (l *List) UpdateLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = true
	if !l.running && l.ctx.Err() == nil {
		l.running = true
		go l.updateUntilDone()
	}
}

func (l *List) updateUntilDone() {
	delay := pause
	for {
		l.mu.Lock()
		if !l.wanted || l.ctx.Err() != nil {
			l.running = false
			l.mu.Unlock()
			return
		}
		l.wanted = false
		l.mu.Unlock()
		wait := pause
		if _, err := l.Update(l.ctx); err == nil {
			delay = pause
		} else {
			wait, delay = delay, min(2*delay, lastPause)
			l.mu.Lock()
			l.wanted = true
			l.mu.Unlock()
		}
		select {
		case <-time.After(wait):
		case <-l.ctx.Done():
		}
	}
}

// Update publishes the tools that the upstream has now, and removes those that it has no more.
// refused says which tools were not accepted.
func (l *List) Update(ctx context.Context) (refused, err error) {
	l.updating.Lock()
	defer l.updating.Unlock()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	tools, err := l.opts.Find(ctx)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string, len(tools))
	for _, tool := range tools {
		if l.published[tool.Name] != tool.Text { // else clients would be told for nothing
			if err := add(tool); err != nil {
				refused = errors.Join(refused, err)
				continue
			}
		}
		found[tool.Name] = tool.Text
	}
	for name := range l.published {
		if _, ok := found[name]; !ok {
			l.opts.Remove(name)
		}
	}
	l.published = found
	return refused, nil
}

func add(tool Tool) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("elicitation upstream: tool %q: %v", tool.Name, reason)
		}
	}()
	tool.Add()
	return nil
}
