package clienthttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// answerLimit is the server's time to accept an answer. answerPause is the wait before a retry.
	answerLimit  = 30 * time.Second
	answerPause  = 250 * time.Millisecond
	noticeLimit  = 2 * time.Second // for the server to accept a cancellation or session end
	verdictLimit = 2 * time.Second // for the server to answer requests of a lost session
	// listenGrace is how long opening a session waits for the session's stream, which the first
	// call may need. Some servers send no header before they have an event.
	listenGrace  = 300 * time.Millisecond
	maxSessionID = 1 << 10 // longest session id: every request carries it
)

const (
	headerSession   = "Mcp-Session-Id"
	headerLastEvent = "Last-Event-Id"
)

// A session is a session of a legacy revision (basic/transports of revision 2025-11-25, "Session
// Management"). Server requests arrive on the stream of their request or on the session's.
type session struct {
	transport *Transport
	back      protocol.BackCaller
	id        string // empty if the server uses none
	version   protocol.Version
	slots     chan struct{} // one per running request of the server

	life       context.Context // everything in the session ends with it
	end        context.CancelCauseFunc
	accepted   chan struct{} // signalled after a message whose credentials were accepted
	notices    notices
	endOnce    sync.Once
	listenOnce sync.Once
	pingFailed atomic.Bool // the server refused a ping, so it has lost the session
}

var _ protocol.LegacySession = (*session)(nil)

// OpenSession implements [protocol.LegacyPeer]. The session keeps the values of ctx, not its end.
func (t *Transport) OpenSession(ctx context.Context, initialize *protocol.Request,
	back protocol.BackCaller) (protocol.LegacySession, *protocol.Response, error) {
	s := &session{
		transport: t, back: back,
		slots: make(chan struct{}, protocol.MaxBackCalls), accepted: make(chan struct{}, 1),
	}
	s.notices.ended = sync.NewCond(&s.notices.mu)
	s.life, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	resp, err := s.initialize(ctx, initialize)
	if err != nil || resp.Error != nil {
		_ = s.Close()
		return nil, resp, err
	}
	return s, resp, nil
}

func (s *session) initialize(ctx context.Context,
	initialize *protocol.Request) (*protocol.Response, error) {
	x, err := s.postMessage(ctx, initialize)
	if err != nil {
		return nil, err
	}
	id := x.resp.Header.Get(headerSession)
	resp, err := s.readResponse(ctx, x, initialize.ID, s.back)
	if err != nil || resp.Error != nil {
		return resp, err
	}
	// A header repeats the id. Empty means none.
	isInvisible := func(r rune) bool { return r < 0x21 || r > 0x7e }
	if len(id) > maxSessionID || strings.ContainsFunc(id, isInvisible) {
		return nil, errors.New("clienthttp: initialize: session id is not visible ASCII, or too " +
			"long")
	}
	s.id = id
	result, err := protocol.DecodeResult(protocol.V20251125, initialize.Method, resp.Result)
	agreed, ok := result.(*protocol.InitializeResult)
	if err == nil && ok && agreed.ProtocolVersion.Known() {
		s.version = agreed.ProtocolVersion
	}
	return resp, nil
}

func (s *session) buildHeader(accept string) http.Header {
	h := s.transport.callerHeader(6)
	h["Accept"] = []string{accept}
	for name, value := range map[string]string{headerSession: s.id,
		headerVersion: string(s.version)} {
		delete(h, name)
		if value != "" {
			h[name] = []string{value}
		}
	}
	return h
}

func (s *session) postMessage(ctx context.Context, m protocol.Message) (*httpExchange, error) {
	h := s.buildHeader(mediaJSON + ", " + mediaSSE)
	h["Content-Type"] = []string{mediaJSON}
	body, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return nil, errPrefix.Errorf("%w", err)
	}
	x, err := s.transport.sendRequest(ctx, outgoingOf(m), h, body)
	if err == nil && !x.isRefused {
		select {
		case s.accepted <- struct{}{}: // wakes awaitAccepted
		default:
		}
	}
	return x, withoutEffect(err)
}

// sessionContext returns a context that ends with the session. If the server has lost the session,
// requests already sent get verdictLimit to learn whether they ran.
func (s *session) sessionContext(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() {
		cause := context.Cause(s.life)
		if errors.Is(cause, protocol.ErrSessionGone) {
			_ = waiting.Sleep(ctx, verdictLimit)
		}
		cancel(cause)
	})
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}

var errAnswered = errors.New("clienthttp: the request has been answered") // ends questions

