package clienthttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Transport carries messages to a server over Streamable HTTP, one POST a
// message. It is a [protocol.Peer]; all methods may be called concurrently.
type Transport struct {
	endpoint     *url.URL
	client       http.Client
	ownTransport *http.Transport // nil when the client is the caller's
	fixedHeader  http.Header
	authorize    func(context.Context) (http.Header, error)
	maxBytes     int64

	// life ends when the transport is closed, and every request with it. It
	// belongs to the transport and to no request, which is why it is kept.
	life    context.Context
	endLife context.CancelCauseFunc
	mu      sync.Mutex // orders Close after the start of every running request
	running sync.WaitGroup
}

var _ protocol.Peer = (*Transport)(nil)

var _ protocol.LegacyPeer = (*Transport)(nil)

// New returns a transport to the server at endpoint, an absolute http or https
// URL. Nothing is sent before the first message. Nil options mean defaults.
func New(endpoint string, opts *Options) (*Transport, error) {
	u, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	t := &Transport{endpoint: u, maxBytes: DefaultMaxResponseBytes}
	if opts != nil {
		if opts.MaxResponseBytes > 0 {
			t.maxBytes = opts.MaxResponseBytes
		}
		t.authorize = opts.Authorize
		t.fixedHeader = make(http.Header, len(opts.Header))
		for name, values := range opts.Header {
			for _, v := range values {
				t.fixedHeader.Add(name, v)
			}
		}
		// Requests share the values: a round tripper that appends to one must
		// not write into what others read.
		for name, values := range t.fixedHeader {
			t.fixedHeader[name] = slices.Clip(values)
		}
	}
	if opts != nil && opts.HTTPClient != nil {
		t.client = *opts.HTTPClient
	} else {
		t.ownTransport = newOwnTransport()
		t.client.Transport = t.ownTransport
	}
	// A redirect would hand credentials and arguments to whoever the response
	// names; an endpoint that moved is for the caller to look at.
	t.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.life, t.endLife = context.WithCancelCause(context.Background())
	return t, nil
}

// Handle posts a request and returns the response to it. Notifications that
// come before it on a stream go to back in order; back may be nil. Ending ctx
// closes the stream, which tells the server to stop
// (basic/transports/streamable-http, "Cancellation").
//
// An HTTP error status whose body is an error message of the protocol is a
// response; others are a [*StatusError].
func (t *Transport) Handle(ctx context.Context, req *protocol.Request, back protocol.Back) (*protocol.Response, error) {
	x, err := t.postMessage(ctx, req, req.Method, &req.Mirror)
	if err != nil {
		return nil, err
	}
	resp, err := x.readResponse(req.ID, back)
	if err = x.closeWith(err); err != nil {
		return nil, err
	}
	return resp, nil
}

// Probe implements [protocol.LegacyPeer]. Signs of a legacy server are an error
// status that is about the request and has no error of a modern revision as its
// body, the same without the status, and an answer that only a legacy server
// gives (basic/transports/streamable-http, "Backward Compatibility").
func (t *Transport) Probe(ctx context.Context, req *protocol.Request) (*protocol.Response, bool, error) {
	x, err := t.postMessage(ctx, req, req.Method, &req.Mirror)
	if err != nil {
		return nil, false, err
	}
	status := x.resp.StatusCode
	resp, err := x.readResponse(req.ID, nil)
	if err = x.closeWith(err); err != nil {
		return nil, ctx.Err() == nil && (isRequestFault(status) || errors.Is(err, errServerRequest)), err
	}
	if resp.Error == nil || resp.Error.EraEvidence() {
		return resp, false, nil
	}
	return resp, status == http.StatusOK || isRequestFault(status), nil
}

// aboutRequest reports whether a status says that the request is at fault,
// rather than who sent it, when, or the server.
func isRequestFault(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}

// Notify posts a notification. Modern servers expect none over HTTP.
func (t *Transport) Notify(ctx context.Context, n *protocol.Notification) error {
	x, err := t.postMessage(ctx, n, n.Method, &protocol.Mirror{})
	if err != nil {
		return err
	}
	return x.closeWith(x.checkAccepted())
}

// Close abandons every request that is running and waits until each has let go
// of its connection. Later requests fail with [ErrClosed].
func (t *Transport) Close() error {
	t.mu.Lock()
	t.endLife(ErrClosed)
	t.mu.Unlock()
	t.running.Wait()
	if t.ownTransport != nil {
		t.ownTransport.CloseIdleConnections()
	}
	return nil
}

// CredentialsVary reports whether requests may carry the credentials of
// different users: whether [Options.Authorize] is set. A cache must know.
func (t *Transport) CredentialsVary() bool { return t.authorize != nil }

// ownTransport returns a transport like the default one, with a pool of its
// own that fits many calls to one host.
func newOwnTransport() *http.Transport {
	const idle = 32
	own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if std, ok := http.DefaultTransport.(*http.Transport); ok {
		own = std.Clone()
	}
	own.MaxIdleConnsPerHost = idle
	return own
}

// start counts a request as running, unless the transport is closed.
func (t *Transport) beginRequest() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.life.Err() != nil {
		return ErrClosed
	}
	t.running.Add(1)
	return nil
}

// post sends one message and returns once the header of the answer is there.
func (t *Transport) postMessage(ctx context.Context, m protocol.Message, method string, mirror *protocol.Mirror) (*httpExchange, error) {
	header, err := t.buildHeader(ctx, method, mirror)
	if err != nil {
		return nil, err
	}
	body, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return nil, errPrefix.Errorf("%w", err)
	}
	return t.sendHTTP(ctx, http.MethodPost, header, body)
}

// do sends one HTTP request and returns once the header of the answer is there.
// A nil body is none.
func (t *Transport) sendHTTP(ctx context.Context, method string, header http.Header, body []byte) (*httpExchange, error) {
	if err := t.beginRequest(); err != nil {
		return nil, err
	}
	x := &httpExchange{transport: t}
	// Linked to the caller's context by hand: the link is cut when the
	// response is there, though its stream may take a moment to end.
	x.ctx, x.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	x.unlinkCaller = context.AfterFunc(ctx, func() { x.cancel(context.Cause(ctx)) })
	x.unlinkLife = context.AfterFunc(t.life, func() { x.cancel(ErrClosed) })
	// Built by hand: http.NewRequest would parse the URL again. GetBody lets
	// net/http send again on a fresh connection what a stale one never took.
	hr := &http.Request{
		Method: method,
		URL:    t.endpoint,
		Host:   t.endpoint.Host,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header,
	}
	if body != nil {
		hr.Body = io.NopCloser(bytes.NewReader(body))
		hr.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		hr.ContentLength = int64(len(body))
	}
	var err error
	x.resp, err = t.client.Do(hr.WithContext(x.ctx))
	if err != nil {
		// *url.Error repeats the URL, whose query may hold a secret.
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		err = errPrefix.Errorf("%w", x.explainError(err))
		x.releaseAll()
		return nil, err
	}
	return x, nil
}
