package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/lineio"
	"github.com/rondo-mcp/rondo/protocol"
)

// An entry is a request that runs on a stream. Whoever takes it out of the
// entries of its stream decides how it ends.
type entry struct {
	id       protocol.ID
	method   string
	token    protocol.ProgressToken // zero: wants no progress
	level    protocol.LoggingLevel  // empty: wants no log messages
	back     protocol.Back          // nil: wants nothing
	inbox    *inbox
	sent     bool          // the server may know of it
	revoked  bool          // to be cancelled, once it is out
	timer    *time.Timer   // ends a subscription that the server cancelled
	answered chan struct{} // closed once response and err are set
	response *protocol.Response
	err      error
}

// add takes a request in.
func (s *Stream) add(req *protocol.Request, back protocol.Back) (*entry, error) {
	e := &entry{id: req.ID, method: req.Method, back: back, inbox: newInbox(s.opts.MaxLineBytes), answered: make(chan struct{})}
	if back != nil {
		e.token, e.level = wanted(req.Params)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if _, taken := s.entries[e.id]; taken {
		return nil, errPrefix.Errorf("a request with id %s is running", e.id)
	}
	s.entries[e.id] = e
	return e, nil
}

// wanted reads which notifications a request asks for.
func wanted(params []byte) (token protocol.ProgressToken, level protocol.LoggingLevel) {
	meta := metaIn(params)
	if raw, ok := meta.Get(protocol.MetaProgressToken); ok {
		token, _ = protocol.ParseID(raw)
	}
	if raw, ok := meta.Get(protocol.MetaLogLevel); ok {
		text, _ := jsonx.Text(raw)
		level = protocol.LoggingLevel(text)
	}
	return token, level
}

// metaIn returns the _meta of parameters, nil when there is none.
func metaIn(params []byte) (meta protocol.Meta) {
	if params == nil {
		return nil
	}
	_ = jsonx.Members(params, func(key, value []byte) error {
		if string(key) == "_meta" {
			meta = protocol.Meta(value)
		}
		return nil
	})
	return meta
}

// deliver hands over what has arrived for the request, in order.
func (e *entry) deliver(ctx context.Context) error {
	for {
		n := e.inbox.take()
		if n == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := e.back.Notify(ctx, n); err != nil {
			return err
		}
	}
}

// resolve ends a request, once. It is called with mu held.
func (s *Stream) resolve(id protocol.ID, response *protocol.Response, err error) {
	e := s.entries[id]
	if e == nil {
		return
	}
	delete(s.entries, id)
	if e.timer != nil {
		e.timer.Stop()
	}
	e.response, e.err = response, err
	close(e.answered)
}

// sent notes that a request is out.
func (s *Stream) sent(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.sent = true
	if e.revoked {
		s.cancel(e)
	}
}

// abandon ends a request and has the server told, unless it has been answered
// or never was sent (basic/patterns/cancellation).
func (s *Stream) abandon(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[e.id] != e {
		return
	}
	s.resolve(e.id, nil, ErrClosed)
	s.cancel(e)
}

// cancel has the pump tell the server, as soon as it knows of the request: what
// it sends may overtake the news that the request is out. An initialize request
// cannot be cancelled. It is called with mu held.
func (s *Stream) cancel(e *entry) {
	if e.revoked = true; !e.sent || e.method == protocol.MethodInitialize {
		return
	}
	s.revoke = append(s.revoke, e.id)
	select {
	case s.revoked <- struct{}{}:
	default:
	}
}

// read takes lines until the stream ends.
func (s *Stream) read(lines *lineio.Reader) {
	for {
		line, err := lines.Next()
		switch {
		case errors.Is(err, lineio.ErrTooLong):
			s.tooLong()
		case err != nil:
			s.fail(err)
			return
		default:
			s.route(line)
		}
	}
}

// tooLong fails the requests that run: the message was the response to one of
// them, most likely, and which one cannot be known. The result of a
// subscription is never long.
func (s *Stream) tooLong() {
	err := errPrefix.Errorf("%w: longer than %d bytes", ErrMessageTooLong, s.opts.MaxLineBytes)
	s.mu.Lock()
	for id, e := range s.entries {
		if e.method != protocol.MethodListen {
			s.resolve(id, nil, err)
			s.cancel(e)
		}
	}
	s.mu.Unlock()
	s.violation(err)
}

func (s *Stream) violation(err error) {
	if err != nil && s.opts.Violation != nil {
		s.opts.Violation(err)
	}
}

// route hands one message to whom it belongs.
func (s *Stream) route(line []byte) {
	message, err := protocol.DecodeMessage(line)
	if err != nil {
		m, ok := message.(*protocol.Request)
		x := s.sessionNow()
		if ok && x != nil && x.malformed(line, m.ID, err) {
			return
		}
		if batch, is, bad := protocol.DecodeBatch(line); x != nil && is && bad == nil {
			for _, one := range batch { // revision 2025-03-26
				s.route(one)
			}
			return
		}
		if ok && s.unusable(m.ID, err) {
			return
		}
		s.violation(errPrefix.Errorf("line is no message: %w", err))
		return
	}
	switch m := message.(type) {
	case *protocol.Response:
		s.answer(m)
	case *protocol.Notification:
		s.notify(m, len(line))
	case *protocol.Request:
		if x := s.sessionNow(); x != nil {
			x.ask(m)
			return
		}
		// Modern servers ask by returning questions (basic/transports/stdio).
		s.violation(errPrefix.Errorf("server sent a request, %.64q: ignored", m.Method))
	}
}

// unusable fails the request that something which is no message bears the id
// of. It reports false when none does.
func (s *Stream) unusable(id protocol.ID, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[id]
	if e == nil {
		return false
	}
	s.resolve(id, nil, &ResponseError{e.method, err})
	return true
}

// answer ends the request that the response answers. A response to no request
// that runs comes too late, and is dropped.
func (s *Stream) answer(r *protocol.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.ID.IsZero() {
		s.resolve(r.ID, r, nil)
		return
	}
	// The server could not read the id. That is clear only while there is but
	// one request it can mean.
	if len(s.entries) == 1 {
		for id := range s.entries {
			s.resolve(id, r, nil)
		}
	}
}

// notify hands a notification of size bytes to the requests it belongs to, or
// to whoever takes nobody's.
func (s *Stream) notify(n *protocol.Notification, size int) {
	s.mu.Lock()
	var report error
	if x := s.session; x != nil && n.Method != protocol.NotifyProgress {
		s.mu.Unlock()
		s.violation(x.notify(n, size))
		return
	}
	if n.Method == protocol.NotifyCancelled {
		report = s.cancelledByServer(n.Params)
	} else if receivers := s.receivers(n); len(receivers) > 0 {
		report = s.deliver(receivers, n, size)
	} else if s.opts.Notification != nil && !s.others.put(n, size) {
		report = ErrOverrun
	}
	s.mu.Unlock()
	s.violation(report)
}

// deliver is called with mu held. Losing progress does no harm; a subscription
// that loses something is worth nothing any more.
func (s *Stream) deliver(receivers []*entry, n *protocol.Notification, size int) (report error) {
	for _, e := range receivers {
		if e.inbox.put(n, size) {
			continue
		}
		report = ErrOverrun
		if e.method == protocol.MethodListen {
			s.resolve(e.id, nil, ErrOverrun)
			s.cancel(e)
		}
	}
	return report
}

// receivers returns the requests that a notification belongs to. It is called
// with mu held.
func (s *Stream) receivers(n *protocol.Notification) (receivers []*entry) {
	if raw, ok := metaIn(n.Params).Get(protocol.MetaSubscriptionID); ok {
		id, err := protocol.ParseID(raw)
		if e := s.entries[id]; err == nil && e != nil && e.back != nil && e.method == protocol.MethodListen {
			receivers = append(receivers, e)
		}
		return receivers
	}
	var belongs func(*entry) bool
	switch n.Method {
	case protocol.NotifyProgress:
		var p protocol.Progress
		if jsonx.Decode(n.Params, &p) != nil || p.Token.IsZero() {
			return nil
		}
		belongs = func(e *entry) bool { return e.token == p.Token }
	case protocol.NotifyMessage:
		var m protocol.LogMessage
		if jsonx.Decode(n.Params, &m) != nil {
			return nil
		}
		belongs = func(e *entry) bool { return e.level.Valid() && m.Level.Severity() >= e.level.Severity() }
	default:
		return nil
	}
	for _, e := range s.entries {
		if e.back != nil && belongs(e) {
			receivers = append(receivers, e)
		}
	}
	if n.Method == protocol.NotifyMessage && len(receivers) > 1 {
		return nil // a guess could show one caller what concerns another
	}
	return receivers
}

// cancelledByServer handles the end of a subscription. Its result, which says
// that it ended in good order, may come right behind. It is called with mu
// held.
func (s *Stream) cancelledByServer(params []byte) error {
	var c protocol.Cancelled
	if err := jsonx.Decode(params, &c); err != nil {
		return errPrefix.Errorf("%s: %w", protocol.NotifyCancelled, err)
	}
	e := s.entries[c.RequestID]
	switch {
	case e == nil || e.timer != nil:
		return nil // it came too late
	case e.method != protocol.MethodListen:
		return errPrefix.Errorf("server cancelled a %.64q request: ignored", e.method)
	}
	e.timer = time.AfterFunc(resultGrace, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.entries[e.id] == e {
			s.resolve(e.id, nil, ErrSubscriptionEnded)
		}
	})
	return nil
}

// tell hands over what belongs to no request.
func (s *Stream) tell() {
	for {
		ended := false
		select {
		case <-s.others.wake:
		case <-s.ended:
			ended = true
		}
		for n := s.others.take(); n != nil; n = s.others.take() {
			s.opts.Notification(n)
		}
		if ended {
			return
		}
	}
}

// An inbox holds notifications for a receiver that takes its time, so that the
// goroutine that reads need not wait: the receiver may itself be waiting for a
// response.
type inbox struct {
	max  int           // bytes
	wake chan struct{} // holds one

	mu    sync.Mutex
	list  []queued
	bytes int
}

type queued struct {
	n    *protocol.Notification
	size int
}

func newInbox(max int) *inbox { return &inbox{max: max, wake: make(chan struct{}, 1)} }

// put reports whether there was room.
func (b *inbox) put(n *protocol.Notification, size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.list) >= maxQueued || (len(b.list) > 0 && b.bytes+size > b.max) {
		return false
	}
	b.list = append(b.list, queued{n, size})
	b.bytes += size
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return true
}

// take returns the oldest, nil when there is none.
func (b *inbox) take() *protocol.Notification {
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