// Handle implements [protocol.Peer]. If allowed, it resumes a stream that breaks before the
// response. When ctx ends it sends a cancellation: legacy servers ignore a closed connection.
func (s *session) Handle(ctx context.Context, req *protocol.Request,
	back protocol.Back) (*protocol.Response, error) {
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, protocol.ErrNotRun)
	}
	running, cancel := s.sessionContext(ctx)
	defer cancel(errAnswered)
	var resp *protocol.Response
	x, err := s.postMessage(running, req)
	if err == nil {
		resp, err = s.readResponse(running, x, req.ID, back)
	}
	if err == nil {
		return resp, nil
	}
	if s.Err() == nil && (ctx.Err() != nil || errors.Is(err, errNoResponse)) {
		s.notices.start(func() { s.cancelRequest(context.WithoutCancel(ctx), req.ID) })
	}
	return nil, err
}

// The type notices counts the cancellations in flight.
type notices struct {
	mu      sync.Mutex
	running int
	ended   *sync.Cond // of mu: a cancellation has ended
}

func (n *notices) start(send func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running++
	go func() {
		send()
		n.mu.Lock()
		defer n.mu.Unlock()
		n.running--
		n.ended.Broadcast()
	}()
}

func (n *notices) await() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.running > 0 {
		n.ended.Wait()
	}
}

func (s *session) cancelRequest(ctx context.Context, id protocol.ID) {
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	_ = s.postNotice(ctx, &protocol.Notification{
		Method: protocol.NotifyCancelled, Params: []byte(`{"requestId":` + id.String() + `}`),
	})
}

