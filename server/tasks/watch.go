package tasks

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
)

const readEvery = time.Second // for changes by other replicas

// A reader reads one task for all its watchers in this process. Tasks.mu guards fields except poke.
type reader struct {
	poke     chan struct{} // the task has changed here
	stop     context.CancelFunc
	watchers map[*watcher]bool
	rec      *record // the last one read, immutable; nil: none
	number   int64
	gone     bool
}

// A watcher is notified of changes of some tasks.
type watcher struct {
	wake    chan struct{}
	changed map[[32]byte]bool // since take was called, under the lock of the tasks
}

// watch notifies a watcher of the current state and of changes of some tasks, until stop is called.
func (t *Tasks) watch(ids ...[32]byte) (w *watcher, stop func()) {
	w = &watcher{wake: make(chan struct{}, 1), changed: map[[32]byte]bool{}}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		r := t.readers[id]
		if r == nil {
			ctx, cancel := context.WithCancel(context.Background())
			r = &reader{poke: make(chan struct{}, 1), stop: cancel, watchers: map[*watcher]bool{}}
			t.readers[id] = r
			go t.read(ctx, id, r)
		}
		r.watchers[w] = true
		if r.rec != nil || r.gone {
			w.signalLocked(id)
		}
	}
	return w, func() {
		for _, id := range ids {
			t.unwatch(w, id)
		}
	}
}

func (t *Tasks) unwatch(w *watcher, id [32]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.readers[id]
	if r == nil || !r.watchers[w] {
		return
	}
	if delete(r.watchers, w); len(r.watchers) == 0 {
		r.stop()
		delete(t.readers, id)
	}
}

func (w *watcher) signalLocked(id [32]byte) {
	w.changed[id] = true
	signal(w.wake)
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// take returns the tasks changed since the last call, nil for dropped ones.
func (t *Tasks) take(w *watcher) map[[32]byte]*record {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := make(map[[32]byte]*record, len(w.changed))
	for id := range w.changed {
		if r := t.readers[id]; r != nil && r.watchers[w] {
			changed[id] = r.rec
		}
	}
	clear(w.changed)
	return changed
}

func (t *Tasks) announce(id [32]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.readers[id]; r != nil {
		signal(r.poke)
	}
}

// read reads a task after local changes, and each second for others' changes, until ctx ends.
func (t *Tasks) read(ctx context.Context, id [32]byte, r *reader) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		t.readOnce(ctx, id, r)
		select {
		case <-ctx.Done():
			return
		case <-r.poke:
		case <-tick.C:
		}
	}
}

func (t *Tasks) readOnce(ctx context.Context, id [32]byte, r *reader) {
	task, err := t.store.GetTask(ctx, id)
	var rec *record
	switch gone := errors.Is(err, store.ErrNoTask); {
	case ctx.Err() != nil:
		return
	case err != nil && !gone:
		t.reportStore(ctx, "get", err)
		return
	case !gone:
		if r.rec != nil && task.Number == r.number && !r.rec.hasExpired(time.Now()) {
			return
		}
		if rec, err = t.open(ctx, task); err != nil {
			t.reportStore(ctx, "open", err)
			return
		}
		if err = t.expire(context.WithoutCancel(ctx), task, rec); err != nil {
			if !errors.Is(err, store.ErrTaskChanged) {
				t.reportStore(ctx, "put", err)
			}
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.gone = rec == nil; !r.gone {
		r.number = task.Number
	}
	r.rec = rec
	for w := range r.watchers {
		w.signalLocked(id)
	}
}

func (t *Tasks) listen(ctx context.Context, call *server.ExtensionCall, ids []string) (
	[]string, server.Announce, error) {
	var heard []string
	told := map[[32]byte]time.Time{} // when each was changed last, as the client knows it
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for _, id := range ids {
		one := &server.ExtensionCall{Call: call.Call,
			Params: &protocol.TaskParams{TaskID: id}, Target: id}
		_, _, err := t.find(ctx, one)
		if err == nil {
			heard = append(heard, id)
			told[digestID(id)] = time.Time{}
		} else if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeInvalidParams {
			return nil, nil, err
		}
	}
	if len(heard) == 0 {
		return nil, nil, nil
	}
	return heard, func(ctx context.Context, send func(*protocol.Notification) error) {
		t.announceChanges(ctx, call, told, send)
	}, nil
}

// announceChanges sends the tasks now and after each change, until they are over.
func (t *Tasks) announceChanges(ctx context.Context, call *server.ExtensionCall,
	told map[[32]byte]time.Time, send func(*protocol.Notification) error) {
	w, stop := t.watch(slices.Collect(maps.Keys(told))...)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		for id, r := range t.take(w) {
			over, err := t.announceOne(ctx, call, r, told[id], send)
			if err != nil {
				return
			}
			if over {
				t.unwatch(w, id)
			} else {
				told[id] = r.Updated
			}
		}
	}
}

// announceOne sends a task if it changed after told, and reports whether it is over or gone.
func (t *Tasks) announceOne(ctx context.Context, call *server.ExtensionCall, r *record,
	told time.Time, send func(*protocol.Notification) error) (over bool, err error) {
	if r == nil || !t.mayHave(ctx, call, r) {
		return true, nil
	}
	task, err := t.show(r, call.Capabilities())
	if err != nil || task.Updated.Equal(told) {
		return false, nil
	}
	params, err := protocol.EncodeTask(task)
	if err != nil {
		return true, nil
	}
	return task.IsOver(), send(&protocol.Notification{Method: protocol.NotifyTask, Params: params})
}

// noteReadOf is noteRead for a task that a reader has read.
func (t *Tasks) noteReadOf(ctx context.Context, id [32]byte) {
	task, err := t.store.GetTask(ctx, id)
	if err != nil {
		return
	}
	if r, err := t.open(ctx, task); err == nil {
		t.noteRead(ctx, task, r)
	}
}
