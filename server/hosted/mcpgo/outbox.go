package mcpgo

import (
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// requestRoom is the queue length of a request's notifications. The handler blocks at half of
	// that, so that other goroutines can send.
	requestRoom = 128
	// sessionRoom is the queue length of a session's notifications. Broadcasts must not wait for
	// one session, so mcp-go drops the excess, and calls its OnError hooks.
	sessionRoom = 1024
)

// An outbox sends notifications in order. mcp-go drops those that do not fit into a session's
// channel. The goroutine that empties the channel starts with the first notification.
type outbox struct {
	send func(mcp.JSONRPCNotification)
	room int

	mu     sync.Mutex
	queue  chan mcp.JSONRPCNotification // nil: nothing was sent
	syncs  chan chan struct{}           // each closed when the queue is empty
	stop   chan struct{}
	ended  chan struct{}
	closed bool
}

// open returns the channel for notifications; for a request it waits until there is room.
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

// flush waits until earlier messages have been sent.
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

// abandon ends the goroutine without waiting.
func (o *outbox) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && o.queue != nil {
		close(o.stop)
	}
	o.closed = true
}

// close sends the queued notifications, and ends the goroutine.
func (o *outbox) close() {
	o.abandon()
	o.flush()
}
