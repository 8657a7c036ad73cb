package client

import (
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// receiveLine routes a line. A nil line was too long.
func (s *Stream) receiveLine(line []byte) error {
	if line == nil {
		s.failAfterLongLine()
	} else {
		s.routeLine(line)
	}
	return nil
}

// failAfterLongLine fails all running requests except subscriptions, whose results are short.
func (s *Stream) failAfterLongLine() {
	err := errPrefix.Errorf("%w: longer than %d bytes", errMessageTooLong, s.opts.MaxLineBytes)
	s.mu.Lock()
	for id, e := range s.requests {
		if e.method != protocol.MethodListen {
			s.finishRequestLocked(id, nil, err)
			s.cancelRequestLocked(e)
		}
	}
	s.mu.Unlock()
	s.reportViolation(err)
}

func (s *Stream) reportViolation(err error) {
	if err != nil && s.opts.Violation != nil {
		s.opts.Violation(err)
	}
}

func (s *Stream) routeLine(line []byte) {
	message, err := protocol.DecodeMessage(line)
	if err != nil {
		var id protocol.ID
		x := s.currentSession()
		switch m := message.(type) {
		case *protocol.Request:
			if x != nil && x.refuseMalformed(line, m.ID, err) {
				return
			}
			if !jsonx.HasMember(line, "method") { // the id is this client's
				id = m.ID
			}
		case *protocol.Response:
			id = m.ID
		}
		if batch, is, bad := protocol.DecodeBatch(line); x != nil && is && bad == nil {
			for _, one := range batch { // of revision 2025-03-26
				s.routeLine(one)
			}
			return
		}
		if s.failRequest(id, err) {
			return
		}
		s.reportViolation(errPrefix.Errorf("line is no message: %w", err))
		return
	}
	switch m := message.(type) {
	case *protocol.Response:
		s.deliverResponse(m)
	case *protocol.Notification:
		s.routeNotification(m, len(line))
	case *protocol.Request:
		if x := s.currentSession(); x != nil {
			x.answerRequest(m)
			return
		}
		// Modern servers ask by returning questions, not by requests (basic/transports/stdio).
		s.reportViolation(errPrefix.Errorf("server sent a request, %.64q: ignored", m.Method))
	}
}

// failRequest fails the request with an invalid message's id, and reports whether there is one.
func (s *Stream) failRequest(id protocol.ID, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.requests[id.Value()]
	if e == nil {
		return false
	}
	s.finishRequestLocked(e.id, nil, &ResponseError{e.method, err})
	return true
}

// deliverResponse finishes the request of a response. Late responses are dropped.
func (s *Stream) deliverResponse(r *protocol.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.ID.IsZero() {
		s.finishRequestLocked(r.ID, r, nil)
		return
	}
	// The server could not read the id. A single running request must be meant.
	if len(s.requests) == 1 {
		for id := range s.requests {
			s.finishRequestLocked(id, r, nil)
		}
	}
}

// routeNotification queues a notification. Unless it is progress, it must belong to a request.
func (s *Stream) routeNotification(n *protocol.Notification, size int) {
	s.mu.Lock()
	var report error
	if x := s.session; x != nil && n.Method != protocol.NotifyProgress {
		s.mu.Unlock()
		s.reportViolation(x.queueNotification(n, size))
		return
	}
	if n.Method == protocol.NotifyCancelled {
		report = s.handleCancelledLocked(n.Params)
	} else if receivers := s.findReceiversLocked(n); len(receivers) > 0 {
		report = s.queueNotificationLocked(receivers, n, size)
	} else if n.Method != protocol.NotifyProgress { // progress may be late
		report = errPrefix.Errorf("%.64q belongs to no request: dropped", n.Method)
	}
	s.mu.Unlock()
	s.reportViolation(report)
}

// queueNotificationLocked queues a notification. If the queue is full, the notification is dropped;
// this ends a subscription, but no other request.
func (s *Stream) queueNotificationLocked(receivers []*streamRequest, n *protocol.Notification,
	size int) (report error) {
	for _, e := range receivers {
		if e.queue.enqueue(n, size) {
			continue
		}
		report = errOverrun
		if e.method == protocol.MethodListen {
			s.finishRequestLocked(e.id, nil, errOverrun)
			s.cancelRequestLocked(e)
		}
	}
	return report
}

func (s *Stream) findReceiversLocked(n *protocol.Notification) (receivers []*streamRequest) {
	if raw, ok := metadataOf(n.Params).Get(protocol.MetaSubscriptionID); ok {
		id, err := protocol.ParseID(raw)
		e := s.requests[id]
		if err == nil && e != nil && e.back != nil && e.method == protocol.MethodListen {
			receivers = append(receivers, e)
		}
		return receivers
	}
	var belongs func(*streamRequest) bool
	switch n.Method {
	case protocol.NotifyProgress:
		var p protocol.Progress
		if jsonx.Decode(n.Params, &p) != nil || p.Token.IsZero() {
			return nil
		}
		belongs = func(e *streamRequest) bool { return e.token == p.Token }
	case protocol.NotifyMessage:
		var m protocol.LogMessage
		if jsonx.Decode(n.Params, &m) != nil {
			return nil
		}
		belongs = func(e *streamRequest) bool {
			return e.level.Valid() && m.Level.Severity() >= e.level.Severity()
		}
	default:
		return nil
	}
	for _, e := range s.requests {
		if e.back != nil && belongs(e) {
			receivers = append(receivers, e)
		}
	}
	if n.Method == protocol.NotifyMessage && len(receivers) > 1 {
		return nil // a guess could show a message to the wrong caller
	}
	return receivers
}

// handleCancelledLocked ends a subscription that the server cancelled, unless its result arrives
// within resultGrace.
func (s *Stream) handleCancelledLocked(params []byte) error {
	var c protocol.Cancelled
	if err := jsonx.Decode(params, &c); err != nil {
		return errPrefix.Errorf("%s: %w", protocol.NotifyCancelled, err)
	}
	e := s.requests[c.RequestID]
	switch {
	case e == nil || e.timer != nil:
		return nil // the subscription has already ended
	case e.method != protocol.MethodListen:
		return errPrefix.Errorf("server cancelled a %.64q request: ignored", e.method)
	}
	e.timer = time.AfterFunc(resultGrace, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.requests[e.id] == e {
			s.finishRequestLocked(e.id, nil, errSubscriptionEnded)
		}
	})
	return nil
}

// A notificationQueue decouples a receiver, which may block, from receiveLine, which must not.
type notificationQueue struct {
	maxBytes int           // limit of the queued bytes
	wake     chan struct{} // holds a value while the queue is not empty

	mu    sync.Mutex
	list  []queuedNotification
	bytes int
}

type queuedNotification struct {
	n    *protocol.Notification
	size int
}

func newNotificationQueue(max int) *notificationQueue {
	return &notificationQueue{maxBytes: max, wake: make(chan struct{}, 1)}
}

// enqueue reports whether there was room. An empty queue accepts any size.
func (b *notificationQueue) enqueue(n *protocol.Notification, size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.list) >= maxQueuedNotifications || (len(b.list) > 0 && b.bytes+size > b.maxBytes) {
		return false
	}
	b.list = append(b.list, queuedNotification{n, size})
	b.bytes += size
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return true
}

func (b *notificationQueue) dequeue() *protocol.Notification {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.list) == 0 {
		return nil
	}
	first := b.list[0]
	b.list = b.list[1:]
	b.bytes -= first.size
	return first.n
}
