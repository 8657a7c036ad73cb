package clienthttp

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// answerLimit is how long a server may take to accept an answer to one of
	// its own requests. It need only take note. answerPause is how long to wait
	// before the first of the attempts that fit in.
	answerLimit = 30 * time.Second
	answerPause = 250 * time.Millisecond
	// noticeLimit is how long a server may take to hear that a request is
	// cancelled or a session over. Nobody waits for what it makes of that.
	noticeLimit = 2 * time.Second
	// listenGrace is how long opening a session waits for the server's stream:
	// a server may have to ask over it as soon as it is called. Some do not
	// answer before they have something to say.
	listenGrace = 300 * time.Millisecond
	// maxSessionID is how long a session id may be. It goes with every request.
	maxSessionID = 1 << 10
)

// The headers of sessions in canonical spelling.
const (
	headerSession   = "Mcp-Session-Id"
	headerLastEvent = "Last-Event-Id"
)

// A session is a session of a legacy revision (basic/transports of revision
// 2025-11-25, "Session Management"). The server's own requests come over the
// stream of the request that they relate to, or over one that the session opens
// for them.
type session struct {
	transport *Transport
	back      protocol.BackCaller
	id        string // empty: the server keeps none
	version   protocol.Version
	slots     chan struct{} // holds one for each request of the server that runs

	life       context.Context // what is done in the session ends with it
	cancel     context.CancelCauseFunc
	done       chan struct{}
	endOnce    sync.Once
	listenOnce sync.Once
}

var _ protocol.LegacySession = (*session)(nil)

// OpenSession implements [protocol.LegacyPeer]. Contexts that ctx is made of are
// kept for what the session does by itself, their ends are not.
func (t *Transport) OpenSession(ctx context.Context, initialize *protocol.Request, back protocol.BackCaller) (protocol.LegacySession, *protocol.Response, error) {
	s := &session{transport: t, back: back, slots: make(chan struct{}, protocol.MaxBackCalls), done: make(chan struct{})}
	s.life, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	resp, err := s.initialize(ctx, initialize)
	if err != nil || resp.Error != nil {
		_ = s.Close()
		return nil, resp, err
	}
	return s, resp, nil
}

// open delivers initialize and takes the session's id and version from the
// answer.
func (s *session) initialize(ctx context.Context, initialize *protocol.Request) (*protocol.Response, error) {
	x, err := s.postMessage(ctx, initialize)
	if err != nil {
		return nil, err
	}
	id := x.resp.Header.Get(headerSession)
	resp, err := s.readResponse(ctx, x, initialize.ID, s.back)
	if err != nil || resp.Error != nil {
		return resp, err
	}
	if !isValidSessionID(id) {
		return nil, errors.New("clienthttp: initialize: session id is not visible ASCII, or too long")
	}
	s.id = id
	result, err := protocol.DecodeResult(protocol.V20251125, initialize.Method, resp.Result)
	if agreed, ok := result.(*protocol.InitializeResult); err == nil && ok && agreed.ProtocolVersion.Known() {
		s.version = agreed.ProtocolVersion
	}
	return resp, nil
}

// visible reports whether an id may be repeated in a header. Empty is none.
func isValidSessionID(id string) bool {
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return false
		}
	}
	return len(id) <= maxSessionID
}

// header returns the headers of one request of the session.
func (s *session) buildHeader(ctx context.Context, accept string) (http.Header, error) {
	h, err := s.transport.callerHeader(ctx, 6)
	if err != nil {
		return nil, err
	}
	h["Accept"] = []string{accept}
	for name, value := range map[string]string{headerSession: s.id, headerVersion: string(s.version)} {
		delete(h, name)
		if value != "" {
			h[name] = []string{value}
		}
	}
	return h, nil
}

// post sends one message.
func (s *session) postMessage(ctx context.Context, m protocol.Message) (*httpExchange, error) {
	h, err := s.buildHeader(ctx, mediaJSON+", "+mediaSSE)
	if err != nil {
		return nil, err
	}
	h["Content-Type"] = []string{mediaJSON}
	body, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return nil, errPrefix.Errorf("%w", err)
	}
	return s.transport.sendHTTP(ctx, http.MethodPost, h, body)
}

// within derives a context that also ends with the session.
func (s *session) sessionContext(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}

// errAnswered is the cause with which what the server asks ends when it has
// answered the request that it asked for.
var errAnswered = errors.New("clienthttp: the request has been answered")

// Handle implements [protocol.Peer]. A stream that breaks before the response is
// taken up where it broke, if the server allows that. When ctx ends the server
// is told that the request is cancelled: a closed connection does not say so.
func (s *session) Handle(ctx context.Context, req *protocol.Request, back protocol.Back) (*protocol.Response, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	running, cancel := s.sessionContext(ctx)
	defer cancel(errAnswered)
	x, err := s.postMessage(running, req)
	if err == nil {
		var resp *protocol.Response
		if resp, err = s.readResponse(running, x, req.ID, back); err == nil {
			return resp, nil
		}
	}
	if s.Err() == nil && (ctx.Err() != nil || errors.Is(err, ErrNoResponse)) {
		go s.cancelRequest(context.WithoutCancel(ctx), req.ID)
	}
	return nil, err
}

// withdraw tells the server that nobody waits for a request any more.
func (s *session) cancelRequest(ctx context.Context, id protocol.ID) {
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	_ = s.postNotice(ctx, &protocol.Notification{
		Method: protocol.NotifyCancelled, Params: []byte(`{"requestId":` + id.String() + `}`),
	})
}

