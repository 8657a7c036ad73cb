package bridge

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/sleep"
	"github.com/rondo-mcp/rondo/protocol"
)

// A progressFunc sends progress to the client of a request.
type progressFunc = func(context.Context, *protocol.Progress)

// A listener gets the progress of a call while a request of its client waits.
type listener struct {
	ctx    context.Context // of the request
	cancel context.CancelFunc

	mu   sync.Mutex
	send progressFunc // nil: the request no longer waits
}

// newListener returns a listener that passes progress to send, nil if send is nil.
func newListener(ctx context.Context, send progressFunc) *listener {
	if send == nil {
		return nil
	}
	l := &listener{send: send}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// addListenerLocked adds l, which may be nil.
func (c *parkedCall) addListenerLocked(l *listener) {
	if l != nil {
		c.listeners = append(c.listeners, l)
	}
}

// removeListener removes l, which may be nil, and waits for what it sends.
func (c *parkedCall) removeListener(l *listener) {
	if l == nil {
		return
	}
	c.mu.Lock()
	c.listeners = slices.DeleteFunc(c.listeners, func(o *listener) bool { return o == l })
	c.mu.Unlock()
	l.stop()
}

// stop waits for what l, which may be nil, sends. It sends nothing more.
func (l *listener) stop() {
	if l == nil {
		return
	}
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.send = nil
}

// DeliverProgress implements [elicitation.ProgressDeliverer]. Progress for which no request waits
// is dropped.
func (c asker) DeliverProgress(ctx context.Context, p *protocol.Progress) error {
	c.mu.Lock()
	listeners := slices.Clone(c.listeners)
	c.mu.Unlock()
	for _, l := range listeners {
		l.deliver(ctx, p)
	}
	return nil
}

func (l *listener) deliver(ctx context.Context, p *protocol.Progress) {
	defer context.AfterFunc(ctx, l.cancel)()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.send != nil {
		l.send(l.ctx, p)
	}
}

// A progressMessage takes progress of a call to another replica, where a request waits for it.
type progressMessage struct {
	Waiter   string             `json:"waiter"`
	Progress *protocol.Progress `json:"progress"`
}

// sendProgress sends progress to the replica of a request until ctx ends.
func (f *fleet) sendProgress(ctx context.Context, remote *remoteRequest) {
	for {
		select {
		case p := <-remote.progress:
			f.sendOneProgress(ctx, remote, p)
		case <-ctx.Done():
			return
		}
		if sleep.For(ctx, progressInterval) != nil {
			return
		}
	}
}

func (f *fleet) sendOneProgress(
	ctx context.Context, remote *remoteRequest, p *protocol.Progress,
) {
	data, err := json.Marshal(progressMessage{remote.waiter, p})
	if err != nil || len(data) > elicitation.MaxBusMessage {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	// It may be lost; the outcome follows.
	_, _ = f.bridge.opts.Bus.SendTo(ctx, remote.replica, keyProgress, data)
}

// handleProgress passes progress on to the request that waits for it. A message that was
// overtaken by a later one is dropped.
func (f *fleet) handleProgress(message []byte) {
	var m progressMessage
	if json.Unmarshal(message, &m) != nil || m.Progress == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.waiters[m.Waiter]
	if w == nil || w.progress == nil || w.reported && m.Progress.Progress <= w.last {
		return
	}
	w.reported, w.last = true, m.Progress.Progress
	replaceLast(w.progress, m.Progress)
}