func (s *session) readResponse(ctx context.Context, x *httpExchange, id protocol.ID,
	back protocol.Back) (*protocol.Response, error) {
	if x.resp.StatusCode == http.StatusOK && x.mediaType() == mediaSSE {
		e := &eventStream{session: s, ctx: ctx, want: id, back: back}
		return e.readToResponse(x)
	}
	resp, err := s.readSingleResponse(ctx, x, id)
	if err = x.closeWith(err); s.isRefusedWithoutID(x, resp, err) && s.pingSaysGone(ctx) {
		return nil, s.markGone(&StatusError{Status: x.resp.StatusCode, Header: x.resp.Header})
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// isRefusedWithoutID reports whether a request was refused with 400 and without its id: some
// servers do that for an unknown session, others for an invalid request. pingSaysGone decides.
func (s *session) isRefusedWithoutID(x *httpExchange, resp *protocol.Response, err error) bool {
	if x.resp.StatusCode != http.StatusBadRequest || s.id == "" || s.Err() != nil {
		return false
	}
	if err == nil {
		return resp.ID.IsZero()
	}
	said, ok := errors.AsType[*StatusError](err)
	return ok && said.response == nil
}

// pingSaysGone reports whether the server refuses a ping in the session too. No response means no.
func (s *session) pingSaysGone(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	ping := &protocol.Request{
		ID: protocol.StringID("session-" + uuid.NewString()), Method: protocol.MethodPing,
	}
	x, err := s.postMessage(ctx, ping)
	if err != nil {
		return false
	}
	if x.mediaType() == mediaSSE {
		return x.closeWith(errBroken) == nil // the server answers the ping
	}
	resp, err := x.readResponse(ping.ID, nil)
	err = x.closeWith(err)
	return x.resp.StatusCode == http.StatusNotFound || s.isRefusedWithoutID(x, resp, err)
}

const codeNoSession = -32001 // unknown session

// readSingleResponse reads a response that is not a stream. Status 404 without an answer ends the
// session. The request has not run if a ping is refused too (handlers and proxies have their own
// 404s), unless a header reports a later end of the session.
func (s *session) readSingleResponse(ctx context.Context, x *httpExchange, id protocol.ID) (
	*protocol.Response, error) {
	status := x.resp.StatusCode
	resp, err := x.readResponse(id, nil)
	if status != http.StatusNotFound || s.id == "" {
		return resp, err
	}
	if err == nil && resp.ID == id && (resp.Error == nil || resp.Error.Code != codeNoSession) {
		return resp, nil // some servers send 404 with their answer, as modern ones do
	}
	said := &StatusError{Status: status, Header: x.resp.Header}
	if s.pingSaysGone(ctx) {
		s.pingFailed.Store(true)
	}
	err = s.markGone(said)
	if s.pingFailed.Load() && x.resp.Header.Get(rules.HeaderOutcome) == "" {
		err = fmt.Errorf("%w: %w", err, protocol.ErrNotRun) // other requests may have run
	}
	return nil, err
}

func (s *session) markGone(said error) error {
	err := errPrefix.Errorf("%w: %w", protocol.ErrSessionGone, said)
	s.endSession(err)
	return err
}

// Notify implements [protocol.Peer]. After notifications/initialized it opens the session's stream.
func (s *session) Notify(ctx context.Context, n *protocol.Notification) error {
	if err := s.Err(); err != nil {
		return err
	}
	if err := s.postNotice(ctx, n); err != nil {
		return err
	}
	if n.Method == protocol.NotifyInitialized {
		s.listenOnce.Do(func() { s.startListening(ctx) })
	}
	return nil
}

func (s *session) startListening(ctx context.Context) {
	opened := make(chan struct{})
	go s.listenToServer(opened)
	ctx, cancel := context.WithTimeout(ctx, listenGrace)
	defer cancel()
	select {
	case <-opened:
	case <-ctx.Done():
	}
}

// listenToServer reads the session's stream, if there is one. It closes opened after one attempt.
func (s *session) listenToServer(opened chan struct{}) {
	e := &eventStream{session: s, ctx: s.life, back: s.back}
	for first := true; ; first = false {
		select {
		case <-s.accepted: // forget earlier acceptance
		default:
		}
		x, err := e.openConnection()
		if first {
			close(opened)
		}
		if err == nil {
			_, err = e.readConnection(x)
			err = x.closeWith(err)
		}
		switch {
		case s.Err() != nil:
			return
		case isUnauthorized(err):
			if !s.awaitAccepted() {
				return
			}
		case !errors.Is(err, errBroken):
			return // the server would send the bad event (for example, one too large) again
		}
		e.countAttempt()
		if e.awaitRetry() != nil {
			return
		}
	}
}

// awaitAccepted waits until the server has accepted credentials since listenToServer's last
// attempt, so that the authorizer does not keep prompting the user. False: the session has ended.
func (s *session) awaitAccepted() bool {
	select {
	case <-s.accepted:
		return true
	case <-s.Done():
	case <-s.transport.life.Done():
	}
	return false
}

// postNotice sends a message without a response: a notification, or an answer to the server.
func (s *session) postNotice(ctx context.Context, m protocol.Message) error {
	ctx, cancel := s.sessionContext(ctx)
	defer cancel(nil)
	x, err := s.postMessage(ctx, m)
	if err != nil {
		return err
	}
	err = x.checkAccepted()
	if x.isRefused {
		err = errPrefix.Errorf("%w: %w", errUnauthorized, err)
	}
	if x.resp.StatusCode == http.StatusNotFound && s.id != "" {
		err = s.markGone(err)
	}
	return x.closeWith(err)
}

// sendAnswer sends a response until the server accepts or refuses it, because it may be a user's
// answer. The server ignores a second copy. asked ends when the server stops waiting.
func (s *session) sendAnswer(asked context.Context, resp *protocol.Response) {
	var clock waiting.Clock // a login may wait for the user
	ctx := clock.WithTimeout(context.WithoutCancel(asked), answerLimit)
	defer ctx.Release()
	for pause := answerPause; ; pause *= 2 {
		err := s.postNotice(ctx, resp)
		said, isStatus := errors.AsType[*StatusError](err)
		if err == nil || isUnauthorized(err) || isStatus && isRequestFault(said.Status) {
			return
		}
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		case <-asked.Done():
			return
		case <-s.Done():
			return
		case <-s.transport.life.Done():
			return
		}
	}
}

func (s *session) Done() <-chan struct{} { return s.life.Done() }

func (s *session) Err() error { return context.Cause(s.life) }

func (s *session) endSession(err error) (first bool) {
	s.endOnce.Do(func() {
		first = true
		s.end(err)
	})
	return first
}

// Close ends the session on the server (DELETE), after pending cancellations: some servers run
// requests on when their session ends. It waits up to noticeLimit for each.
func (s *session) Close() error {
	s.notices.await()
	if !s.endSession(errClosed) || s.id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.life), noticeLimit)
	defer cancel()
	h := s.buildHeader(mediaJSON)
	x, err := s.transport.sendRequest(ctx, Outgoing{Method: http.MethodDelete}, h, nil)
	if err != nil {
		return err
	}
	if x.resp.StatusCode == http.StatusMethodNotAllowed {
		return x.closeWith(nil) // the server does not let clients end sessions
	}
	return x.closeWith(x.checkAccepted())
}
