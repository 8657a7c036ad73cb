package mcpgo

import (
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// requestRoom is how many notifications of a request wait to be passed on. A handler that
	// sends more waits for half of them: the other half is for goroutines that send meanwhile.
	requestRoom = 128
	// sessionRoom is how many notifications of a session wait. Whoever sends to all sessions must
	// not wait for one of them, so mcp-go refuses what exceeds it, and calls its OnError hooks.
	sessionRoom = 1024
)

// An outbox passes on notifications, in order. mcp-go drops what does not fit into the channel of a
// session at once. The goroutine that empties the channel runs from the first notification on.
type outbox struct {
	send func(mcp.JSONRPCNotification)
	room int

	mu     sync.Mutex
	queue  chan mcp.JSONRPCNotification // nil: nothing was sent
	syncs  chan chan struct{}           // closed in turn when the queue has been emptied
	stop   chan struct{}
	ended  chan struct{}
	closed bool
}

// open returns the channel for notifications. Those of a request wait for room. What is sent after
// close is lost.
func (o *outbox) open() chan<- mcp.JSONRPCNotification {
	o.mu.Lock()
	if o.queue == nil && !o.closed {
		o.queue, o.syncs = make(chan mcp.JSONRPCNotification, o.room), make(chan chan struct{})
		o.stop, o.ended = make(chan struct{}), make(chan struct{})
		go o.passOn()
	}
	queue := o.queue
	o.mu.Unlock()
	if o.room == requestRoom && len(queue) >= requestRoom/2 {
		o.flush()
	}
	return queue
}

func (o *outbox) passOn() {
	defer close(o.ended)
	for {
		select {
		case n := <-o.queue:
			o.send(n)
		case done := <-o.syncs:
			o.empty()
			close(done)
		case <-o.stop:
			o.empty()
			return
		}
	}
}

func (o *outbox) empty() {
	for len(o.queue) > 0 {
		o.send(<-o.queue)
	}
}

// flush waits until what has been sent so far is passed on.
func (o *outbox) flush() {
	o.mu.Lock()
	unused := o.queue == nil
	o.mu.Unlock()
	if unused {
		return
	}
	done := make(chan struct{})
	select {
	case o.syncs <- done:
		<-done
	case <-o.ended:
	}
}

// abandon ends the goroutine, and does not wait for it.
func (o *outbox) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && o.queue != nil {
		close(o.stop)
	}
	o.closed = true
}

// close passes on what has been sent, and ends the goroutine.
func (o *outbox) close() {
	o.abandon()
	o.flush()
}