// response reads the answer to a request.
func (s *session) readResponse(ctx context.Context, x *httpExchange, id protocol.ID, back protocol.Back) (*protocol.Response, error) {
	if x.resp.StatusCode == http.StatusOK && x.mediaType() == mediaSSE {
		f := &eventStream{session: s, ctx: ctx, want: id, back: back}
		return f.readToResponse(x)
	}
	resp, err := s.readSingleResponse(x, id)
	if err = x.closeWith(err); s.isRefusedWithoutID(x, resp, err) && s.pingSaysGone(ctx) {
		return nil, s.markGone(&StatusError{Status: x.resp.StatusCode, Header: x.resp.Header})
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// withoutID reports whether a request of the session was refused with 400 and
// nothing that names it. Some servers refuse so what comes with the id of a
// session that they do not know, instead of with 404; others, what they cannot
// read.
func (s *session) isRefusedWithoutID(x *httpExchange, resp *protocol.Response, err error) bool {
	if x.resp.StatusCode != http.StatusBadRequest || s.id == "" || s.Err() != nil {
		return false
	}
	if err == nil {
		return resp.ID.IsZero()
	}
	said, ok := errors.AsType[*StatusError](err)
	return ok && said.Response == nil
}

// hasLost asks the server whether it still knows the session: with a request
// that no server has a reason to refuse, and that does nothing
// (basic/utilities/ping). A server that does not answer has not lost it.
func (s *session) pingSaysGone(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	ping := &protocol.Request{ID: protocol.StringID("session-" + uuid.NewString()), Method: protocol.MethodPing}
	x, err := s.postMessage(ctx, ping)
	if err != nil {
		return false
	}
	if x.mediaType() == mediaSSE {
		return x.closeWith(errBroken) == nil // it is served
	}
	resp, err := x.readResponse(ping.ID, nil)
	err = x.closeWith(err)
	return x.resp.StatusCode == http.StatusNotFound || s.isRefusedWithoutID(x, resp, err)
}

// answered reads an answer that is no stream.
func (s *session) readSingleResponse(x *httpExchange, id protocol.ID) (*protocol.Response, error) {
	status := x.resp.StatusCode
	resp, err := x.readResponse(id, nil)
	if status != http.StatusNotFound || s.id == "" {
		return resp, err
	}
	if err == nil && resp.ID == id && resp.Error.Code == protocol.CodeMethodNotFound {
		return resp, nil // of a server that has modern habits in legacy sessions
	}
	return nil, s.markGone(&StatusError{Status: status, Header: x.resp.Header})
}

// gone notes that the server does not know the session any more.
func (s *session) markGone(said error) error {
	err := errPrefix.Errorf("%w: %w", protocol.ErrSessionGone, said)
	s.endSession(err)
	return err
}

// Notify implements [protocol.Peer]. After notifications/initialized the stream
// for what the server says by itself is opened.
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

// startHearing opens the stream for what the server says by itself, and waits a little
// for it to be there.
func (s *session) startListening(ctx context.Context) {
	opened := make(chan struct{})
	go s.listenToServer(opened)
	timer := time.NewTimer(listenGrace)
	defer timer.Stop()
	select {
	case <-opened:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hear reads the stream of the session until that ends, or the server says that
// it has none.
func (s *session) listenToServer(opened chan struct{}) {
	f := &eventStream{session: s, ctx: s.life, back: s.back}
	for first := true; ; first = false {
		x, err := f.openConnection()
		if first {
			close(opened)
		}
		if err == nil {
			_, err = f.readConnection(x)
			err = x.closeWith(err)
		}
		if !errors.Is(err, errBroken) || s.Err() != nil {
			return // an event that is too large would only come again
		}
		f.countAttempt()
		if f.awaitRetry() != nil {
			return
		}
	}
}

func (s *session) postNotice(ctx context.Context, m protocol.Message) error {
	ctx, cancel := s.sessionContext(ctx)
	defer cancel(nil)
	x, err := s.postMessage(ctx, m)
	if err != nil {
		return err
	}
	err = x.checkAccepted()
	if x.resp.StatusCode == http.StatusNotFound && s.id != "" {
		err = s.markGone(err)
	}
	return x.closeWith(err)
}

// answer sends the response to a request of the server's. A person may have
// given it, so one that does not arrive is sent again: the server drops what it
// has already. When it is refused, the server will notice that it has none.
// asked ends when nobody waits for the answer any more.
func (s *session) sendAnswer(asked context.Context, resp *protocol.Response) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(asked), answerLimit)
	defer cancel()
	for pause := answerPause; ; pause *= 2 {
		err := s.postNotice(ctx, resp)
		said, isStatus := errors.AsType[*StatusError](err)
		if err == nil || isStatus && isRequestFault(said.Status) {
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
		case <-s.done:
			return
		case <-s.transport.life.Done():
			return
		}
	}
}

// Done implements [protocol.LegacySession].
func (s *session) Done() <-chan struct{} { return s.done }

// Err implements [protocol.LegacySession].
func (s *session) Err() error {
	select {
	case <-s.done:
		return context.Cause(s.life)
	default:
		return nil
	}
}

func (s *session) endSession(err error) (first bool) {
	s.endOnce.Do(func() {
		first = true
		s.cancel(err)
		close(s.done)
	})
	return first
}

// Close ends the session and tells the server (DELETE), which may take a moment
// and may fail.
func (s *session) Close() error {
	if !s.endSession(ErrClosed) || s.id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.life), noticeLimit)
	defer cancel()
	h, err := s.buildHeader(ctx, mediaJSON)
	if err != nil {
		return err
	}
	x, err := s.transport.sendHTTP(ctx, http.MethodDelete, h, nil)
	if err != nil {
		return err
	}
	if x.resp.StatusCode == http.StatusMethodNotAllowed {
		return x.closeWith(nil) // the server ends sessions itself
	}
	return x.closeWith(x.checkAccepted())
}
